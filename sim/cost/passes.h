// What an operation that does two things in one pass would be as two.
#pragma once

#include <optional>

#include "core/device/ops.h"

namespace twofold {

struct TwoPasses {
  ops::Op main, joined;  // joined: the one that saves a pass: a sum beside a norm, a GELU beside a product
};

// Absent: the operation is one thing.
std::optional<TwoPasses> Unfused(const ops::Op& op);

}  // namespace twofold
