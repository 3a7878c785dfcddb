// Operations in one pass over memory: splits one that does two things, and tells the time of one that a neighbour does.
#pragma once

#include <optional>

#include "core/device/cost_model.h"
#include "core/device/ops.h"

namespace twofold {

struct TwoPasses {
  ops::Op main, joined;  // joined: the fused part: a sum beside a norm, a GELU beside a product
};

// Absent if the operation is not fused.
std::optional<TwoPasses> Unfused(const ops::Op& op);

// The time of an operation that a neighbour does in its own pass: none, and no launch.
inline Estimate InNeighboursPass() { return {.launch = Seconds(0)}; }

}  // namespace twofold
