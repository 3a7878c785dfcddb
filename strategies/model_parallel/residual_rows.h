// The rows of the residual stream that a rank holds. The whole stream is [b, t, hidden]: b sequences of t tokens.
//     context parallelism    the chunks of each sequence that ZigZag assigns: [b, t / cp, hidden]
//     sequence parallelism   these rows, flattened, are cut into tp equal parts; rank r holds the r-th, with the shape
//                            [b, t / (cp tp), hidden] (strategies/tensor_parallel/exchange.h)
#pragma once

#include "core/tensor/tensor.h"
#include "strategies/context_parallel/zig_zag.h"

namespace twofold {

struct ResidualRows {
  ZigZag chunks;      // the chunks of each sequence, over cp ranks
  int tp = 1, r = 0;  // then part r of tp parts of the rows
  bool all() const { return chunks.ranks == 1 && tp == 1; }

  // Maps each row of a local tensor of this shape to its position in its sequence.
  ops::IndexMap PositionsOf(const Shape& local) const { return Map(local[0] * local[1], local[1], 1, /*sequence=*/0); }
  // Maps each element to its index in the whole tensor.
  ops::IndexMap ElementsOf(const Shape& local) const {
    return Map(local.numel(), local[1], local[2], /*sequence=*/local[1] * tp * chunks.ranks * local[2]);
  }

 private:
  // For `count` local items: `width` items per row, `local_rows` rows per sequence. In the whole, sequences start
  // `sequence` items apart.
  ops::IndexMap Map(int64_t count, int64_t local_rows, int64_t width, int64_t sequence) const {
    const int64_t rows = local_rows * tp;  // rows of a sequence on all tp ranks together
    if (chunks.ranks == 1) return {.first = r * count, .block = rows * width, .stride = sequence};
    TWOFOLD_CHECK_EQ(rows % 2, 0);
    const int64_t chunk = rows / 2 * width;
    return {.first = r * count,
            .block = chunk,
            .stride = sequence,
            .blocks = 2,
            .offset = {chunks.Chunks()[0] * chunk, chunks.Chunks()[1] * chunk}};
  }
};

}  // namespace twofold
