// Operations along rows and tables: biases, embeddings, positions.
#pragma once

#include "core/device/ops/op.h"

namespace twofold::ops {

struct ColumnSum { Tensor in, out /*(acc)*/; bool accumulate = false; };  // out[c] = sum over rows
struct AddBias { Tensor x /*[.., c]*/, bias /*[c]*/, out; };  // out = x + bias in every row; may be in place
// Row i of out is the table's row ids[i]. Where rows of the table are split over ranks, vocab > 0 is how many there are of them in
// all and the table holds those from `first` on: a row of out whose id is another's is zero, and its dy goes nowhere. An id that is nobody's ends a program on CPUs; on GPUs, which cannot tell, its row of out is NaN, as then is the loss, and its dy goes nowhere.
struct EmbeddingForward { Tensor ids /*I32 or U8*/, table /*[n, c]*/, out /*[.., c]*/; int64_t first = 0, vocab = 0; };
struct EmbeddingBackward { Tensor ids, dy, dtable /*(acc)*/; bool accumulate = false; int64_t first = 0, vocab = 0; };
// out = x + the row of table [n, c] that belongs to each row's position; may be in place.
struct PositionForward { Tensor x /*[b, t, c]*/, table, out; IndexMap positions = {}; };
// Each position's rows are summed; a position that has none gets 0 (or stays).
struct PositionBackward { Tensor dy /*[b, t, c]*/, dtable /*(acc)*/; bool accumulate = false; IndexMap positions = {}; };
// Columns [out_column, out_column + columns) of each row of out = columns [in_column, ..) of the same row of in; out may be of
// another float type. What they leave out of out stays.
struct CopyColumns {
  Tensor in /*[.., c]*/, out /*[.., d]*/;
  int64_t in_column = 0, out_column = 0, columns = 0;
  bool accumulate = false;
};

namespace rules {
KernelKey Key(const ColumnSum&);
Cost CostOf(const ColumnSum&);
void CheckShapes(const ColumnSum&);
Bytes CudaWorkspace(const ColumnSum&);
KernelKey Key(const AddBias&);
Cost CostOf(const AddBias&);
void CheckShapes(const AddBias&);
KernelKey Key(const EmbeddingForward&);
Cost CostOf(const EmbeddingForward&);
void CheckShapes(const EmbeddingForward&);
KernelKey Key(const EmbeddingBackward&);
Cost CostOf(const EmbeddingBackward&);
void CheckShapes(const EmbeddingBackward&);
Bytes CpuWorkspace(const EmbeddingBackward&);
Bytes CudaWorkspace(const EmbeddingBackward&);
KernelKey Key(const PositionForward&);
Cost CostOf(const PositionForward&);
void CheckShapes(const PositionForward&);
KernelKey Key(const PositionBackward&);
Cost CostOf(const PositionBackward&);
void CheckShapes(const PositionBackward&);
KernelKey Key(const CopyColumns&);
Cost CostOf(const CopyColumns&);
void CheckShapes(const CopyColumns&);

// On a GPU EmbeddingBackward sums pieces of so many of the rows of dy, in order of their ids.
inline constexpr int64_t kEmbeddingPiece = 32;
}  // namespace rules

}  // namespace twofold::ops
