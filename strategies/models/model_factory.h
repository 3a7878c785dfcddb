// From what a spec says to the parts of a training step: model, optimizer, schedule, element types.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>

#include "core/nn/module.h"
#include "core/optim/optimizer.h"
#include "core/optim/schedule.h"
#include "core/proto/spec.pb.h"
#include "strategies/models/kinds.h"

namespace twofold {

DType ToDType(spec::DType dtype);

// A model whose output is logits [.., classes]; named (finalized), without storage.
std::unique_ptr<nn::Module> MakeModel(const spec::Model& model, ModelTypes types, nn::Layers& layers = nn::OneRank());
// Likewise, of a part of it, with layers that may be split over ranks. The kind splits, or the part is the whole.
std::unique_ptr<nn::Module> MakePart(const spec::Model& model, ModelTypes types, const nn::ModelPart& part, nn::Layers& layers);
// Likewise, of the parts that one stage of a pipeline holds: the part itself, or Chunks of several.
std::unique_ptr<nn::Module> MakeStage(const spec::Model& model, ModelTypes types, std::span<const nn::ModelPart> parts, nn::Layers& layers);
int64_t ParameterCount(const spec::Model& model);  // of the whole model, however ranks share it; makes one
ModelInput InputOf(const spec::Model& model);
int64_t ItemsPerSample(const spec::Model& model);  // what tokens_per_second counts: tokens of a sequence, else 1
std::string_view ItemName(const spec::Model& model);  // "tokens" or "samples"

// FLOPs of forward and backward over `samples`, as core/nn/flops.h counts them.
double TrainingFlops(const spec::Model& model, int64_t samples);
// Those that the devices are given to do for them, what is computed again included.
double HardwareFlops(const spec::Spec& spec, int64_t samples);

std::unique_ptr<optim::Optimizer> MakeOptimizer(const spec::Train& train, spec::Parallel::Offload offload);
optim::LrSchedule MakeSchedule(const spec::Schedule& schedule);

}  // namespace twofold
