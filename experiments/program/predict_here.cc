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

absl::StatusOr<report::Report> PredictHere(spec::Spec spec, const std::string& file) {
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
  const TrainingOptions options = TrainingOptionsFor(spec);
  RunResult result = (*fabric)->Run(static_cast<int>(RanksToStart(spec)), [&](RankContext& ctx) {
    return TrainRank(ctx, options, data->samples(), nullptr, {}, nullptr);
  });
  return Finish(spec, **fabric, *data, std::move(result)).report;
}

}  // namespace twofold
