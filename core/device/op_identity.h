// What makes one launch of an operation equal to another, for whoever repeats launches without making them again.
#pragma once

#include <cstdint>

#include "core/device/ops.h"

namespace twofold::ops {

// Hashes (XXH3) of a launch. Two launches with equal `place` are of the same operation on the same addresses with the
// same shapes, types and flags. They may differ in numbers that kernels take as plain arguments: floating-point numbers
// (a learning rate, a factor), keys of random draws, and the number of the step. If `values` are equal, too, the
// launches do the same.
struct OpIdentity {
  uint64_t place[2];
  uint64_t values;
};
OpIdentity IdentityOf(const Op& op, const Tensor& workspace);

// The same operation on borrowed tensors (Tensor::Borrowed): for whoever launches it later, in the order of the stream.
Op Borrowed(const Op& op);

}  // namespace twofold::ops
