// Which modules of a model backward recomputes.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/nn/module.h"
#include "core/nn/recompute.h"

namespace twofold {

// Adds wrappers around the modules of `part` that backward recomputes. `part` is finalized; its blocks have the kind
// `block`, and the first of them is number `first_block` of the whole model. Call it before a layout adds its own
// wrappers around blocks, so that a unit's parameters are available in both forward passes.
void WrapRecomputed(nn::Module& part, std::string_view block, const nn::Recomputation& recomputation,
                    int64_t first_block);

}  // namespace twofold
