// Which tokens of a sequence a rank holds. Under a causal mask the last tokens see all others and the first see none,
// so contiguous stretches of equal length are unequal work. But if a sequence is cut into 2 n equal chunks, the i-th
// chunk and the i-th from the end are together the same work for every i:
//
//     n = 2:  | 0 | 1 | 1 | 0 |          n = 3:  | 0 | 1 | 2 | 2 | 1 | 0 |
//
// Megatron-LM's context parallelism assigns chunks in this way. Brandon et al. 2023 ("Striped Attention: Faster Ring
// Attention for Causal Transformers") assign single tokens in turn, for the same reason.
#pragma once

#include <array>
#include <cstdint>

#include "core/base/check.h"
#include "core/device/ops/op.h"

namespace twofold {

struct ZigZag {
  int rank = 0, ranks = 1;

  // The two of the 2 * ranks chunks that this rank holds of every sample, in this order.
  std::array<int64_t, 2> Chunks() const { return {rank, 2 * ranks - 1 - rank}; }
  // The positions of the rows of this rank's [b, tokens, ..] in their sequences.
  ops::IndexMap Positions(int64_t tokens) const {
    TWOFOLD_CHECK_EQ(tokens % 2, 0);
    const int64_t chunk = tokens / 2;
    return {.block = chunk, .blocks = 2, .offset = {Chunks()[0] * chunk, Chunks()[1] * chunk}};
  }
};

}  // namespace twofold
