// Makes the parts of a training step from a spec: model, optimizer, schedule, element types.
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

// A model whose output is logits [.., classes]. It is named (finalized) and has no storage.
std::unique_ptr<nn::Module> MakeModel(const spec::Model& model, ModelTypes types, nn::Layers& layers = nn::OneRank());
// The same for a part of the model, with layers that may be split over ranks.
std::unique_ptr<nn::Module> MakePart(const spec::Model& model, ModelTypes types, const nn::ModelPart& part,
                                     nn::Layers& layers);
// The same for the parts that one pipeline stage holds: the part itself if there is one, else Chunks.
std::unique_ptr<nn::Module> MakeStage(const spec::Model& model, ModelTypes types, std::span<const nn::ModelPart> parts,
                                      nn::Layers& layers);
// The loss of its logits: split over ranks if they are, as those of a vocabulary.
std::unique_ptr<nn::Loss> MakeLoss(const spec::Model& model, nn::Layers& layers);
int64_t ParameterCount(const spec::Model& model);  // of the whole model, not of a rank's part; makes a model to count
ModelInput InputOf(const spec::Model& model);
int64_t ItemsPerSample(const spec::Model& model);     // what tokens_per_second counts: tokens of a sequence, else 1
std::string_view ItemName(const spec::Model& model);  // "tokens" or "samples"

// FLOPs of forward and backward over `samples`, counted as in core/nn/flops.h.
double TrainingFlops(const spec::Model& model, int64_t samples);
// FLOPs that the devices execute for them, including recomputation.
double HardwareFlops(const spec::Spec& spec, int64_t samples);

std::unique_ptr<optim::Optimizer> MakeOptimizer(const spec::Train& train, spec::Parallel::Offload offload);
optim::LrSchedule MakeSchedule(const spec::Schedule& schedule);

}  // namespace twofold
