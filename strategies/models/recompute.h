// Which activations of a model are computed again in backward, as train.activation_checkpointing says.
#pragma once

#include <memory>
#include <span>

#include "core/nn/language_model.h"
#include "core/nn/recompute.h"
#include "core/proto/spec.pb.h"

namespace twofold {

// `spec` is whole and validated.
nn::Recomputation RecomputationOf(const spec::Spec& spec);

// The model of `spec`, finalized, with wrappers around what backward computes again. Call it before a layout puts its own
// around blocks: a unit's parameters are then there for both forward passes. `parts`: of the whole model, what the model's chunks are
// (models/chunks.h), where it is not the whole; blocks count from the whole's first.
std::unique_ptr<nn::Module> WithRecompute(std::unique_ptr<nn::Module> model, const spec::Spec& spec, std::span<const nn::ModelPart> parts = {});

}  // namespace twofold
