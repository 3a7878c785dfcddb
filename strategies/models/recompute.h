// Which activations of a model are recomputed in backward, as train.activation_checkpointing says.
#pragma once

#include <memory>
#include <span>

#include "core/nn/language_model.h"
#include "core/nn/recompute.h"
#include "core/proto/spec.pb.h"

namespace twofold {

// `spec` is resolved and validated.
nn::Recomputation RecomputationOf(const spec::Spec& spec);

// Adds wrappers around the modules of `model` that backward recomputes. `model` is the finalized model of `spec`. Call
// it before a layout adds its own wrappers around blocks, so that a unit's parameters are available in both forward
// passes. `parts`: if `model` is not the whole, which part each of its chunks (models/chunks.h) is; blocks are counted
// in the whole model.
std::unique_ptr<nn::Module> WithRecompute(std::unique_ptr<nn::Module> model, const spec::Spec& spec,
                                          std::span<const nn::ModelPart> parts = {});

}  // namespace twofold
