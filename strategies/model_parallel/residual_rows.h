// Which rows of the residual stream a rank has. The whole is [b, t, hidden]: b sequences of t tokens.
//     context parallelism    of every sequence the chunks that ZigZag says: [b, t / cp, hidden]
//     sequence parallelism   of the rows of that, flattened, the r-th tp-th part: of the shape [b, t / (cp tp), hidden]
//                            (strategies/tensor_parallel/exchange.h)
#pragma once

#include "core/tensor/tensor.h"
#include "strategies/context_parallel/zig_zag.h"

namespace twofold {

struct ResidualRows {
  ZigZag chunks;      // of sequences; ranks: cp
  int tp = 1, r = 0;  // then parts of rows
  bool all() const { return chunks.ranks == 1 && tp == 1; }

  // For each row of a local tensor of this shape, its place in its sequence.
  ops::IndexMap PositionsOf(const Shape& local) const { return Map(local[0] * local[1], local[1], 1, /*sequence=*/0); }
  // For each element, its place in the whole.
  ops::IndexMap ElementsOf(const Shape& local) const {
    return Map(local.numel(), local[1], local[2], /*sequence=*/local[1] * tp * chunks.ranks * local[2]);
  }

 private:
  // Of `count` things here, `width` of them a row, `local_rows` rows a sequence. Sequences lie `sequence` things apart in the whole.
  ops::IndexMap Map(int64_t count, int64_t local_rows, int64_t width, int64_t sequence) const {
    const int64_t rows = local_rows * tp;  // of a sequence, along tp together
    if (chunks.ranks == 1) return {.first = r * count, .block = rows * width, .stride = sequence};
    TWOFOLD_CHECK_EQ(rows % 2, 0);
    const int64_t chunk = rows / 2 * width;
    return {.first = r * count, .block = chunk, .stride = sequence, .blocks = 2,
            .offset = {chunks.Chunks()[0] * chunk, chunks.Chunks()[1] * chunk}};
  }
};

}  // namespace twofold
