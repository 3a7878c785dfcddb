#include "core/device/ops/rotary.h"

#include "core/device/ops/rules.h"

namespace twofold::ops::rules {

KernelKey Key(const RotaryTable& o) { return Flat("rotary_table", o.table); }
Cost CostOf(const RotaryTable& o) { return Streaming(40, o.table.numel(), Bytes(0), o.table.bytes()); }
void CheckShapes(const RotaryTable& o) {
  Expect(o.table.shape().rank() == 2 && o.table.dim(1) == 2 * static_cast<int64_t>(o.frequencies.size()) &&
             OneOf(o.table, DType::kF32, DType::kF64),
         "rotary_table", {&o.table});
}

KernelKey Key(const Rotary& o) { return ByRows("rotary", o.x); }
Cost CostOf(const Rotary& o) { return Streaming(3, o.x.numel(), o.x.bytes(), o.y.bytes()); }
void CheckShapes(const Rotary& o) {
  Expect(o.x.shape().rank() == 3 && o.table.shape().rank() == 2 && Like(o.x, o.y) && o.table.dim(1) % 2 == 0 &&
             o.table.dtype() == AccumulationType(o.x.dtype()) && o.positions.stride == 0 &&
             o.table.dim(0) >= EndOf(PositionsOr(o.positions, o.x.dim(1))) && o.heads >= 0 &&
             o.heads * o.table.dim(1) <= o.x.dim(2),
         "rotary", {&o.x, &o.table, &o.y});
}

}  // namespace twofold::ops::rules
