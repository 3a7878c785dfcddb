// Splits an operation that does two things in one pass into two operations.
#pragma once

#include <optional>

#include "core/device/ops.h"

namespace twofold {

struct TwoPasses {
  ops::Op main, joined;  // joined: the fused part: a sum beside a norm, a GELU beside a product
};

// Absent if the operation is not fused.
std::optional<TwoPasses> Unfused(const ops::Op& op);

}  // namespace twofold
