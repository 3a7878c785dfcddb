#include "experiments/program/sweep_runs.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <xxhash.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "backends/host/interrupt.h"
#include "backends/registry.h"
#include "core/base/status.h"
#include "core/base/strings.h"
#include "core/proto/fabric_name.h"
#include "experiments/program/cli/status_line.h"
#include "experiments/program/predict/predictor.h"
#include "experiments/program/report/files.h"
#include "experiments/program/report/write_report.h"
#include "experiments/program/spec/elastic.h"
#include "experiments/program/spec/spec.h"
#include "experiments/program/warden.h"

namespace twofold {
namespace {

constexpr char kAsked[] = "asked.textproto";
constexpr double kTimeToEnd = 10;  // seconds, from SIGTERM to SIGKILL
constexpr size_t kLongestName = 100;
constexpr int kRunCannotStart = 127;

std::string PointName(const sweep::Points& points, const sweep::Point& point) {
  std::vector<std::string> parts;
  for (size_t v = 0; v < points.varied.size(); ++v)
    parts.push_back(StrCat(points.varied[v].path, "=", point.values[v]));
  return parts.empty() ? "spec" : absl::StrJoin(parts, ",");
}

// As a folder's name. What cannot be in one is replaced, and a hash keeps such names apart.
std::string FolderName(const std::string& point) {
  std::string name;
  for (const char c : point) {
    const bool plain = absl::ascii_isalnum(static_cast<unsigned char>(c)) || std::strchr("._=,-+", c) != nullptr;
    name += plain ? c : '_';
  }
  if (name == point && name.size() <= kLongestName) return name;
  return StrCat(name.substr(0, kLongestName), "-", absl::StrFormat("%016x", XXH3_64bits(point.data(), point.size())));
}

// The report of an earlier run of this spec, unless that failed. Predicted failures come again.
std::optional<report::Report> KeptReport(const std::string& folder, const std::string& asked) {
  const absl::StatusOr<std::string> before = ReadFile(StrCat(folder, "/", kAsked));
  if (!before.ok() || *before != asked) return std::nullopt;
  absl::StatusOr<report::Report> report = ReadReport(folder);
  if (!report.ok()) return std::nullopt;
  const bool foretold =
      report->predicted() && (report->outcome() == report::OUT_OF_MEMORY || report->outcome() == report::DEADLOCK);
  if (report->outcome() != report::OK && !foretold) return std::nullopt;
  return *std::move(report);
}

// The last error that a run printed.
std::string LastWords(const std::string& folder, int status) {
  const std::string ended =
      WIFSIGNALED(status) ? StrCat("was ended by signal ", WTERMSIG(status), " (", strsignal(WTERMSIG(status)), ")")
                          : StrCat("ended with exit status ", WEXITSTATUS(status));
  const absl::StatusOr<std::string> log = ReadFile(StrCat(folder, "/log.txt"));
  constexpr absl::string_view kError = "error: ";
  std::string found;
  for (const absl::string_view line : absl::StrSplit(log.ok() ? *log : "", '\n')) {
    const size_t at = line.find(kError);
    if (at != line.npos && found.empty()) found = std::string(line.substr(at + kError.size()));
  }
  return found.empty() ? StrCat("the run ", ended, "; see ", folder, "/log.txt") : found;
}

class Runs {
 public:
  Runs(const sweep::Points& points, const SweepRunOptions& options, sweep::Results& results)
      : points_(points), options_(options), results_(results) {}

  absl::StatusOr<SweepRan> Run() {
    absl::Status status = points_.predict ? Predict() : absl::OkStatus();
    if (status.ok() && points_.measure) status = Measure();
    if (!status.ok()) return status;
    return ran_;
  }

 private:
  std::string Folder(size_t i, const std::string& run) const {
    return StrCat(options_.out, "/", FolderName(PointName(points_, points_.points[i])), "/", run);
  }
  std::optional<report::Report> Kept(const std::string& folder, const std::string& asked) {
    std::optional<report::Report> report = options_.again ? std::nullopt : KeptReport(folder, asked);
    ran_.kept += report.has_value();
    return report;
  }

  absl::Status Predict();
  absl::Status Measure();
  absl::StatusOr<report::Report> MeasureOnce(const spec::Spec& spec, const std::string& folder, Warden& warden);
  static absl::StatusOr<int> Await(const std::vector<std::string>& words, const std::string& log, Warden& warden);

  const sweep::Points& points_;
  const SweepRunOptions& options_;
  sweep::Results& results_;
  SweepRan ran_;
};

absl::Status Runs::Predict() {
  std::vector<size_t> of;
  std::vector<spec::Spec> specs;
  for (size_t i = 0; i < points_.points.size(); ++i) {
    const absl::StatusOr<spec::Spec>& spec = *points_.points[i].predicted;
    if (!spec.ok()) continue;
    if (const auto kept = Kept(Folder(i, "predicted"), SpecToText(*spec))) {
      results_.rows[i].predicted = sweep::FiguresOf({&*kept, 1});
      continue;
    }
    of.push_back(i);
    specs.push_back(*spec);
  }
  if (specs.empty()) return absl::OkStatus();
  auto predictor = Predictor::Make({.processes = options_.processes, .program = "/proc/self/exe"});
  if (!predictor.ok()) return predictor.status();
  absl::Status written;
  size_t ready = 0;
  (*predictor)->PredictAll(specs, options_.file, [&](size_t s, absl::StatusOr<report::Report> report) {
    const size_t i = of[s];
    ++ready, ++ran_.runs;
    TellProgress(StrCat("predictions: ", ready, " of ", specs.size()));
    if (!report.ok()) {
      results_.rows[i].predicted = sweep::NoFigures(std::string(report.status().message()));
      return;
    }
    results_.rows[i].predicted = sweep::FiguresOf({&*report, 1});
    const std::string folder = Folder(i, "predicted");
    written.Update(WriteReport(folder, *report, specs[s], RankRecords()));
    written.Update(WriteFiles(folder, {{kAsked, SpecToText(specs[s])}}));
  });
  if (HasStatusLine()) ClearStatusLine();
  return written;
}

absl::Status Runs::Measure() {
  const host::InterruptScope interrupts;
  Warden warden(kTimeToEnd);
  std::vector<std::vector<report::Report>> reports(points_.points.size());
  std::vector<std::string> failed(points_.points.size());
  const auto total = static_cast<int64_t>(points_.points.size()) * options_.repeats;
  int64_t begun = 0;
  for (int repeat = 1; repeat <= options_.repeats; ++repeat) {
    for (size_t i = 0; i < points_.points.size(); ++i, ++begun) {
      const absl::StatusOr<spec::Spec>& spec = *points_.points[i].measured;
      if (!spec.ok() || !failed[i].empty()) continue;
      const std::string folder = Folder(i, StrCat("measured-", repeat));
      if (auto kept = Kept(folder, SpecToText(*spec))) {
        reports[i].push_back(*std::move(kept));
        continue;
      }
      if (host::InterruptScope::Raised()) {
        failed[i] = "not run: the sweep was interrupted";
        ran_.interrupted = true;
        continue;
      }
      TellProgress(StrCat("measurements: ", begun, " of ", total, "; now ", PointName(points_, points_.points[i])));
      absl::StatusOr<report::Report> report = MeasureOnce(*spec, folder, warden);
      ++ran_.runs;
      if (absl::IsUnavailable(report.status())) return report.status();  // a file cannot be written
      if (!report.ok())
        failed[i] = std::string(report.status().message());
      else
        reports[i].push_back(*std::move(report));
      if (host::InterruptScope::Raised()) {
        ran_.interrupted = true;
        if (reports[i].empty()) failed[i] = "interrupted";
      }
    }
  }
  if (HasStatusLine()) ClearStatusLine();
  warden.Dismiss();
  for (size_t i = 0; i < points_.points.size(); ++i) {
    if (!points_.points[i].measured->ok()) continue;
    results_.rows[i].measured = failed[i].empty() ? sweep::FiguresOf(reports[i]) : sweep::NoFigures(failed[i]);
  }
  return absl::OkStatus();
}

absl::StatusOr<report::Report> Runs::MeasureOnce(const spec::Spec& spec, const std::string& folder, Warden& warden) {
  if (const absl::Status made = MakeOutFolder("--out", folder); !made.ok()) return Unavailable(made.message());
  if (const absl::Status gone = RemoveFile(StrCat(folder, "/report.json")); !gone.ok()) return gone;
  if (const absl::Status asked = WriteFiles(folder, {{kAsked, SpecToText(spec)}}); !asked.ok())
    return Unavailable(asked.message());
  std::error_code error;
  const std::string program = std::filesystem::read_symlink("/proc/self/exe", error).string();
  std::vector<std::string> words = {program};
  if (RanksAreProcesses(spec)) {
    words.insert(words.end(),
                 {"launch", StrCat("--ranks=", RanksToStart(spec)), StrCat("--fabric=", FabricName(spec)), "--"});
  }
  words.insert(words.end(), {"run", StrCat(folder, "/", kAsked), StrCat("--out=", folder), "--quiet"});
  const absl::StatusOr<int> status = Await(words, StrCat(folder, "/log.txt"), warden);
  if (!status.ok()) return status.status();
  absl::StatusOr<report::Report> report = ReadReport(folder);
  if (report.ok()) return report;
  return Internal(LastWords(folder, *status));
}

// Runs in the forked child: system calls only. Should this process die before the warden guards the group, the program
// gets SIGTERM.
[[noreturn]] void BecomeRun(char* const* words, int log, pid_t parent) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(kRunCannotStart);
  const int nothing = open("/dev/null", O_RDONLY);
  if (nothing >= 0) dup2(nothing, STDIN_FILENO);
  dup2(log, STDOUT_FILENO);
  dup2(log, STDERR_FILENO);
  execv(words[0], words);
  _exit(kRunCannotStart);
}

// Starts a program in a process group of its own, and waits until it has ended. Returns what waitpid says.
absl::StatusOr<int> Runs::Await(const std::vector<std::string>& words, const std::string& log, Warden& warden) {
  std::vector<std::string> texts = words;
  std::vector<char*> argv;
  for (std::string& text : texts) argv.push_back(text.data());
  argv.push_back(nullptr);
  const int out = open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0644);
  if (out < 0) return Unavailable(log, ": cannot be written: ", std::strerror(errno));
  const pid_t parent = getpid(), pid = fork();  // not posix_spawn: only a forked child can ask to end with its parent
  if (pid == 0) BecomeRun(argv.data(), out, parent);
  const int error = errno;
  close(out);
  if (pid < 0) return Unavailable(words[0], ": no process can be created: ", std::strerror(error));
  setpgid(pid, pid);  // in parent and child, because either may come first
  warden.Guard(pid);
  using Clock = std::chrono::steady_clock;
  std::optional<Clock::time_point> asked_to_end;
  int status = 0;
  while (waitpid(pid, &status, WNOHANG) != pid) {
    if (host::InterruptScope::Raised() && !asked_to_end) {
      kill(-pid, SIGTERM);
      asked_to_end = Clock::now();
    }
    if (asked_to_end && Clock::now() - *asked_to_end > std::chrono::duration<double>(kTimeToEnd)) kill(-pid, SIGKILL);
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  kill(-pid, SIGKILL);  // what it has left behind
  warden.Forget(pid);
  return status;
}

}  // namespace

absl::StatusOr<SweepRan> RunPoints(const sweep::Points& points, const SweepRunOptions& options,
                                   sweep::Results& results) {
  return Runs(points, options, results).Run();
}

}  // namespace twofold
