// twofold sweep: a study of a spec over values of its fields, predicted, measured, or both side by side.
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "backends/launch/launch.h"
#include "core/base/format.h"
#include "core/base/status.h"
#include "core/base/strings.h"
#include "experiments/program/cli/log.h"
#include "experiments/program/commands.h"
#include "experiments/program/report/files.h"
#include "experiments/program/report/json.h"
#include "experiments/program/sweep/table.h"
#include "experiments/program/sweep_runs.h"

namespace twofold {
namespace {

constexpr int kRepeats = 3;  // of measurements

struct SweepCommandOptions {
  sweep::Asked asked;
  std::optional<int> repeats;
  std::string out;
  int processes = 0;
  bool json = false, again = false;
};

absl::Status CheckSweep(SweepCommandOptions& options) {
  if (LaunchedAs().size > 1)
    return InvalidArgument("sweep: this process was itself started by a launcher (", LaunchedAs().launcher,
                           "); call sweep once, and it starts the ranks");
  if (options.processes < 0) return InvalidArgument("--processes must be 0 or more (got ", options.processes, ")");
  options.asked.repeats = options.repeats.value_or(kRepeats);
  return absl::OkStatus();
}

// 0: every point has figures. Points that are only predicted to fail leave 3, all others 1.
int StatusOf(const sweep::Results& results) {
  bool failed = false, foretold = false;
  for (const sweep::Row& row : results.rows) {
    for (const std::optional<sweep::Figures>* side : {&row.predicted, &row.measured}) {
      if (!side->has_value() || (*side)->known) continue;
      ((*side)->foretold ? foretold : failed) = true;
    }
  }
  return failed ? kExitFailed : foretold ? kExitPredictedFailure : kExitFine;
}

absl::Status WriteResults(const sweep::Results& results, const std::string& text, const std::string& out) {
  std::vector<NamedText> files = {{"sweep.txt", text},
                                  {"sweep.csv", sweep::ResultsCsv(results)},
                                  {"sweep.json", JsonText(sweep::ResultsJson(results))}};
  if (std::string picture = sweep::ResultsPicture(results); !picture.empty())
    files.push_back({"sweep.svg", std::move(picture)});
  return WriteFiles(out, files);
}

int SweepCommand(SweepCommandOptions options) {
  const auto refuse = [](const absl::Status& status) {
    LogError(status.message());
    return kExitWrongInput;
  };
  if (const absl::Status fine = CheckSweep(options); !fine.ok()) return refuse(fine);
  const absl::StatusOr<std::string> text = ReadFile(options.asked.file);
  if (!text.ok()) return refuse(text.status());
  const absl::StatusOr<sweep::Points> points = sweep::PointsOf(*text, options.asked);
  if (!points.ok()) return refuse(points.status());
  if (options.repeats && !points->measure)
    return refuse(InvalidArgument("--repeats=", *options.repeats,
                                  ": is for measurements; a prediction is always the "
                                  "same. Add --measured, or leave this out"));
  if (options.out.empty()) options.out = StrCat("runs/", points->name, "-sweep");
  if (const absl::Status made = MakeOutFolder("--out", options.out); !made.ok()) return refuse(made);
  sweep::Results results = sweep::ResultsOf(*points);
  const absl::StatusOr<SweepRan> ran = RunPoints(*points,
                                                 {.file = options.asked.file,
                                                  .out = options.out,
                                                  .repeats = options.asked.repeats,
                                                  .processes = options.processes,
                                                  .again = options.again},
                                                 results);
  if (!ran.ok()) {
    LogError(ran.status().message());
    return kExitFailed;
  }
  sweep::Scale(results);
  std::string told = sweep::ResultsText(results);
  if (ran->kept > 0)
    StrAppend(&told, "note: ", Counted(ran->kept, "run"), " of ", ran->kept + ran->runs, " of an earlier sweep in ",
              options.out, "; --again runs everything\n");
  std::printf("%s", options.json ? JsonText(sweep::ResultsJson(results)).c_str() : told.c_str());
  if (const absl::Status written = WriteResults(results, told, options.out); !written.ok()) {
    LogError(written.message());
    return kExitFailed;
  }
  if (!options.json) std::printf("report: %s\n", options.out.c_str());
  if (ran->interrupted) LogError("interrupted; the same command goes on from here");
  return ran->interrupted ? kExitFailed : StatusOf(results);
}

constexpr char kHelp[] =
    R"(A sweep runs one spec with several values of its fields, and puts the points side by side: step time with interval,
speed-up and efficiency, peak memory, exposed communication. With --predicted and --measured each point is done both
ways, and the table has the error of each prediction. Several --vary give all combinations.

How far does a job scale? Vary parallel.dp, and say what follows from it:
  --scaling=strong   the job stays: train.global_batch is fixed, and ranks share it; train.micro_batch follows.
  --scaling=weak     the work of a rank stays: train.micro_batch is fixed; train.global_batch follows.
Each rank keeps the number of micro-batches per step that SPEC states by train.global_batch and train.micro_batch. Without
--scaling, fields have the values or defaults that SPEC gives them; --fixed=FIELD keeps a default that would change.
Speed-up is throughput over that of the point with the fewest ranks that differs in the layout alone; efficiency is
speed-up per rank.

A prediction is that of `twofold run --fabric=simulated`, so fabric.simulated.* changes predictions only, and the fields
of other fabrics change measurements only. Predictions of a measured job have the links of its fabric: slowed-down links
of in_memory, or those that `twofold launch -- calibrate` has measured for mpi and gloo. Measurements run one at a time,
--repeats times each, in rounds over all points; the table has the median of their median step times, and the extremes.
Ranks of fabrics mpi, gloo and nccl are started by `twofold launch`.

DIR gets sweep.txt, sweep.csv, sweep.json and sweep.svg, and a folder for each run, with its report. The same command goes
on where it was interrupted: a run that has ended, with the same spec, is kept. After a new calibration, or with
another version of the program, use --again. A point that fails is a line with its reason, and is tried again next time.

Exit status: 0 every point has figures; 1 some failed, or their values contradict each other; 2 wrong input, nothing was
run; 3 some are predicted to run out of memory, and nothing else failed.

Examples:
  twofold sweep my.textproto --vary=parallel.dp=1,2,4 --scaling=strong --predicted --measured
  twofold sweep my.textproto --vary=parallel.dp=1,2,4,8 --vary=fabric.simulated.cluster=dgx-h100,alps --scaling=strong
  twofold sweep my.textproto --vary=train.micro_batch=1,2,4 --fixed=train.global_batch --predicted
  twofold sweep my.textproto --vary=parallel.dp=1,2 --fabric=gloo --measured --repeats=5 --out=runs/gloo)";

}  // namespace

void AddSweepCommand(const Command& program, int& exit_status) {
  const Command command =
      program.AddCommand("sweep", "predicts and measures a spec over values of its fields: a table and a picture");
  auto options = std::make_shared<SweepCommandOptions>();
  sweep::Asked& asked = options->asked;
  command.AddOption("SPEC", asked.file, "a spec, .textproto").Required();
  command
      .AddOption("--vary", asked.varied,
                 "path=value,value: a point for each value, and for all combinations of several")
      .Repeatable();
  command.AddOption("--set", asked.sets, "path=value: replace a field of the spec, as for `run`; may be repeated")
      .Repeatable();
  command.AddFlag("--predicted", asked.predict, "predict each point (default if SPEC's fabric is simulated)");
  command.AddFlag("--measured", asked.measure, "measure each point (default if it is not)");
  command.AddOption("--fabric", asked.fabric,
                    "measure on this fabric (default: SPEC's; in_memory if that is simulated)");
  command.AddOption("--scaling", asked.scaling, "strong or weak: what follows from parallel.dp, see below");
  command
      .AddOption("--fixed", asked.fixed, "path: keep the field's value without --vary at all points; may be repeated")
      .Repeatable();
  command.AddOption("--repeats", options->repeats, StrCat("measurements of each point (default: ", kRepeats, ")"));
  command.AddOption("--processes", options->processes, "predictions at a time (default: one for each core)");
  command.AddFlag("--again", options->again, "run also what DIR already has");
  command.AddFlag("--json", options->json, "print JSON instead of the table");
  command.AddOption("--out", options->out, "folder DIR of the results (default: runs/<name>-sweep)");
  command.Footer(kHelp);
  command.OnParsed([options, &exit_status] { exit_status = SweepCommand(*options); });
}

}  // namespace twofold
