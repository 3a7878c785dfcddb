// The scratch memory of attention's tiles, in the layout of kernels/cpu/attention.cc. Only for this folder's .cc files.
#pragma once

#include "core/device/ops/rules.h"

namespace twofold::ops::rules {

// Each thread holds the scores of one head's tile of query rows against `keys` keys, and those query rows. It holds
// this `tiles` times, plus `copies` elements of f32 copies (for BF16 and F16).
inline Bytes AttentionTiles(DType type, int64_t threads, int tiles, int64_t keys, int64_t head_dim, int64_t copies) {
  constexpr int64_t kTileBytes = 128;  // of the query rows of a tile
  const int64_t size = ElementSize(AccumulationType(type)), rows = kTileBytes / size;
  return Bytes(threads * (tiles * (RoundUp(rows * keys, 16) + RoundUp(rows * head_dim, 16)) + copies) * size);
}

}  // namespace twofold::ops::rules
