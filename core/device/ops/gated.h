// Gated activations: a fused tensor of two halves becomes one half.
#pragma once

#include "core/device/ops/op.h"

namespace twofold::ops {

// SwiGLU (Shazeer 2020). In each row of x [.., 2c] the first half is the gate g, the second half is u. y [.., c] =
// silu(g) * u with silu(g) = g / (1 + e^-g).
struct SwiGluForward {
  Tensor x, y;
};
struct SwiGluBackward {
  Tensor x, dy, dx;
};  // dx may be x

}  // namespace twofold::ops
