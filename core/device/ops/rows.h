// Row-wise and table operations: biases, embeddings, positions.
#pragma once

#include "core/device/ops/op.h"

namespace twofold::ops {

struct ColumnSum {
  Tensor in, out /*(acc)*/;
  bool accumulate = false;
};  // out[c] = sum over rows
struct AddBias {
  Tensor x /*[.., c]*/, bias /*[c]*/, out;
};  // out = x + bias for every row; may be in place
// Row i of out is row ids[i] of the table. If the table's rows are split over ranks, vocab > 0 is their total number
// and the table holds the rows from `first` on. For an id that belongs to another rank, the row of out is zero and its
// dy is ignored. An id outside the vocabulary aborts the program on CPUs. A GPU cannot report it, so the row of out is
// NaN, which makes the loss NaN, and its dy is ignored.
struct EmbeddingForward {
  Tensor ids /*I32 or U8*/, table /*[n, c]*/, out /*[.., c]*/;
  int64_t first = 0, vocab = 0;
};
struct EmbeddingBackward {
  Tensor ids, dy, dtable /*(acc)*/;
  bool accumulate = false;
  int64_t first = 0, vocab = 0;
};
// out = x + the row of table [n, c] for each row's position. May be in place.
struct PositionForward {
  Tensor x /*[b, t, c]*/, table, out;
  IndexMap positions = {};
};
// Sums the rows of each position. A position without rows gets 0 (or is unchanged if accumulating).
struct PositionBackward {
  Tensor dy /*[b, t, c]*/, dtable /*(acc)*/;
  bool accumulate = false;
  IndexMap positions = {};
};
// Columns [out_column, out_column + columns) of each row of out = columns [in_column, ..) of the same row of in. out
// may have another float type. Its other columns are unchanged.
struct CopyColumns {
  Tensor in /*[.., c]*/, out /*[.., d]*/;
  int64_t in_column = 0, out_column = 0, columns = 0;
  bool accumulate = false;
};

namespace rules {
Bytes CudaWorkspace(const ColumnSum&);
Bytes CpuWorkspace(const EmbeddingBackward&);
Bytes CudaWorkspace(const EmbeddingBackward&);

// On a GPU EmbeddingBackward sums the rows of dy in pieces of this many rows, in order of their ids.
inline constexpr int64_t kEmbeddingPiece = 32;
}  // namespace rules

}  // namespace twofold::ops
