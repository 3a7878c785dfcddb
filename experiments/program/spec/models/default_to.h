// Defaults that are products of other fields.
#pragma once

#include <cstdint>

namespace twofold {

// Sets a * b if the field is unset. Products that overflow are left for Validate to refuse.
template <class Block>
void DefaultTo(Block& block, bool has, void (Block::*set)(int64_t), int64_t a, int64_t b) {
  int64_t product = 0;
  if (!has && !__builtin_mul_overflow(a, b, &product)) (block.*set)(product);
}

}  // namespace twofold
