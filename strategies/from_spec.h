// Turns specs into the options of strategies. No other header of strategies/ knows specs.
#pragma once

#include <memory>
#include <vector>

#include "core/proto/spec.pb.h"
#include "strategies/training_options.h"

namespace twofold {

DType ToDType(spec::DType dtype);
// Null if the model names no kind.
std::shared_ptr<const Model> ModelOf(const spec::Model& model);
// The spec's `order` must be valid, or empty for the default order.
MeshShape MeshOf(const spec::Parallel& parallel);
pipeline::Schedule ScheduleOf(const spec::Parallel& parallel);
// As stage_layers and stage_balance of a valid spec say.
std::vector<nn::ModelPart> PartsOf(const spec::Parallel& parallel, const Model& model);
nn::Recomputation RecomputationOf(const spec::Train& train);
bool SavesOnSignal(const spec::Train& train);          // train.checkpoint.on_signal, or its default
int64_t EveryStepsOf(const spec::LocalUpdate& local);  // steps between outer steps
RecorderOptions RecorderOptionsOf(const spec::Spec& spec);

// `spec` is resolved and valid: defaults are filled in, and epochs are converted to steps. Checkpoints need a path
// before a rank trains.
TrainingOptions TrainingOptionsOf(const spec::Spec& spec);

}  // namespace twofold
