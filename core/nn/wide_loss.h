// A loss over logits that are converted to F32 first, as Megatron-LM (`output.float()`) and PyTorch's automatic mixed
// precision do. The logits, their F32 copy and, in backward, the gradient in both types take memory at the same time.
#pragma once

#include <memory>

#include "core/nn/layers.h"

namespace twofold::nn {

// `inner` gets F32 logits; its gradient is converted back to the type of the logits.
std::unique_ptr<Loss> MakeWideLoss(std::unique_ptr<Loss> inner);

}  // namespace twofold::nn
