// Which tokens of a sequence a rank has. Under a causal mask the last tokens see all others and the first see none, so that
// equal stretches are unequal work; but of 2 n equal chunks, the i-th and the i-th from the end together are the same for every i:
//
//     n = 2:  | 0 | 1 | 1 | 0 |          n = 3:  | 0 | 1 | 2 | 2 | 1 | 0 |
//
// Megatron-LM's context parallelism deals chunks so; Brandon et al. 2023 ("Striped Attention: Faster Ring Attention for Causal
// Transformers") deal single tokens in turn, to the same end.
#pragma once

#include <array>
#include <cstdint>

#include "core/base/check.h"
#include "core/device/ops/op.h"

namespace twofold {

struct ZigZag {
  int rank = 0, ranks = 1;

  // Of 2 * ranks; a rank holds both, in this order, of every sample.
  std::array<int64_t, 2> Chunks() const { return {rank, 2 * ranks - 1 - rank}; }
  // The positions of the rows of [b, tokens, ..]: `tokens` of each sample are this rank's.
  ops::IndexMap Positions(int64_t tokens) const {
    TWOFOLD_CHECK_EQ(tokens % 2, 0);
    const int64_t chunk = tokens / 2;
    return {.block = chunk, .blocks = 2, .offset = {Chunks()[0] * chunk, Chunks()[1] * chunk}};
  }
};

}  // namespace twofold
