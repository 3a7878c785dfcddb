#include "experiments/program/predict_here.h"

#include <memory>
#include <utility>

#include "backends/registry.h"
#include "core/base/status.h"
#include "core/base/strings.h"
#include "core/proto/fabric_name.h"
#include "experiments/program/finish.h"
#include "experiments/program/spec/elastic.h"
#include "experiments/program/spec/spec.h"
#include "strategies/from_spec.h"
#include "strategies/trainer.h"

namespace twofold {

namespace {

struct Prediction {
  std::unique_ptr<Fabric> fabric;
  TrainingData data;
  RunResult result;
};

absl::StatusOr<Prediction> Simulate(spec::Spec& spec, const std::string& file, std::vector<int> micro_batches) {
  if (FabricName(spec) != "simulated")
    return InvalidArgument(file, ": fabric: ", FabricName(spec), " measures; only fabric simulated predicts");
  if (WritesCheckpoints(spec) || spec.train().has_resume())
    return InvalidArgument(file, ": train.checkpoint and train.resume: a prediction writes and reads no files; use ",
                           "`twofold run`, or leave them out");
  if (spec.train().has_checkpoint())
    spec.mutable_train()->mutable_checkpoint()->set_path("checkpoints");  // takes time only
  absl::StatusOr<TrainingData> data = LoadTrainingData(spec, file);
  if (!data.ok()) return data.status();
  absl::StatusOr<std::unique_ptr<Fabric>> fabric = MakeFabric(spec);
  if (!fabric.ok())
    return absl::Status(fabric.status().code(), StrCat(file, ": ", std::string(fabric.status().message())));
  TrainingOptions options = TrainingOptionsFor(spec);
  if (!micro_batches.empty()) options.alike_from = options.steps;
  options.micro_batches = std::move(micro_batches);
  RunResult result = (*fabric)->Run(static_cast<int>(RanksToStart(spec)), [&](RankContext& ctx) {
    return TrainRank(ctx, options, data->samples(), nullptr, {}, nullptr);
  });
  return Prediction{*std::move(fabric), *std::move(data), std::move(result)};
}

}  // namespace

absl::StatusOr<report::Report> PredictHere(spec::Spec spec, const std::string& file) {
  absl::StatusOr<Prediction> made = Simulate(spec, file, {});
  if (!made.ok()) return made.status();
  return Finish(spec, *made->fabric, made->data, std::move(made->result)).report;
}

absl::StatusOr<std::vector<report::Report>> PredictSteps(spec::Spec spec, const std::string& file,
                                                         const std::vector<int64_t>& micro_batches) {
  if (micro_batches.empty()) {
    absl::StatusOr<report::Report> report = PredictHere(std::move(spec), file);
    if (!report.ok()) return report.status();
    return std::vector{*std::move(report)};
  }
  spec::Train& train = *spec.mutable_train();
  train.clear_epochs();
  train.set_steps(static_cast<int64_t>(micro_batches.size()));
  const absl::StatusOr<Prediction> made = Simulate(spec, file, {micro_batches.begin(), micro_batches.end()});
  if (!made.ok()) return made.status();
  const int64_t samples = train.global_batch() / AccumulationSteps(spec);  // of one micro-batch on all ranks
  std::vector<report::Report> reports;
  for (size_t step = 0; step < micro_batches.size(); ++step) {
    const auto before = static_cast<int64_t>(step);
    train.set_warmup_steps(before), train.set_steps(before + 1);
    train.set_global_batch(samples * micro_batches[step]);
    reports.push_back(Finish(spec, *made->fabric, made->data, made->result).report);
    if (reports.back().outcome() != report::OK) return std::vector{reports.back()};
  }
  return reports;
}

}  // namespace twofold
