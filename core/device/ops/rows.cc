#include "core/device/ops/rows.h"

#include "core/device/ops/column_sums.h"
#include "core/device/ops/rules.h"

namespace twofold::ops::rules {
namespace {

bool HasPositions(const Tensor& x, const IndexMap& positions, const Tensor& table) {
  return x.shape().rank() == 3 && positions.stride == 0 && table.dim(1) == x.dim(2) &&
         table.dim(0) >= EndOf(PositionsOr(positions, x.dim(1)));
}

}  // namespace

KernelKey Key(const ColumnSum& o) { return ByRows("column_sum", o.in); }
Cost CostOf(const ColumnSum& o) { return Streaming(1, o.in.numel(), o.in.bytes(), o.out.bytes()); }
void CheckShapes(const ColumnSum& o) { Expect(o.in.dim(-1) == o.out.numel(), "column_sum", {&o.in, &o.out}); }

Bytes CudaWorkspace(const ColumnSum& o) { return ColumnSumsWorkspace(1, o.in); }

KernelKey Key(const AddBias& o) { return ByRows("add_bias", o.x); }
Cost CostOf(const AddBias& o) { return Streaming(1, o.x.numel(), o.x.bytes() + o.bias.bytes(), o.out.bytes()); }
void CheckShapes(const AddBias& o) {
  Expect(o.x.dim(-1) == o.bias.numel() && Like(o.x, o.out) && o.bias.dtype() == o.x.dtype(), "add_bias",
         {&o.x, &o.bias, &o.out});
}

KernelKey Key(const EmbeddingForward& o) { return ByRows("embedding_forward", o.out); }
Cost CostOf(const EmbeddingForward& o) {
  return Streaming(0, o.out.numel(), o.ids.bytes() + o.out.bytes(), o.out.bytes());
}
void CheckShapes(const EmbeddingForward& o) {
  Expect(OneOf(o.ids, DType::kI32, DType::kU8) && o.table.dim(-1) == o.out.dim(-1) && Rows(o.out) == o.ids.numel() &&
             o.table.dtype() == o.out.dtype(),
         "embedding_forward", {&o.ids, &o.table, &o.out});
}

KernelKey Key(const EmbeddingBackward& o) { return ByRows("embedding_backward", o.dy); }
Cost CostOf(const EmbeddingBackward& o) {  // if not accumulating, the whole table is written
  return Streaming(1, o.dy.numel(), o.ids.bytes() + o.dy.bytes() * 2,
                   o.dy.bytes() + (o.accumulate ? Bytes(0) : o.dtable.bytes()));
}
void CheckShapes(const EmbeddingBackward& o) {
  Expect(OneOf(o.ids, DType::kI32, DType::kU8) && o.dtable.dim(-1) == o.dy.dim(-1) && Rows(o.dy) == o.ids.numel(),
         "embedding_backward", {&o.ids, &o.dy, &o.dtable});
}
// For a BF16 or F16 gradient, the rows are sorted by id so that each element is rounded only once.
Bytes CpuWorkspace(const EmbeddingBackward& o) {
  const bool narrow = o.dtable.dtype() != AccumulationType(o.dtable.dtype());
  return Bytes(narrow ? RoundUp(o.ids.numel(), 16) * ElementSize(DType::kI32) : 0);
}
// Two arrays of ids with their indices, for sorting. And for each piece two sums, for the ids that it shares with its
// neighbours.
Bytes CudaWorkspace(const EmbeddingBackward& o) {
  const int64_t rows = o.ids.numel(), pieces = (rows + kEmbeddingPiece - 1) / kEmbeddingPiece;
  return Bytes(2 * RoundUp(rows, 64) * 8 + 2 * pieces * o.dy.dim(-1) * ElementSize(AccumulationType(o.dy.dtype())));
}

KernelKey Key(const PositionForward& o) { return ByRows("position_forward", o.x); }
Cost CostOf(const PositionForward& o) { return Streaming(1, o.x.numel(), o.x.bytes() * 2, o.out.bytes()); }
void CheckShapes(const PositionForward& o) {
  Expect(HasPositions(o.x, o.positions, o.table) && Like(o.x, o.out), "position_forward", {&o.x, &o.table, &o.out});
}

KernelKey Key(const PositionBackward& o) { return ByRows("position_backward", o.dy); }
Cost CostOf(const PositionBackward& o) { return Streaming(1, o.dy.numel(), o.dy.bytes(), o.dtable.bytes()); }
void CheckShapes(const PositionBackward& o) {
  Expect(HasPositions(o.dy, o.positions, o.dtable), "position_backward", {&o.dy, &o.dtable});
}

KernelKey Key(const CopyColumns& o) { return {"copy_columns", o.in.dtype(), {Rows(o.in), o.columns, 0}}; }
Cost CostOf(const CopyColumns& o) {
  const int64_t elements = Rows(o.in) * o.columns;
  const Bytes written(elements * ElementSize(o.out.dtype()));
  return Streaming(o.accumulate ? 1 : 0, elements,
                   Bytes(elements * ElementSize(o.in.dtype())) + (o.accumulate ? written : Bytes(0)), written);
}
void CheckShapes(const CopyColumns& o) {
  Expect(IsFloat(o.in.dtype()) && IsFloat(o.out.dtype()) && Rows(o.in) == Rows(o.out) && o.in_column >= 0 &&
             o.out_column >= 0 && o.columns >= 0 && o.in_column + o.columns <= o.in.dim(-1) &&
             o.out_column + o.columns <= o.out.dim(-1),
         "copy_columns", {&o.in, &o.out});
}

}  // namespace twofold::ops::rules
