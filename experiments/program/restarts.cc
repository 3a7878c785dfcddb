#include "experiments/program/restarts.h"

#include <stdlib.h>

#include <filesystem>
#include <map>
#include <optional>
#include <stdexcept>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "backends/launch/ending.h"
#include "core/base/errors.h"
#include "core/base/format.h"
#include "core/base/status.h"
#include "core/base/strings.h"
#include "core/io/checkpoint_folder.h"
#include "experiments/program/cli/log.h"
#include "experiments/program/continuation.h"
#include "experiments/program/report/write_report.h"

namespace twofold {
namespace {

namespace fs = std::filesystem;

// A folder of its own for what the processes of one attempt leave behind.
class EndingsFolder {
 public:
  EndingsFolder() : path_((fs::temp_directory_path() / "twofold-endings-XXXXXX").string()) {
    if (mkdtemp(path_.data()) == nullptr) throw std::runtime_error(StrCat("launch: cannot create the folder ", path_));
  }
  ~EndingsFolder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  EndingsFolder(const EndingsFolder&) = delete;
  EndingsFolder& operator=(const EndingsFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

struct Loss {
  int ranks = 0;     // that were lost
  std::string what;  // "lost rank 1: its process (process 4711 on node3) has ended"
};

// What was lost, if that is why the run failed; else why the run is not started again.
absl::StatusOr<Loss> LossOf(const std::map<int, absl::Status>& endings, int ranks) {
  if (endings.empty()) return FailedPrecondition("no rank has lived to tell how the run ended");
  const absl::Status& first = endings.begin()->second;
  const RankFailure::Kind kind = FailureKind(first);
  if (!first.ok() && kind == RankFailure::Kind::kInterrupted) return FailedPrecondition("a signal ended it");
  const int lost = ranks - static_cast<int>(endings.size());
  const bool too_many = kind == RankFailure::Kind::kRunOver && lost > 0;  // for an elastic run to go on within
  if (first.ok() || (kind != RankFailure::Kind::kPeerLost && kind != RankFailure::Kind::kTimedOut && !too_many))
    return FailedPrecondition("it did not fail because a rank was lost");
  const std::string message(first.message());
  return Loss{lost, message.substr(0, message.find(';'))};
}

int64_t LatestSequence(const std::string& folder) {
  const std::vector<checkpoint::Found> found = checkpoint::List(folder);
  return found.empty() ? 0 : found.front().sequence;
}

// The latest good checkpoint with a greater sequence number than `before`.
std::optional<checkpoint::Opened> LatestSince(const std::string& folder, int64_t before) {
  for (const checkpoint::Found& found : checkpoint::List(folder)) {
    if (found.sequence <= before) break;
    absl::StatusOr<checkpoint::Opened> opened = checkpoint::Open(found.path);
    if (opened.ok()) return *std::move(opened);
    LogWarning("launch: skips an unusable checkpoint: ", opened.status().message());
  }
  return std::nullopt;
}

class Restarts {
 public:
  Restarts(const RunWords& run, const RestartOptions& options)
      : run_(run),
        options_(options),
        checkpoints_(run.spec.train().checkpoint().has_path() ? run.spec.train().checkpoint().path()
                                                              : StrCat(run.out, "/checkpoints")),
        sequence_before_(LatestSequence(checkpoints_)),
        ranks_(options.ranks),
        dp_(run.spec.parallel().dp()) {}

  int Run(const std::function<Supervised(const Attempt&)>& start) {
    for (int restarts = 0;; ++restarts) {
      const EndingsFolder endings;
      report_before_ = ReportTime();
      const Supervised ended = start({ranks_, Words(), endings.path()});
      if (ended.exit_status == kExitFine || ended.exit_status == kExitWrongInput || ended.interrupted)
        return ended.exit_status;
      const absl::Status prepared = Prepare(restarts + 1, ReadEndings(endings.path()));
      if (prepared.ok()) continue;
      LogError("launch: the run is not started again: ", prepared.message());
      return ended.exit_status;
    }
  }

 private:
  std::vector<std::string> Words() const {
    std::vector<std::string> words;
    for (const std::string& set : sets_) words.push_back(StrCat("--set=", set));
    for (const std::string& note : notes_) words.push_back(StrCat("--note=", note));
    return words;
  }

  // When the folder's report was written; nullopt: it has none.
  std::optional<fs::file_time_type> ReportTime() const {
    std::error_code error;
    const auto time = fs::last_write_time(StrCat(run_.out, "/report.json"), error);
    return error ? std::nullopt : std::optional(time);
  }

  // Prepares attempt `restart` + 1, or says why there is none.
  absl::Status Prepare(int restart, const std::map<int, absl::Status>& endings) {
    const absl::StatusOr<Loss> loss = LossOf(endings, ranks_);
    if (!loss.ok()) return loss.status();
    if (restart > options_.restarts) return FailedPrecondition(loss->what, "; --restarts=", options_.restarts);
    const absl::StatusOr<Continuation> next =
        ContinueWith(run_, options_.fabric, ranks_ - loss->ranks, options_.least_ranks);
    if (!next.ok()) return FailedPrecondition(loss->what, "; ", std::string(next.status().message()));
    const std::optional<checkpoint::Opened> from = LatestSince(checkpoints_, sequence_before_);
    const spec::Train& train = run_.spec.train();
    if (from && train.has_steps() && from->manifest.metadata.step >= train.steps())
      return FailedPrecondition(loss->what, "; all steps are done and saved in ", from->path);
    absl::StatusOr<std::string> done = MoveAttempt(restart);
    if (!done.ok()) return done.status();
    const std::string change =
        StrCat(Counted(next->ranks, "rank"), " and parallel.dp = ", next->dp, " (before: ", ranks_, " and ", dp_, ")");
    const std::string note = StrCat("restart ", restart, " of at most ", options_.restarts, ": ", loss->what, "; ",
                                    *done, "; the run goes on ", From(from), " with ", change);
    LogWarning("launch: ", note);
    notes_.push_back(note);
    sets_ = next->sets;
    if (from) sets_.push_back(StrCat("train.resume=", from->path));
    ranks_ = next->ranks, dp_ = next->dp;
    return absl::OkStatus();
  }

  std::string From(const std::optional<checkpoint::Opened>& checkpoint) const {
    if (checkpoint) return StrCat("from ", checkpoint->path, ", after step ", checkpoint->manifest.metadata.step, ",");
    const std::string begin =
        run_.spec.train().has_resume() ? StrCat("from ", run_.spec.train().resume(), ", as it began,") : "anew";
    return StrCat(begin, ", because it had saved no checkpoint,");
  }

  // Moves the failed attempt's report out of the next one's way. Returns what it had done, and where its report is.
  absl::StatusOr<std::string> MoveAttempt(int attempt) const {
    if (const auto time = ReportTime(); !time || time == report_before_) {
      return StrCat("attempt ", attempt, " could not write a report, so its steps are missing");
    }
    const absl::StatusOr<report::Report> report = ReadReport(run_.out);
    if (!report.ok()) return report.status();
    const std::string to = StrCat(run_.out, "/attempt-", attempt);
    if (absl::Status moved = MoveReport(run_.out, to); !moved.ok()) return moved;
    const int64_t first = report->first_step(), last = first + report->steps_size();
    return last == first ? StrCat("no step was done, says the report in ", to)
                         : StrCat("steps ", first + 1, " to ", last, " are in the report in ", to);
  }

  const RunWords& run_;
  const RestartOptions& options_;
  const std::string checkpoints_;
  const int64_t sequence_before_;  // of the last checkpoint that another run left in the folder
  int ranks_;
  int64_t dp_;
  std::vector<std::string> sets_, notes_;  // of the next attempt
  std::optional<fs::file_time_type> report_before_;
};

}  // namespace

int RunWithRestarts(const RunWords& run, const RestartOptions& options,
                    const std::function<Supervised(const Attempt&)>& start) {
  return Restarts(run, options).Run(start);
}

}  // namespace twofold
