// twofold memory SPEC
#include <algorithm>
#include <cstdio>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/base/strings.h"
#include "experiments/program/cli/log.h"
#include "experiments/program/commands.h"
#include "experiments/program/memory_advice.h"
#include "experiments/program/memory_table.h"
#include "experiments/program/predict/predictor.h"
#include "experiments/program/report/files.h"
#include "experiments/program/report/json.h"
#include "experiments/program/spec/spec.h"
#include "experiments/program/training_data.h"
#include "topologies/frameworks.h"

namespace twofold {
namespace {

struct MemoryOptions {
  std::string spec, fabric, out;
  std::vector<std::string> sets;
};

// The verdict, and what another framework takes.
absl::Status TellOfFramework(MemoryStory& story) {
  if (story.spec.framework() == spec::TWOFOLD) {
    story.verdict = JudgeMemory(story.spec, story.prediction, story.needed);
    return absl::OkStatus();
  }
  const absl::StatusOr<framework::Framework> f = FindFramework(story.spec);
  if (!f.ok()) return f.status();
  story.framework = f->name();
  story.of_framework = FrameworkMemoryOf(story.spec, *f, story.needed);
  story.verdict = JudgeFramework(story.needed, *f, story.of_framework);
  return absl::OkStatus();
}

// Without formulas and layers.
absl::StatusOr<MemoryStory> Judge(const MemoryOptions& options, const std::vector<std::string>& sets) {
  absl::StatusOr<spec::Spec> spec = LoadSpec(options.spec, options.fabric, sets);
  if (!spec.ok()) return spec.status();
  absl::StatusOr<TrainingData> data = LoadTrainingData(*spec, options.spec);
  if (!data.ok()) return data.status();
  if (const auto resumed = ResolveResume(*spec, options.spec); !resumed.ok()) return resumed.status();
  absl::StatusOr<MemoryPrediction> prediction = PredictMemory(*spec, data->samples());
  if (!prediction.ok()) {
    return absl::Status(prediction.status().code(),
                        StrCat(options.spec, ": ", std::string(prediction.status().message())));
  }
  MemoryStory story{.spec = *std::move(spec), .prediction = *prediction, .needed = *prediction};
  if (absl::IsResourceExhausted(prediction->status()))
    story.needed = *PredictMemory(story.spec, data->samples(), /*bounded=*/false);
  if (const absl::Status told = TellOfFramework(story); !told.ok()) return told;
  return story;
}

absl::StatusOr<MemoryStory> Tell(const MemoryOptions& options) {
  absl::StatusOr<MemoryStory> story = Judge(options, options.sets);
  if (!story.ok()) return story;
  story->states = ModelStateFormulas(story->spec);
  story->layers = ActivationsByLayer(story->spec, story->prediction.rules, story->needed.largest().ranks[0]);
  return story;
}

std::vector<std::string> With(const MemoryOptions& options, const std::vector<std::string>& sets) {
  std::vector<std::string> all = options.sets;
  all.insert(all.end(), sets.begin(), sets.end());
  return all;
}

absl::StatusOr<std::optional<int64_t>> ReservedIfItFits(const MemoryOptions& options,
                                                        const std::vector<std::string>& sets) {
  const absl::StatusOr<MemoryStory> story = Judge(options, With(options, sets));
  if (!story.ok()) return story.status();
  if (story->verdict.fits != true) return std::nullopt;
  int64_t reserved = story->needed.largest().record.memory().reserved_bytes();
  for (const report::FrameworkMemory& memory : story->of_framework)
    reserved = std::max(reserved, memory.device_bytes());
  return reserved;
}

// Step times on the simulated fabric; 0 where it cannot predict, as for GPUs of this machine.
std::vector<double> StepTimes(const MemoryOptions& options, const spec::Spec& spec,
                              std::span<const std::vector<std::string>> changes) {
  std::vector<double> seconds(changes.size(), 0);
  if (!spec.fabric().has_simulated()) return seconds;
  std::vector<size_t> of;
  std::vector<spec::Spec> specs;
  for (size_t i = 0; i < changes.size(); ++i) {
    std::vector<std::string> sets = With(options, changes[i]);
    sets.insert(sets.end(), {"trace.enabled=false", "memory.assume_fits=true"});
    absl::StatusOr<spec::Spec> changed = LoadSpec(options.spec, options.fabric, sets);
    if (!changed.ok()) continue;
    of.push_back(i);
    specs.push_back(*std::move(changed));
  }
  const auto predictor = Predictor::Make({.program = "/proc/self/exe"});
  if (!predictor.ok()) return seconds;
  (*predictor)->PredictAll(specs, options.spec, [&](size_t s, const absl::StatusOr<report::Report>& report) {
    if (report.ok() && report->outcome() == report::OK) seconds[of[s]] = report->median_step_seconds();
  });
  return seconds;
}

std::string AdviceText(const MemoryOptions& options, const MemoryStory& story) {
  return MemoryAdviceText(AdviseOnMemory(
      story.spec, [&](const std::vector<std::string>& sets) { return ReservedIfItFits(options, sets); },
      [&](std::span<const std::vector<std::string>> changes) { return StepTimes(options, story.spec, changes); }));
}

absl::Status Write(const std::string& folder, const MemoryStory& story) {
  return WriteFiles(folder, {{"spec.textproto", SpecToText(story.spec)},
                             {"memory.json", JsonText(MemoryJson(story))},
                             {"report.json", JsonText(ToJson(MemoryReport(story)))}});
}

int MemoryCommand(const MemoryOptions& options) {
  const absl::StatusOr<MemoryStory> story = Tell(options);
  if (!story.ok()) {
    LogError(BlameSets(story.status(), options.spec, options.sets).message());
    return kExitWrongInput;
  }
  for (const absl::Status& status : {story->prediction.status(), story->needed.status()}) {
    if (status.ok() || absl::IsResourceExhausted(status)) continue;
    LogError(status.message());
    return kExitFailed;
  }
  if (!options.out.empty()) {
    if (const absl::Status made = MakeOutFolder("--out", options.out); !made.ok()) {
      LogError(made.message());
      return kExitWrongInput;
    }
  }
  std::printf("%s", MemoryText(*story).c_str());
  if (story->verdict.fits == false) std::printf("\n%s", AdviceText(options, *story).c_str());
  if (!options.out.empty()) {
    if (const absl::Status written = Write(options.out, *story); !written.ok()) {
      LogError(written.message());
      return kExitFailed;
    }
    std::printf("\nreport: %s\n", options.out.c_str());
  }
  const absl::Status& status = story->verdict.status;
  if (status.ok()) return kExitFine;
  LogError("OUT_OF_MEMORY: ", status.message());
  return kExitPredictedFailure;
}

}  // namespace

void AddMemoryCommand(const Command& program, int& exit_status) {
  const Command command =
      program.AddCommand("memory", "predicts the memory that a spec needs, within moments, and shows what uses it");
  auto options = std::make_shared<MemoryOptions>();
  command.AddOption("SPEC", options->spec, "a spec, .textproto").Required();
  command.AddOption("--fabric", options->fabric, "predict for this fabric instead of the spec's");
  command.AddOption("--set", options->sets, "path=value: replace a field of the spec; may be repeated").Repeatable();
  command.AddOption("--out", options->out, "folder for memory.json and report.json (default: nothing is written)");
  command.Footer(
      "Only one rank of each kind runs, on a fabric without a clock. The same code makes the same requests to the\n"
      "same allocator, so the bytes are those that a run of the spec measures. Steps that repeat earlier ones are\n"
      "left out, so that specs of any size and length take only a moment.\n"
      "\n"
      "  at the peak    bytes of each category when their sum is highest\n"
      "  own peak       the most bytes that each category ever has\n"
      "  between steps  bytes that remain: the model states of the ZeRO paper; its formula is shown below\n"
      "  reserved       what the allocator takes from the device, free blocks included\n"
      "\n"
      "What does not fit is followed by the three changes that make it fit and cost least, of BF16, recomputation,\n"
      "ZeRO, tp, offload and smaller micro-batches: each with its memory and, on fabric simulated, its step time.\n"
      "\n"
      "Exit status: 0 it fits, or that is not known (no such GPU here, or only the launcher knows the hosts);\n"
      "1 the prediction fails, or the report cannot be written; 2 wrong input; 3 it exceeds the memory of the\n"
      "device, memory.budget_mib or, if ranks share this machine's CPU, the memory of this machine.\n"
      "\nExamples:\n"
      "  twofold memory my.textproto\n"
      "  twofold memory my.textproto --set=parallel.dp=64 --set=parallel.sharding=ZERO_3\n"
      "  twofold memory my.textproto --set=memory.budget_mib=16384 --set=train.micro_batch=8\n"
      "  twofold memory my.textproto --set=fabric.simulated.cluster=star-h100 --out=runs/memory");
  command.OnParsed([options, &exit_status] { exit_status = MemoryCommand(*options); });
}

}  // namespace twofold
