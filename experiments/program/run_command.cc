// twofold run SPEC
#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "backends/host/interrupt.h"
#include "backends/host/processor_use.h"
#include "backends/launch/launch.h"
#include "backends/registry.h"
#include "core/base/format.h"
#include "core/base/machine.h"
#include "core/base/status.h"
#include "core/base/strings.h"
#include "core/io/checkpoint_folder.h"
#include "core/proto/fabric_name.h"
#include "experiments/program/cli/log.h"
#include "experiments/program/cli/notes.h"
#include "experiments/program/cli/output.h"
#include "experiments/program/cli/status_line.h"
#include "experiments/program/commands.h"
#include "experiments/program/fabric_option.h"
#include "experiments/program/finish.h"
#include "experiments/program/progress.h"
#include "experiments/program/report/files.h"
#include "experiments/program/report/json.h"
#include "experiments/program/report/simulation_costs.h"
#include "experiments/program/report/tables.h"
#include "experiments/program/report/write_report.h"
#include "experiments/program/spec/difference.h"
#include "experiments/program/spec/elastic.h"
#include "experiments/program/spec/spec.h"
#include "experiments/program/training_data.h"
#include "experiments/program/validation_text.h"
#include "strategies/from_spec.h"
#include "strategies/trainer.h"

namespace twofold {
namespace {

struct RunOptions {
  std::string spec, fabric, out;
  std::vector<std::string> sets, notes;
  bool check = false, json = false, profile_simulator = false;
  std::string shown_notes = "short";
};

// All that is known before ranks run; errors up to here are errors in the user's input.
struct Job {
  spec::Spec spec;
  TrainingData data;
  std::unique_ptr<Fabric> fabric;
  std::string out;
  std::optional<checkpoint::Opened> resumed;  // the checkpoint that train.resume names, if this process is rank 0's
};

// Where checkpoints go, and which one the run resumes from: resolved once, for all ranks and for later repetitions of
// the run. With several processes only rank 0's looks for it, because others may see another folder. It tells them
// while ranks run.
absl::Status ResolveCheckpoints(Job& job, const std::string& file) {
  spec::Train& train = *job.spec.mutable_train();
  if (train.has_checkpoint() && !train.checkpoint().has_path())
    train.mutable_checkpoint()->set_path(StrCat(job.out, "/checkpoints"));
  if (LaunchedAs().rank != 0) return absl::OkStatus();
  absl::StatusOr<std::optional<checkpoint::Opened>> resumed = ResolveResume(job.spec, file);
  if (resumed.ok()) job.resumed = *std::move(resumed);
  return resumed.status();
}

std::string OutFolder(const RunOptions& options, const spec::Spec& spec) {
  return options.out.empty() ? StrCat("runs/", spec.name(), "-", FabricName(spec)) : options.out;
}

absl::StatusOr<Job> Prepare(const RunOptions& options) {
  Job job;
  if (const absl::Status known = CheckFabricOption(options.fabric); !known.ok()) return known;
  absl::StatusOr<spec::Spec> spec = LoadSpec(options.spec, options.fabric, options.sets);
  if (!spec.ok()) return spec.status();
  job.spec = *std::move(spec);
  if (const absl::Status alone = CheckStartedFor(FabricName(job.spec)); !alone.ok()) {
    // every process finds the same
    return FailedPrecondition(options.spec, ": ", std::string(alone.message()));
  }
  absl::StatusOr<TrainingData> data = LoadTrainingData(job.spec, options.spec);
  if (!data.ok()) return data.status();
  job.data = *std::move(data);
  absl::StatusOr<std::unique_ptr<Fabric>> fabric = MakeFabric(job.spec);
  if (!fabric.ok()) {
    return absl::Status(fabric.status().code(), StrCat(options.spec, ": ", std::string(fabric.status().message())));
  }
  job.fabric = *std::move(fabric);
  if (const absl::Status fits = job.fabric->Accepts(static_cast<int>(RanksToStart(job.spec))); !fits.ok()) {
    return absl::Status(fits.code(), StrCat(options.spec, ": ", std::string(fits.message())));
  }
  job.out = OutFolder(options, job.spec);
  if (const absl::Status status = ResolveCheckpoints(job, options.spec); !status.ok()) return status;
  return job;
}

std::string Headline(const Job& job) {
  const spec::Train& train = job.spec.train();
  return StrCat(job.spec.name(), " on ", job.fabric->name(), ": ", Counted(WorldSize(job.spec), "rank"), ", ",
                Counted(train.steps(), "step"), " of ", Counted(train.global_batch(), "sample"), " (",
                Counted(AccumulationSteps(job.spec), "micro-batch"), " of ", train.micro_batch(), " per rank)");
}

// Of an elastic run: how its members changed, and what that cost.
std::vector<std::vector<std::string>> GenerationRows(const report::Report& r) {
  std::vector<std::vector<std::string>> rows;
  for (const report::Generation& g : r.generations()) {
    if (g.number() == 0) continue;
    rows.push_back({StrCat("generation ", g.number(), ", step ", g.first_step()),
                    StrCat(Counted(g.members_size(), "rank"), ", dp ", g.dp(), ", from ", g.from()),
                    StrCat("known after ", SecondsText(g.detect_seconds()), ", formed in ",
                           SecondsText(g.reform_seconds()), ", recovered in ", SecondsText(g.recover_seconds()),
                           g.lost_steps() > 0 ? StrCat(", ", Counted(g.lost_steps(), "step"), " done again") : "")});
  }
  if (!rows.empty()) rows.push_back({"goodput", absl::StrFormat("%.1f %%", 100 * r.goodput())});
  return rows;
}

// Of asynchronous SGD: how old gradients were, and how long workers waited.
std::vector<std::vector<std::string>> AsyncRows(const report::AsyncSgd& async) {
  if (async.workers().empty()) return {};
  const auto [slow, fast] =
      std::minmax_element(async.workers().begin(), async.workers().end(),
                          [](const auto& a, const auto& b) { return a.gradients() < b.gradients(); });
  const auto waited = [](const report::AsyncWorker& worker) {
    return absl::StrFormat("rank %d: %d gradients, waited %.0f %% of its time", worker.rank(), worker.gradients(),
                           100 * worker.waiting_share());
  };
  std::vector<std::vector<std::string>> rows = {{"staleness of gradients, in updates",
                                                 absl::StrFormat("%.2f on average", async.mean_staleness()),
                                                 StrCat("at most ", async.max_staleness())}};
  if (fast->gradients() == slow->gradients()) {
    rows.push_back({"every worker", Counted(fast->gradients(), "gradient")});
  } else {
    rows.push_back({"most gradients", waited(*fast)});
    rows.push_back({"fewest gradients", waited(*slow)});
  }
  return rows;
}

// Of the highest rank; of another framework, what its rank takes of the device decides.
std::vector<std::vector<std::string>> MemoryRows(const report::Report& r) {
  int64_t peak = 0, reserved = 0, host = 0;
  report::FrameworkMemory other;
  for (const report::Rank& rank : r.ranks()) {
    peak = std::max(peak, rank.peak_bytes());
    reserved = std::max(reserved, rank.reserved_bytes());
    host = std::max(host, rank.host_peak_bytes());
    if (rank.framework().device_bytes() > other.device_bytes()) other = rank.framework();
  }
  const auto bytes = [](int64_t n) { return StrCat(CountText(n), " bytes"); };
  std::vector<std::vector<std::string>> rows;
  if (other.device_bytes() > 0) {
    rows.push_back({StrCat("device memory under ", r.framework()), BytesText(other.device_bytes()),
                    StrCat(BytesText(other.device_low_bytes()), " to ", BytesText(other.device_high_bytes()),
                           ", as nvidia-smi shows it")});
    rows.push_back({"reserved by its allocator", BytesText(other.reserved_bytes()), bytes(other.reserved_bytes())});
    rows.push_back({"allocated of that", BytesText(other.allocated_bytes()), bytes(other.allocated_bytes())});
  } else {
    rows.push_back({"peak memory", BytesText(peak), bytes(peak)});
    rows.push_back({"reserved memory", BytesText(reserved), bytes(reserved)});
    rows.push_back({"fragmentation", BytesText(reserved - peak), "reserved, not live at the peak"});
  }
  if (host > 0) rows.push_back({"peak host memory", BytesText(host), bytes(host)});
  return rows;
}

void PrintSummary(const Job& job, const report::Report& r, const std::string& shown_notes) {
  std::vector<std::vector<std::string>> rows;
  if (r.steps_size() > 0) {
    rows.push_back({"step time", SecondsText(r.median_step_seconds()),
                    StrCat(SecondsText(r.low()), " to ", SecondsText(r.high()))});
    rows.push_back({StrCat(ItemName(*ModelOf(job.spec.model())), " a second"), RateText(r.tokens_per_second())});
    rows.push_back({"exposed communication", SecondsText(r.exposed_communication_seconds())});
  }
  if (r.has_codec()) {
    const report::Codec& c = r.codec();
    rows.push_back({"bytes into the codec, a step", BytesText(static_cast<int64_t>(c.bytes_before())),
                    StrCat(BytesText(static_cast<int64_t>(c.bytes_after())), " after it, ",
                           c.seconds() > 0 ? StrCat(SecondsText(c.seconds()), " in it") : "its time was not traced")});
  }
  for (std::vector<std::string>& row : AsyncRows(r.async_sgd())) rows.push_back(std::move(row));
  for (std::vector<std::string>& row : MemoryRows(r)) rows.push_back(std::move(row));
  if (r.mfu() > 0) rows.push_back({"model FLOPs utilisation", absl::StrFormat("%.1f %%", 100 * r.mfu())});
  if (const std::vector<double> losses = LossesRead(r); !losses.empty()) {
    rows.push_back(
        {"loss, first to last", absl::StrFormat("%.4f", losses.front()), absl::StrFormat("%.4f", losses.back())});
  }
  for (const report::Collective& c : r.collectives()) {
    if (c.library().empty()) continue;
    const std::string ways =
        StrCat(c.algorithm(), c.algorithm().empty() || c.protocol().empty() ? "" : "; ", c.protocol());
    rows.push_back({StrCat(c.operation(), " on ", c.group()), StrCat("library ", c.library()), ways});
  }
  if (r.has_last()) {
    rows.push_back({"validation, best", StrCat(ValidationText(r.best()), " after step ", r.best().step())});
    rows.push_back({"validation, last", StrCat(ValidationText(r.last()), " after step ", r.last().step())});
  }
  if (r.checkpoints_size() > 0) {
    const report::Checkpoint& last = r.checkpoints(r.checkpoints_size() - 1);
    rows.push_back(last.has_path() ? std::vector<std::string>{"checkpoint, last", last.path(), BytesText(last.bytes())}
                                   : std::vector<std::string>{"checkpoints", Counted(r.checkpoints_size(), "time"),
                                                              StrCat("training stands still for ",
                                                                     SecondsText(last.stood_still_seconds()))});
  }
  for (std::vector<std::string>& row : GenerationRows(r)) rows.push_back(std::move(row));
  std::printf("%s, %s\n%s", Headline(job).c_str(), r.predicted() ? "predicted" : "measured", TableText(rows).c_str());
  std::printf("%s", NotesText({r.notes().begin(), r.notes().end()}, shown_notes).c_str());
  if (r.outcome() == report::OUT_OF_MEMORY)
    std::printf("`twofold memory` with the same spec and options lists the cheapest changes that make it fit\n");
}

int ExitStatus(const report::Report& r) {
  if (r.outcome() == report::OK) return kExitFine;
  const bool foretold = r.outcome() == report::OUT_OF_MEMORY || r.outcome() == report::DEADLOCK;
  return r.predicted() && foretold ? kExitPredictedFailure : kExitFailed;
}

// A run's name does not include its layout, so the folder may hold another run's results.
void TellWhatIsReplaced(const Job& job) {
  if (LaunchedAs().rank != 0) return;
  const std::string file = StrCat(job.out, "/spec.textproto");
  const absl::StatusOr<std::string> text = ReadFile(file);
  const absl::StatusOr<spec::Spec> before = text.ok() ? ParseSpec(*text, file) : text.status();
  if (!before.ok()) return;
  const std::vector<std::string> differ = DifferingBlocks(*before, job.spec);
  if (!differ.empty())
    LogWarning(job.out, ": replaces a run whose spec differs in ", absl::StrJoin(differ, ", "),
               "; --out=DIR keeps both");
}

// Creates the folders that the run writes to. An unwritable place is thus found before training, not after it.
absl::Status MakeFolders(const Job& job) {
  if (absl::Status made = MakeOutFolder("--out", job.out); !made.ok() || !WritesCheckpoints(job.spec)) return made;
  return MakeOutFolder("train.checkpoint.path", job.spec.train().checkpoint().path());
}

// Until the report is written, nothing ends the process: neither a signal shortly after the one that ended the run, nor
// a closed stdout (a closed terminal kills `tee` too).
class UntilWritten {
 public:
  UntilWritten() : before_(std::signal(SIGPIPE, SIG_IGN)) {}
  ~UntilWritten() { std::signal(SIGPIPE, before_); }
  UntilWritten(const UntilWritten&) = delete;
  UntilWritten& operator=(const UntilWritten&) = delete;

 private:
  const host::InterruptScope interrupt_;
  void (*const before_)(int);
};

int RunJob(const Job& job, const RunOptions& how) {
  TellWhatIsReplaced(job);
  if (const absl::Status made = MakeFolders(job); !made.ok()) {
    LogError(made.message());
    return kExitWrongInput;
  }
  std::optional<UntilWritten> until_written(std::in_place);
  const auto world_size = static_cast<int>(RanksToStart(job.spec));
  std::function<void(const StepProgress&)> progress;
  const bool quiet = HowVerbose() == Verbosity::kQuiet;
  if (!quiet) progress = Progress();
  const checkpoint::Opened* const resumed = job.resumed ? &*job.resumed : nullptr;
  const TrainingOptions options = TrainingOptionsFor(job.spec);
  const RankFunction train = [&](RankContext& ctx) {
    return TrainRank(ctx, options, job.data.samples(), progress, {}, resumed);
  };
  const RankFunction watched = [&](RankContext& ctx) { return host::WithProcessorUse([&] { return train(ctx); }); };
  RunResult result = job.fabric->Run(world_size, job.fabric->predicted() ? train : watched);
  if (!job.fabric->speaks()) {
    if (!result.status.ok() && LaunchedAs().newcomer)  // nobody else knows of it
      LogError("a new rank could not join the run: ", result.status.message());
    return result.status.ok() ? kExitFine : kExitFailed;
  }
  if (!quiet) ClearStatusLine();

  result.notes.insert(result.notes.begin(), how.notes.begin(), how.notes.end());
  std::vector<RunResult::Cost> costs = std::move(result.costs);
  const LinkLoads links = std::move(result.links);
  const auto finishing = std::chrono::steady_clock::now();
  const auto [report, records] = Finish(job.spec, *job.fabric, job.data, std::move(result));
  if (report.outcome() != report::OK) {
    LogError(report::Outcome_Name(report.outcome()), ": ", report.message());
  }
  // printed even if the files cannot be written
  if (how.json)
    std::printf("%s", ReportText(report).c_str());
  else
    PrintSummary(job, report, how.shown_notes);
  const auto cost = [&costs](const char* part, auto since) {
    costs.push_back(
        {.part = part, .seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - since).count()});
  };
  if (!costs.empty()) cost("report", finishing);
  if (how.profile_simulator) std::fprintf(how.json ? stderr : stdout, "%s", SimulationCostsText(costs).c_str());
  std::fflush(stdout);  // output that fails here is reported at the end
  if (const absl::Status written = WriteReport(job.out, report, job.spec, records, costs, links); !written.ok()) {
    LogError(written.message());
    return kExitFailed;
  }
  until_written.reset();
  if (!how.json) std::printf("report: %s\n", job.out.c_str());
  return ExitStatus(report);
}

// Of several processes, rank 0's reports errors. If rank 0's process goes on it has found none, so this one's host sees
// other files.
void TellWhatIsWrong(const absl::Status& status) {
  const std::string text(status.message());
  if (SaysWhatAllFound()) return LogError(text);
  if (!absl::IsFailedPrecondition(status)) LogError("rank ", LaunchedAs().rank, " on ", HostName(), ": ", text);
}

int RunCommand(const RunOptions& options) {
  const absl::StatusOr<Job> job = Prepare(options);
  if (!job.ok()) {
    TellWhatIsWrong(BlameSets(job.status(), options.spec, options.sets));
    return kExitWrongInput;
  }
  if (options.profile_simulator && !job->fabric->predicted()) {
    LogError("--profile-simulator: fabric ", job->fabric->name(), " measures; only fabric simulated has a simulator");
    return kExitWrongInput;
  }
  if (options.check) {
    if (LaunchedAs().rank != 0) return kExitFine;
    if (options.json)
      std::printf("%s", JsonText({{"spec", ToJson(job->spec)}, {"data", job->data.training->Describe()}}).c_str());
    else
      std::printf("%s: fine. %s; %s\n", options.spec.c_str(), Headline(*job).c_str(),
                  job->data.training->Describe().c_str());
    return kExitFine;
  }
  return RunJob(*job, options);
}

Command AddRun(const Command& program, RunOptions* options) {
  const Command command =
      program.AddCommand("run", "predicts a spec (fabric simulated) or measures it (any other fabric)");
  command.AddOption("SPEC", options->spec, "a spec, .textproto or .json").Required();
  command.AddOption("--fabric=FABRIC", options->fabric,
                    "run on this fabric instead of the spec's; see `twofold list fabrics`");
  command.AddOption("--set=FIELD=V", options->sets, "replace a field of the spec, see below; may be repeated")
      .Repeatable();
  command.AddOption("--out=DIR", options->out,
                    "folder of the report (default: runs/<name>-<fabric>); replaces an existing report");
  command.AddOption("--note=TEXT", options->notes, "a line for the notes of the report; may be repeated").Repeatable();
  command.AddFlag("--check", options->check, "only check the spec, its data and its fabric");
  command.AddFlag("--profile-simulator", options->profile_simulator,
                  "print where the simulation's own time and memory go (simulate.csv has the same)");
  AddNotesOption(command, options->shown_notes);
  command.AddFlag("--json", options->json, "print the report as JSON instead of the summary, as in report.json");
  command.Footer(
      R"(A spec says what to train and how to distribute it over ranks. Only `model` is required:
  model { preset: "gpt2-124m" }
  train { steps: 20 micro_batch: 4 }
  parallel { dp: 2 }
`twofold spec` explains every field, `twofold init` writes a spec with comments, and `twofold list` has the names that a spec
can use. The spec.textproto that a run writes to its folder has the values of all fields.

--set takes a path of field names and a value: train.steps=20, lists with commas (model.mlp.hidden=64,64), blocks as in a spec
('--set=parallel={dp: 2 tp: 2}'), and lists of blocks in brackets, [{ ... }, { ... }]. --set=@FILE takes the fields of a file,
which is a spec in either form that states only some of them; the last --set of a field counts. model.preset, model.hf_config and
model={ ... } replace the whole model of the file, including its sizes; sizes that other --set options give still apply.

A simulated fat tree may have another size: fabric.simulated.nodes (more than the cluster has), fabric.simulated.oversubscription and
top_oversubscription (between pods). `twofold topology export NAME --to=cluster` writes a cluster as a file to edit.

The summary is printed before the folder is written. Files that another run left in the folder are replaced.
Ctrl-C (SIGINT), SIGTERM, SIGUSR1 and a closed terminal (SIGHUP, except under nohup) end the run within 2 s: it writes
a report of the steps that all ranks have finished, and exits with status 1. A second signal, half a second
later or more, kills the run. With train.checkpoint.on_signal, SIGTERM or SIGUSR1 first saves a checkpoint after the
present step. The run continues if nobody reads its output any more. Whatever ends this
process, even SIGKILL, also ends the processes that it has started.

Exit status: 0 fine; 1 a failure at run time; 2 wrong input; 3 the simulation predicts out-of-memory or
deadlock. The report is written in all cases but 2.

Examples:
  twofold run my.textproto --fabric=simulated          predict
  twofold run my.textproto --fabric=in_memory          measure
  twofold run my.textproto --set=parallel.dp=8 --set=train.global_batch=32
  twofold run my.textproto --set=@8-nodes.textproto    with the fields of a second file
  twofold run my.textproto --check                     is it valid?
  twofold run runs/my-simulated/spec.textproto         repeat a run)");
  return command;
}

}  // namespace

void AddRunCommand(const Command& program, int& exit_status) {
  auto options = std::make_shared<RunOptions>();
  AddRun(program, options.get()).OnParsed([options, &exit_status] { exit_status = RunCommand(*options); });
}

absl::StatusOr<std::optional<RunWords>> ReadRunCommand(const std::vector<std::string>& words,
                                                       const std::string& fabric) {
  RunOptions options;
  CommandLine line("", "twofold");
  AddRun(line.root(), &options);
  absl::StatusOr<bool> asks_for_help = line.Check(words);
  if (!asks_for_help.ok()) return InvalidArgument("run: ", std::string(asks_for_help.status().message()));
  if (*asks_for_help) return std::nullopt;
  absl::StatusOr<spec::Spec> spec = LoadSpec(options.spec, fabric, options.sets);
  if (!spec.ok()) return spec.status();
  if (options.check) return std::nullopt;
  return RunWords{.file = options.spec, .out = OutFolder(options, *spec), .sets = options.sets, .spec = *spec};
}

}  // namespace twofold
