// twofold storm: seeded schedules of disasters.
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/match.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "backends/host/interrupt.h"
#include "core/base/format.h"
#include "core/base/status.h"
#include "core/base/strings.h"
#include "core/proto/parse_text.h"
#include "experiments/program/cli/log.h"
#include "experiments/program/cli/status_line.h"
#include "experiments/program/commands.h"
#include "experiments/program/report/files.h"
#include "experiments/program/report/json.h"
#include "experiments/program/spec/spec.h"
#include "experiments/program/storm/pool.h"
#include "experiments/program/storm/reduce.h"
#include "experiments/program/storm/rules.h"
#include "experiments/program/storm/schedule.h"
#include "experiments/program/storm/story.h"
#include "experiments/program/storm/summary.h"
#include "experiments/program/storm/trial.h"
#include "experiments/program/training_data.h"

namespace twofold {
namespace {

using RealTime = std::chrono::steady_clock;

constexpr double kGuardSeconds = 120;  // real time in which a run must end
constexpr int kMostReducingRuns = 200;

struct StormOptions {
  std::string spec, out, seed = "1", replay;
  std::vector<std::string> sets;
  int64_t schedules = 1000, most_broken = 10;
  double minutes = 0;
  int jobs = 0;
  bool json = false;
};

nlohmann::ordered_json DisastersJson(const storm::Schedule& schedule) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const storm::Disaster& d : schedule.disasters()) json.push_back(storm::Describe(d));
  return json;
}

nlohmann::ordered_json BrokenJson(const storm::Verdict& verdict) {
  nlohmann::ordered_json json = nlohmann::ordered_json::array();
  for (const storm::Broken& broken : verdict.broken())
    json.push_back({{"rule", broken.rule()}, {"text", broken.text()}});
  return json;
}

absl::StatusOr<spec::Spec> SpecOf(const StormOptions& options) {
  std::vector<std::string> sets = {"fabric.simulated.data=REAL", "trace.enabled=false"};
  sets.insert(sets.end(), options.sets.begin(), options.sets.end());
  absl::StatusOr<spec::Spec> spec = LoadSpec(options.spec, "simulated", sets);
  if (!spec.ok()) return spec;
  if (spec->fabric().simulated().data() != spec::Simulated::REAL)
    return InvalidArgument("--set=fabric.simulated.data: a storm compares values, so it needs REAL");
  if (spec->train().has_resume())
    return InvalidArgument(options.spec, ": train.resume: a storm begins with a new training; leave it out");
  if (spec->train().has_checkpoint()) spec->mutable_train()->mutable_checkpoint()->set_path("checkpoints");
  return spec;
}

// A folder of this process for checkpoints, in memory if the system allows it.
std::string ScratchFolder() {
  const std::string shared = "/dev/shm";
  const bool in_memory = access(shared.c_str(), W_OK) == 0;
  return StrCat(in_memory ? shared : std::filesystem::temp_directory_path().string(), "/twofold-storm-", getpid());
}

class Storm {
 public:
  Storm(StormOptions options, uint64_t seed, std::unique_ptr<storm::Trials> trials, std::string scratch)
      : options_(std::move(options)),
        seed_(seed),
        trials_(std::move(trials)),
        scratch_(std::move(scratch)),
        pool_(options_.jobs, kGuardSeconds,
              [this](int process, const storm::Schedule& schedule) { return JudgeIn(process, schedule); }) {}

  int Rage();
  int Replay(const storm::Schedule& schedule);
  bool KeepReplay(const storm::Schedule& schedule, const storm::Verdict& verdict) const;
  storm::Schedule Drawn(uint64_t seed) const { return storm::Draw(seed, trials_->terrain()); }

 private:
  storm::Verdict JudgeIn(int process, const storm::Schedule& schedule);
  nlohmann::ordered_json Tell(const storm::Schedule& schedule, const storm::Verdict& verdict);
  void TellBroken(const std::string& seed, const storm::Verdict& verdict) const;
  void TellReduced(const storm::Schedule& schedule, const storm::Reduced& reduced, const std::string& name) const;
  void TellSummary(double seconds, bool ended_early) const;
  storm::Reduced Reduce(const storm::Schedule& schedule, const storm::Verdict& verdict);
  void TellProgress() const;
  std::optional<storm::Schedule> Next();
  std::string ReplayCommand(const std::string& what) const {
    return StrCat("twofold storm ", options_.spec, SetsText(), " --replay=", what);
  }
  std::string SetsText() const {
    std::string text;
    for (const std::string& set : options_.sets) StrAppend(&text, " '--set=", set, "'");
    return text;
  }

  const StormOptions options_;
  const uint64_t seed_;
  const std::unique_ptr<storm::Trials> trials_;
  const std::string scratch_;
  int settled_in_ = -1;  // in a process of the pool: its number
  storm::Pool pool_;
  storm::Summary summary_;
  int64_t drawn_ = 0;
  RealTime::time_point begun_ = RealTime::now();
};

storm::Verdict Storm::JudgeIn(int process, const storm::Schedule& schedule) {
  const auto failed = [](const char* outcome, const absl::Status& status, bool breaks) {
    storm::Verdict verdict;
    verdict.set_outcome(outcome), verdict.set_message(std::string(status.message()));
    if (!breaks) return verdict;
    storm::Broken& broken = *verdict.add_broken();
    broken.set_rule("end"), broken.set_text(std::string(status.message()));
    return verdict;
  };
  if (std::exchange(settled_in_, process) != process) {
    if (const absl::Status moved = trials_->MoveTo(StrCat(scratch_, "/", process)); !moved.ok())
      return failed("failed", moved, true);
  }
  const absl::StatusOr<storm::Evidence> evidence = trials_->Run(schedule);
  if (evidence.ok()) {
    storm::Verdict verdict = storm::Judge(*trials_, schedule, *evidence);
    if (!options_.replay.empty()) storm::AddStory(trials_->spec(), schedule, *evidence, verdict);
    return verdict;
  }
  const bool link = std::any_of(schedule.disasters().begin(), schedule.disasters().end(),
                                [](const storm::Disaster& d) { return d.link().failed(); });
  return failed(link ? "refused: no route is left" : "failed", evidence.status(), !link);
}

std::optional<storm::Schedule> Storm::Next() {
  const std::chrono::duration<double> passed = RealTime::now() - begun_;
  if (drawn_ == options_.schedules || host::InterruptScope::Raised()) return std::nullopt;
  if (options_.minutes > 0 && passed.count() > 60 * options_.minutes) return std::nullopt;
  return Drawn(storm::SeedOf(seed_, drawn_++));
}

void Storm::TellProgress() const {
  if (!HasStatusLine()) return;
  const std::chrono::duration<double> passed = RealTime::now() - begun_;
  const double rate = static_cast<double>(summary_.schedules()) / std::max(passed.count(), 1e-3);
  ShowStatusLine(StrCat(CountText(summary_.schedules()), " of ", Counted(options_.schedules, "schedule"), ", ",
                        RateText(3600 * rate), " an hour, ", summary_.broken(), " broke a rule"));
}

// The smallest schedule that breaks one of the same rules.
storm::Reduced Storm::Reduce(const storm::Schedule& schedule, const storm::Verdict& verdict) {
  const auto breaks = [&](const storm::Schedule& smaller) {
    const storm::Verdict other = pool_.One(smaller);
    return std::any_of(other.broken().begin(), other.broken().end(), [&](const storm::Broken& b) {
      return std::any_of(verdict.broken().begin(), verdict.broken().end(),
                         [&](const storm::Broken& a) { return a.rule() == b.rule(); });
    });
  };
  return storm::Reduce(schedule, breaks, kMostReducingRuns);
}

// What a schedule broke, how to see it again, and the smallest schedule that does the same.
nlohmann::ordered_json Storm::Tell(const storm::Schedule& schedule, const storm::Verdict& verdict) {
  if (HasStatusLine()) ClearStatusLine();
  const std::string seed = storm::SeedText(schedule.seed()), name = StrCat("broken-", seed, ".textproto");
  if (!options_.json) TellBroken(seed, verdict);
  const storm::Reduced reduced = Reduce(schedule, verdict);
  const absl::Status written = WriteFiles(options_.out, {{name, storm::CaseText(reduced.schedule, options_.spec)}});
  if (!written.ok()) LogError(written.message());
  if (!options_.json) TellReduced(schedule, reduced, name);
  return {{"seed", seed},
          {"broken", BrokenJson(verdict)},
          {"replay", ReplayCommand(seed)},
          {"disasters", DisastersJson(schedule)},
          {"reduced_disasters", DisastersJson(reduced.schedule)},
          {"reducing_runs", reduced.runs},
          {"spec", storm::Fragment(reduced.schedule)},
          {"file", StrCat(options_.out, "/", name)}};
}

void Storm::TellBroken(const std::string& seed, const storm::Verdict& verdict) const {
  for (const storm::Broken& broken : verdict.broken())
    std::printf("seed %s broke %s: %s\n", seed.c_str(), broken.rule().c_str(), broken.text().c_str());
  std::printf("  replay it: %s\n", ReplayCommand(seed).c_str());
}

void Storm::TellReduced(const storm::Schedule& schedule, const storm::Reduced& reduced, const std::string& name) const {
  std::printf("  reduced from %d to %d disasters, in %d runs:\n", schedule.disasters_size(),
              reduced.schedule.disasters_size(), reduced.runs);
  for (const storm::Disaster& d : reduced.schedule.disasters()) std::printf("    %s\n", storm::Describe(d).c_str());
  std::printf("  as a part of the spec:\n    %s\n",
              absl::StrReplaceAll(storm::Fragment(reduced.schedule), {{"\n", "\n    "}}).c_str());
  std::printf("  kept in %s/%s\n", options_.out.c_str(), name.c_str());
  std::fflush(stdout);
}

int Storm::Rage() {
  std::vector<std::pair<storm::Schedule, storm::Verdict>> broken;
  const absl::Status ran = pool_.Run([this] { return Next(); },
                                     [&](const storm::Schedule& schedule, const storm::Verdict& verdict) {
                                       summary_.Add(schedule, verdict);
                                       TellProgress();
                                       if (verdict.broken_size() > 0) broken.emplace_back(schedule, verdict);
                                       return static_cast<int64_t>(broken.size()) < options_.most_broken;
                                     });
  const std::chrono::duration<double> passed = RealTime::now() - begun_;
  if (HasStatusLine()) ClearStatusLine();
  if (!ran.ok()) LogError(ran.message());
  nlohmann::ordered_json told = nlohmann::ordered_json::array(), json = summary_.Json();
  for (const auto& [schedule, verdict] : broken) told.push_back(Tell(schedule, verdict));
  json["seed"] = storm::SeedText(seed_);
  json["real_seconds"] = passed.count();
  const absl::Status written = WriteFiles(options_.out, {{"summary.json", JsonText(json)},
                                                         {"schedules.csv", summary_.Csv()},
                                                         {"spec.textproto", SpecToText(trials_->spec())}});
  if (!written.ok()) LogError(written.message());
  json["out"] = options_.out, json["broken_schedules"] = std::move(told);
  if (options_.json) {
    std::printf("%s", JsonText(json).c_str());
  } else {
    TellSummary(passed.count(), static_cast<int64_t>(broken.size()) >= options_.most_broken);
  }
  return broken.empty() && ran.ok() && written.ok() ? kExitFine : kExitFailed;
}

void Storm::TellSummary(double seconds, bool ended_early) const {
  const auto count = static_cast<double>(std::max<int64_t>(1, summary_.schedules()));
  std::printf("%s%s in %s, %s an hour; %s of processor time each\nreport: %s\n", summary_.Text().c_str(),
              Counted(summary_.schedules(), "schedule").c_str(), SecondsText(seconds).c_str(),
              RateText(3600 * count / seconds).c_str(), SecondsText(summary_.processor_seconds() / count).c_str(),
              options_.out.c_str());
  if (ended_early)
    std::printf("note: the storm ended after %d that broke a rule (--most-broken)\n",
                static_cast<int>(options_.most_broken));
}

// What became of one schedule, for programs.
nlohmann::ordered_json ReplayJson(const storm::Schedule& schedule, const storm::Verdict& verdict) {
  nlohmann::ordered_json happened = nlohmann::ordered_json::object();
  for (const auto& [kind, count] : std::map(verdict.happened().begin(), verdict.happened().end()))
    happened[kind] = count;
  return {{"seed", storm::SeedText(schedule.seed())},
          {"disasters", DisastersJson(schedule)},
          {"spec", storm::Fragment(schedule)},
          {"told", std::vector<std::string>(verdict.told().begin(), verdict.told().end())},
          {"outcome", verdict.outcome()},
          {"message", verdict.message()},
          {"happened", happened},
          {"broken", BrokenJson(verdict)}};
}

// The file that `twofold report` draws.
bool Storm::KeepReplay(const storm::Schedule& schedule, const storm::Verdict& verdict) const {
  nlohmann::ordered_json json = storm::StoryJson(schedule, verdict);
  json.update(ReplayJson(schedule, verdict));
  json["name"] = trials_->spec().name(), json["command"] = ReplayCommand(options_.replay);
  const absl::Status written = WriteFiles(options_.out, {{"replay.json", JsonText(json)}});
  if (!written.ok()) LogError(written.message());
  return written.ok();
}

int Storm::Replay(const storm::Schedule& schedule) {
  if (options_.json) {
    const storm::Verdict verdict = pool_.One(schedule);
    std::printf("%s", JsonText(ReplayJson(schedule, verdict)).c_str());
    return KeepReplay(schedule, verdict) && verdict.broken().empty() ? kExitFine : kExitFailed;
  }
  std::printf("seed %s\n", storm::SeedText(schedule.seed()).c_str());
  for (const storm::Disaster& d : schedule.disasters()) std::printf("  %s\n", storm::Describe(d).c_str());
  std::printf("as a part of the spec:\n  %s\n",
              absl::StrReplaceAll(storm::Fragment(schedule), {{"\n", "\n  "}}).c_str());
  const storm::Verdict verdict = pool_.One(schedule);
  for (const std::string& line : verdict.told()) std::printf("  %s\n", line.c_str());
  std::printf("outcome: %s%s%s\n", verdict.outcome().c_str(), verdict.message().empty() ? "" : ": ",
              verdict.message().c_str());
  std::vector<std::pair<std::string, int64_t>> happened(verdict.happened().begin(), verdict.happened().end());
  std::sort(happened.begin(), happened.end());
  for (const auto& [kind, count] : happened) std::printf("  %s: %lld\n", kind.c_str(), static_cast<long long>(count));
  for (const storm::Broken& broken : verdict.broken())
    std::printf("broke %s: %s\n", broken.rule().c_str(), broken.text().c_str());
  if (verdict.broken().empty()) std::printf("no rule was broken\n");
  const bool kept = KeepReplay(schedule, verdict);
  if (kept) std::printf("drawn by: twofold report %s\n", options_.out.c_str());
  return kept && verdict.broken().empty() ? kExitFine : kExitFailed;
}

// A file, or a seed.
absl::StatusOr<storm::Schedule> ScheduleOf(const std::string& replay, const Storm& raging) {
  std::error_code none;
  if (!std::filesystem::exists(replay, none)) {
    const absl::StatusOr<uint64_t> seed = storm::ParseSeed(replay);
    if (!seed.ok())
      return InvalidArgument("--replay: ", std::string(seed.status().message()), ", or a file of a schedule");
    return raging.Drawn(*seed);
  }
  const absl::StatusOr<std::string> text = ReadFile(replay);
  if (!text.ok()) return text.status();
  storm::Schedule schedule;
  if (const absl::Status parsed = ParseText(*text, replay, schedule); !parsed.ok()) return parsed;
  return schedule;
}

absl::Status CheckNumbers(const StormOptions& options) {
  if (options.schedules < 1) return InvalidArgument("--schedules must be at least 1 (got ", options.schedules, ")");
  if (options.most_broken < 1)
    return InvalidArgument("--most-broken must be at least 1 (got ", options.most_broken, ")");
  if (!(options.minutes >= 0)) return InvalidArgument("--minutes must be 0 or more (got ", options.minutes, ")");
  if (options.jobs < 0) return InvalidArgument("--jobs must be 0 or more (got ", options.jobs, ")");
  return absl::OkStatus();
}

int StormCommand(StormOptions options) {
  const auto refuse = [&](const absl::Status& status) {
    LogError(BlameSets(status, options.spec, options.sets).message());
    return kExitWrongInput;
  };
  if (const absl::Status numbers = CheckNumbers(options); !numbers.ok()) return refuse(numbers);
  const absl::StatusOr<uint64_t> seed = storm::ParseSeed(options.seed);
  if (!seed.ok()) return refuse(InvalidArgument("--seed: ", std::string(seed.status().message())));
  absl::StatusOr<spec::Spec> spec = SpecOf(options);
  if (!spec.ok()) return refuse(spec.status());
  const absl::StatusOr<TrainingData> data = LoadTrainingData(*spec, options.spec);
  if (!data.ok()) return refuse(data.status());
  if (options.jobs == 0) options.jobs = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  if (options.out.empty()) options.out = StrCat("runs/", spec->name(), "-storm");
  if (const absl::Status made = MakeOutFolder("--out", options.out); !made.ok()) return refuse(made);
  const host::InterruptScope interrupts;
  const std::string scratch = ScratchFolder();
  const absl::Cleanup remove = [&scratch, own = getpid()] {
    std::error_code none;
    if (getpid() == own) std::filesystem::remove_all(scratch, none);
  };
  absl::StatusOr<std::unique_ptr<storm::Trials>> trials =
      storm::Trials::Make(*spec, data->samples(), StrCat(scratch, "/first"));
  if (!trials.ok()) {
    return refuse(
        absl::Status(trials.status().code(), StrCat(options.spec, ": ", std::string(trials.status().message()))));
  }
  Storm raging(options, *seed, *std::move(trials), scratch);
  if (options.replay.empty()) return raging.Rage();
  const absl::StatusOr<storm::Schedule> schedule = ScheduleOf(options.replay, raging);
  return schedule.ok() ? raging.Replay(*schedule) : refuse(schedule.status());
}

std::string Help() {
  std::string text =
      "A schedule is one run of the spec on fabric simulated, with real arithmetic, through a few disasters: ranks "
      "are\n"
      "lost, hang or are slow, links fail, go down or flap, new ranks come; where checkpoints are saved, disks are "
      "full,\n"
      "cannot be read, change a bit, or lose power while files are written. Elastic runs with odd seeds begin in a "
      "folder\n"
      "in which an earlier run has left checkpoints. Each schedule is drawn from one number, its seed, which follows "
      "from\n"
      "--seed and the schedule's number. So a storm is repeated by its command, and a single schedule by its seed "
      "alone,\n"
      "on the same spec:\n"
      "\n"
      "  $ twofold storm my.textproto --schedules=1000 --seed=7\n"
      "  seed 0x53c1f60ce6a3d64f broke losses: step 6: loss 2.31, but 2.07 in an undisturbed run\n"
      "    reduced from 5 to 1 disasters, in 9 runs:\n"
      "      rank 2 is lost at its call 31\n"
      "  $ twofold storm my.textproto --replay=0x53c1f60ce6a3d64f            the schedule as it was drawn\n"
      "  $ twofold storm my.textproto --replay=runs/my-storm/broken-0x53c1f60ce6a3d64f.textproto     the reduced one\n"
      "\n"
      "The reduced schedule is also printed as a part of a spec: with it, `twofold run` shows the same run with its\n"
      "report. The file can be kept as a case for tests. The folder --out has summary.json, schedules.csv with a line\n"
      "for each schedule, and the spec. Checkpoints are written to memory (/dev/shm) if the system allows it.\n"
      "\n"
      "After each schedule these rules are checked:\n";
  for (const storm::Rule& rule : storm::Rules())
    StrAppend(&text, absl::StrFormat("  %-13s", rule.name), rule.text, "\n");
  return text +
         "\nWith --replay, --out gets replay.json: `twofold report DIR` draws what each rank did and what struck it, "
         "over\n"
         "time. Exit status: 0 no rule was broken; 1 one was; 2 wrong input.\n"
         "\nExamples:\n"
         "  twofold storm my.textproto --schedules=1000 --seed=1\n"
         "  twofold storm my.textproto --schedules=100000 --minutes=5 --jobs=2\n"
         "  twofold storm my.textproto --replay=0x53c1f60ce6a3d64f";
}

}  // namespace

void AddStormCommand(const Command& program, int& exit_status) {
  const Command command = program.AddCommand("storm", "runs a spec through seeded schedules of disasters");
  auto options = std::make_shared<StormOptions>();
  command.AddOption("SPEC", options->spec, "a spec, .textproto or .json").Required();
  command.AddOption("--schedules=N", options->schedules, "how many to run").ShowDefault();
  command.AddOption("--seed=SEED", options->seed, "draws the schedules").ShowDefault();
  command.AddOption("--minutes=N", options->minutes, "begin no schedule after so many minutes (default: no limit)");
  command.AddOption("--most-broken=N", options->most_broken, "end after so many schedules that broke a rule")
      .ShowDefault();
  command.AddOption("--replay=SEED|FILE", options->replay, "run one schedule: its seed, or the file of a reduced one");
  command.AddFlag("--json", options->json,
                  "print JSON: what summary.json has, and `broken_schedules` with what each broke; with --replay, what "
                  "became of the schedule");
  command.AddOption("--jobs=N", options->jobs, "schedules at a time (default: one for each core)");
  command.AddOption("--set=FIELD=V", options->sets, "replace a field of the spec, as for `run`; may be repeated")
      .Repeatable();
  command.AddOption("--out=DIR", options->out, "folder for the results (default: runs/<name>-storm)");
  command.Footer(Help());
  command.OnParsed([options, &exit_status] { exit_status = StormCommand(*options); });
}

}  // namespace twofold
