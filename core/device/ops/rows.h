// Operations along rows and tables: biases, embeddings, positions.
#pragma once

#include "core/device/ops/op.h"

namespace twofold::ops {

struct ColumnSum { Tensor in, out /*(acc)*/; bool accumulate = false; };  // out[c] = sum over rows
struct AddBias { Tensor x /*[.., c]*/, bias /*[c]*/, out; };  // out = x + bias in every row; may be in place

// Row i of out is the table's row ids[i]. Where rows of the table are split over ranks, vocab > 0 is how many there are of them in
// all and the table holds those from `first` on: a row of out whose id is another's is zero, and its dy goes nowhere.
struct EmbeddingForward { Tensor ids /*I32 or U8*/, table /*[n, c]*/, out /*[.., c]*/; int64_t first = 0, vocab = 0; };
struct EmbeddingBackward { Tensor ids, dy, dtable /*(acc)*/; bool accumulate = false; int64_t first = 0, vocab = 0; };

// out = x + table, to whose row rows.Of(i) row i of x [.., c] belongs; may be in place. `rows` has a block and no stride; left
// out, x is [b, t, c] and its rows are in turn the table's first t.
struct PositionForward { Tensor x, table /*[n, c]*/, out; IndexMap rows = {}; };
struct PositionBackward { Tensor dy, dtable /*(acc)*/; bool accumulate = false; IndexMap rows = {}; };  // rows that no dy belongs to get 0 (or stay)
inline IndexMap PositionsOf(const Tensor& x, const IndexMap& rows) { return rows.block > 0 ? rows : IndexMap{.block = x.dim(1)}; }

namespace rules {
KernelKey Key(const ColumnSum&);
Cost CostOf(const ColumnSum&);
void CheckShapes(const ColumnSum&);
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
KernelKey Key(const PositionForward&);
Cost CostOf(const PositionForward&);
void CheckShapes(const PositionForward&);
KernelKey Key(const PositionBackward&);
Cost CostOf(const PositionBackward&);
void CheckShapes(const PositionBackward&);
}  // namespace rules

}  // namespace twofold::ops
