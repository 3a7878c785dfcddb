// twofold predict: many predictions, side by side.
#include <cstdio>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "backends/simulated/child.h"
#include "core/base/format.h"
#include "core/base/strings.h"
#include "experiments/program/answers.h"
#include "experiments/program/cli/log.h"
#include "experiments/program/cli/notes.h"
#include "experiments/program/cli/status_line.h"
#include "experiments/program/commands.h"
#include "experiments/program/predict/predictor.h"
#include "experiments/program/predict/sweep.h"
#include "experiments/program/predict/sweep_table.h"
#include "experiments/program/predict/worker.h"
#include "experiments/program/predict_here.h"
#include "experiments/program/report/json.h"

namespace twofold {
namespace {

struct PredictOptions {
  std::string spec;
  std::vector<std::string> sets, varied;
  int processes = 0;
  bool json = false, serve = false;
  std::string shown_notes = "short";
};

absl::Status PredictEach(const PredictOptions& options, std::vector<Variant>& variants) {
  auto predictor = Predictor::Make({.processes = options.processes, .program = "/proc/self/exe"});
  if (!predictor.ok()) return predictor.status();
  std::vector<size_t> of;  // variants that can be predicted
  std::vector<spec::Spec> specs;
  for (size_t v = 0; v < variants.size(); ++v) {
    if (!variants[v].spec.ok()) continue;
    of.push_back(v);
    specs.push_back(*variants[v].spec);
  }
  size_t ready = 0;
  (*predictor)->PredictAll(specs, options.spec, [&](size_t i, absl::StatusOr<report::Report> report) {
    variants[of[i]].report = std::move(report);
    ++ready;
    TellProgress(StrCat(ready, " of ", Counted(static_cast<int64_t>(specs.size()), "prediction")));
  });
  if (HasStatusLine()) ClearStatusLine();
  return absl::OkStatus();
}

// What a reader must know of several predictions, said once.
void PrintNotes(const std::vector<Variant>& variants, const std::string& shown) {
  std::vector<std::string> notes;
  for (const Variant& variant : variants) {
    if (!variant.report.has_value() || !variant.report->ok()) continue;
    for (const std::string& note : (*variant.report)->notes()) {
      const bool how = absl::StartsWith(note, "ranks are folded") || absl::StartsWith(note, "ranks were not folded");
      if (!how) notes.push_back(note);
    }
  }
  std::printf("%s", NotesText(notes, shown).c_str());
}

int PredictCommand(const PredictOptions& options) {
  if (options.serve) {
    RunSimulationsHere();
    const int status =
        prediction::Serve(prediction::kSocket, prediction::kPipe, {.predict = PredictHere, .answer = AnswerQuestion});
    if (status != kExitFine)
      LogError("--serve: there is no predictor to answer; it is for the program's own processes");
    return status;
  }
  const auto refuse = [](const absl::Status& status) {
    LogError(status.message());
    return kExitWrongInput;
  };
  if (options.spec.empty()) return refuse(absl::InvalidArgumentError("SPEC is missing: a spec, .textproto or .json"));
  const absl::StatusOr<std::vector<Varied>> varied = ParseVaried(options.varied);
  if (!varied.ok()) return refuse(varied.status());
  absl::StatusOr<std::vector<Variant>> variants = VariantsOf(options.spec, options.sets, *varied);
  if (!variants.ok()) return refuse(variants.status());
  if (const absl::Status status = PredictEach(options, *variants); !status.ok()) {
    LogError(status.message());
    return absl::IsInvalidArgument(status) ? kExitWrongInput : kExitFailed;
  }
  bool any = false, failed = false;
  for (const Variant& variant : *variants) {
    if (!variant.report.has_value()) continue;
    const bool wrong_input = !variant.report->ok() && !absl::IsInternal(variant.report->status());
    any = any || (variant.report->ok() && (*variant.report)->outcome() != report::FAILED);
    failed = failed || (!wrong_input && (!variant.report->ok() || (*variant.report)->outcome() == report::FAILED));
    if (wrong_input && variants->size() == 1) return refuse(variant.report->status());
  }
  if (options.json) {
    std::printf("%s", JsonText(SweepJson(*varied, *variants)).c_str());
  } else {
    std::printf("%s", SweepText(*varied, *variants).c_str());
    PrintNotes(*variants, options.shown_notes);
  }
  if (any) return kExitFine;
  LogError("nothing could be predicted");
  return failed ? kExitFailed : kExitWrongInput;
}

}  // namespace

void AddPredictCommand(const Command& program, int& exit_status) {
  const Command command =
      program.AddCommand("predict", "predicts many variants of a spec, and prints them side by side");
  auto options = std::make_shared<PredictOptions>();
  command.AddOption("SPEC", options->spec, "a spec, .textproto or .json");
  command.AddOption("--set=FIELD=V", options->sets, "replace a field of the spec, as for `run`; may be repeated")
      .Repeatable();
  command
      .AddOption("--vary=FIELD=V,V", options->varied,
                 "predict for each of these values, and for all combinations of several --vary")
      .Repeatable();
  command.AddOption("--processes=N", options->processes, "predictions at a time (default: one for each core)");
  command.AddFlag("--json", options->json, "print JSON, with all figures and notes of each prediction");
  AddNotesOption(command, options->shown_notes);
  command.AddFlag("--serve", options->serve, "answer requests from a socket").Hidden();
  command.Footer(
      "Predictions are those of `twofold run --fabric=simulated`, without files and, unless --set=trace... says "
      "otherwise,\n"
      "without traces. The number of ranks follows from parallel.dp, tp, pp and cp. Values that do not go together "
      "are\n"
      "listed with the reason.\n"
      "\n"
      "Exit status: 0 something was predicted (a line may say out of memory); 1 a failure; 2 wrong input.\n"
      "\nExamples:\n"
      "  twofold predict my.textproto --vary=parallel.tp=1,2,4,8 --vary=parallel.pp=1,2,4\n"
      "  twofold predict my.textproto --vary=train.micro_batch=1,2,4 --set=fabric.simulated.cluster=dgx-h100\n"
      "  twofold predict my.textproto --vary=fabric.simulated.cluster=dgx-a100,dgx-h100 --json");
  command.OnParsed([options, &exit_status] { exit_status = PredictCommand(*options); });
}

}  // namespace twofold
