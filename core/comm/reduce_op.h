// The operation that combines the ranks' values.
#pragma once

#include <string_view>

namespace twofold {

enum class ReduceOp { kSum, kAvg, kProduct, kMin, kMax };

constexpr std::string_view ReduceOpName(ReduceOp op) {
  constexpr std::string_view kNames[] = {"sum", "avg", "product", "min", "max"};
  return kNames[static_cast<int>(op)];
}

}  // namespace twofold
