// twofold sweep: a study of a spec over values of its fields, predicted, measured, or both side by side.
#include <cstdio>
#include <memory>
#include <string>

#include "core/base/strings.h"
#include "experiments/program/cli/log.h"
#include "experiments/program/cli/notes.h"
#include "experiments/program/commands.h"
#include "experiments/program/fabric_option.h"
#include "experiments/program/report/json.h"
#include "experiments/program/run_sweep.h"
#include "experiments/program/sweep/table.h"

namespace twofold {
namespace {

struct SweepCommandOptions {
  SweepAsked asked;
  bool json = false;
  std::string shown_notes = "short";
};

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

int SweepCommand(const SweepCommandOptions& options) {
  const absl::Status known = CheckFabricOption(options.asked.points.fabric);
  const absl::StatusOr<SweepTold> told = known.ok() ? RunSweep(options.asked) : known;
  if (!told.ok()) {
    LogError(told.status().message());
    return absl::IsInternal(told.status()) ? kExitFailed : kExitWrongInput;
  }
  const std::string text = options.json ? JsonText(sweep::ResultsJson(told->results))
                                        : told->text + NotesText(told->notes, options.shown_notes);
  std::printf("%s", text.c_str());
  if (!told->written.ok()) {
    LogError(told->written.message());
    return kExitFailed;
  }
  if (!options.json) std::printf("report: %s\n", told->out.c_str());
  if (told->interrupted) LogError("interrupted; the same command goes on from here");
  return told->interrupted ? kExitFailed : StatusOf(told->results);
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
  sweep::Asked& asked = options->asked.points;
  command.AddOption("SPEC", asked.file, "a spec, .textproto or .json").Required();
  command.Group("Points")
      .AddOption("--vary=FIELD=V,V", asked.varied, "a point for each value, and for all combinations of several")
      .Repeatable();
  command.AddOption("--set=FIELD=V", asked.sets, "replace a field of the spec, as for `run`; may be repeated")
      .Repeatable();
  command.Group("How each point is done")
      .AddFlag("--predicted", asked.predict, "predict each point (default if SPEC's fabric is simulated)");
  command.AddFlag("--measured", asked.measure, "measure each point (default if it is not)");
  command.AddOption("--fabric=FABRIC", asked.fabric,
                    "measure on this fabric (default: SPEC's; in_memory if that is simulated)");
  command.AddOption("--scaling=KIND", asked.scaling, "strong or weak: what follows from parallel.dp, see below")
      .Offers({"strong", "weak"});
  command
      .AddOption("--fixed=FIELD", asked.fixed, "keep the field's value without --vary at all points; may be repeated")
      .Repeatable();
  command.AddOption("--repeats=N", options->asked.repeats,
                    StrCat("measurements of each point (default: ", kSweepRepeats, ")"));
  command.AddOption("--processes=N", options->asked.processes, "predictions at a time (default: one for each core)");
  command.Group("Results").AddFlag("--again", options->asked.again, "run also what DIR already has");
  command.AddFlag("--json", options->json, "print JSON instead of the table");
  AddNotesOption(command, options->shown_notes);
  command.AddOption("--out=DIR", options->asked.out, "folder DIR of the results (default: runs/<name>-sweep)");
  command.Footer(kHelp);
  command.OnParsed([options, &exit_status] { exit_status = SweepCommand(*options); });
}

}  // namespace twofold
