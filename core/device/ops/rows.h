// Operations along rows and tables: bias gradients, embeddings, positions.
#pragma once

#include "core/device/ops/op.h"

namespace twofold::ops {

struct ColumnSum { Tensor in, out /*(acc)*/; bool accumulate = false; };  // out[c] = sum over rows
struct EmbeddingForward { Tensor ids /*I32 or U8*/, table /*[n, c]*/, out /*[.., c]*/; };
struct EmbeddingBackward { Tensor ids, dy, dtable /*(acc)*/; bool accumulate = false; };
struct PositionForward { Tensor x /*[b, t, c]*/, table /*[>= t, c]*/, out; };  // out = x + table[0:t]; may be in place
struct PositionBackward { Tensor dy, dtable /*(acc)*/; bool accumulate = false; };  // rows past t get 0 (or stay)

namespace rules {
KernelKey Key(const ColumnSum&);
Cost CostOf(const ColumnSum&);
void CheckShapes(const ColumnSum&);
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
