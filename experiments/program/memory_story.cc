#include "experiments/program/memory_story.h"

#include <algorithm>
#include <optional>
#include <span>
#include <utility>

#include "core/base/strings.h"
#include "experiments/program/fabric_option.h"
#include "experiments/program/predict/predictor.h"
#include "experiments/program/spec/spec.h"
#include "experiments/program/training_data.h"
#include "topologies/frameworks.h"

namespace twofold {
namespace {

absl::StatusOr<spec::Spec> SpecOf(const MemoryQuestion& asked, const std::vector<std::string>& sets) {
  if (const absl::Status known = CheckFabricOption(asked.fabric); !known.ok()) return known;
  return asked.text ? ResolveSpec(*asked.text, asked.file, asked.fabric, sets)
                    : LoadSpec(asked.file, asked.fabric, sets);
}

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
absl::StatusOr<MemoryStory> Judge(const MemoryQuestion& asked, const std::vector<std::string>& sets) {
  absl::StatusOr<spec::Spec> spec = SpecOf(asked, sets);
  if (!spec.ok()) return spec.status();
  absl::StatusOr<TrainingData> data = LoadTrainingData(*spec, asked.file);
  if (!data.ok()) return data.status();
  if (const auto resumed = ResolveResume(*spec, asked.file); !resumed.ok()) return resumed.status();
  absl::StatusOr<MemoryPrediction> prediction = PredictMemory(*spec, data->samples());
  if (!prediction.ok()) {
    return absl::Status(prediction.status().code(),
                        StrCat(asked.file, ": ", std::string(prediction.status().message())));
  }
  MemoryStory story{.spec = *std::move(spec), .prediction = *prediction, .needed = *prediction};
  if (absl::IsResourceExhausted(prediction->status()))
    story.needed = *PredictMemory(story.spec, data->samples(), /*bounded=*/false);
  if (const absl::Status told = TellOfFramework(story); !told.ok()) return told;
  return story;
}

std::vector<std::string> With(const MemoryQuestion& asked, const std::vector<std::string>& sets) {
  std::vector<std::string> all = asked.sets;
  all.insert(all.end(), sets.begin(), sets.end());
  return all;
}

absl::StatusOr<std::optional<int64_t>> ReservedIfItFits(const MemoryQuestion& asked,
                                                        const std::vector<std::string>& sets) {
  const absl::StatusOr<MemoryStory> story = Judge(asked, With(asked, sets));
  if (!story.ok()) return story.status();
  if (story->verdict.fits != true) return std::nullopt;
  int64_t reserved = story->needed.largest().record.memory().reserved_bytes();
  for (const report::FrameworkMemory& memory : story->of_framework)
    reserved = std::max(reserved, memory.device_bytes());
  return reserved;
}

// Step times on the simulated fabric; 0 where it cannot predict, as for GPUs of this machine.
std::vector<double> StepTimes(const MemoryQuestion& asked, const spec::Spec& spec,
                              std::span<const std::vector<std::string>> changes) {
  std::vector<double> seconds(changes.size(), 0);
  if (!spec.fabric().has_simulated()) return seconds;
  std::vector<size_t> of;
  std::vector<spec::Spec> specs;
  for (size_t i = 0; i < changes.size(); ++i) {
    std::vector<std::string> sets = With(asked, changes[i]);
    sets.insert(sets.end(), {"trace.enabled=false", "memory.assume_fits=true"});
    absl::StatusOr<spec::Spec> changed = SpecOf(asked, sets);
    if (!changed.ok()) continue;
    of.push_back(i);
    specs.push_back(*std::move(changed));
  }
  const auto predictor = Predictor::Make({.program = "/proc/self/exe"});
  if (!predictor.ok()) return seconds;
  (*predictor)->PredictAll(specs, asked.file, [&](size_t s, const absl::StatusOr<report::Report>& report) {
    if (report.ok() && report->outcome() == report::OK) seconds[of[s]] = report->median_step_seconds();
  });
  return seconds;
}

}  // namespace

absl::StatusOr<MemoryStory> TellMemory(const MemoryQuestion& asked) {
  absl::StatusOr<MemoryStory> story = Judge(asked, asked.sets);
  if (!story.ok()) return BlameSets(story.status(), asked.file, asked.sets);
  for (const absl::Status& status : {story->prediction.status(), story->needed.status()}) {
    if (!status.ok() && !absl::IsResourceExhausted(status)) return absl::InternalError(status.message());
  }
  story->states = ModelStateFormulas(story->spec);
  story->layers = ActivationsByLayer(story->spec, story->prediction.rules, story->needed.largest().ranks[0]);
  return story;
}

MemoryAdvice AdviseOn(const MemoryQuestion& asked, const MemoryStory& story) {
  return AdviseOnMemory(
      story.spec, [&](const std::vector<std::string>& sets) { return ReservedIfItFits(asked, sets); },
      [&](std::span<const std::vector<std::string>> changes) { return StepTimes(asked, story.spec, changes); });
}

}  // namespace twofold
