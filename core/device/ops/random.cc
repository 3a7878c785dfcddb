#include "core/device/ops/random.h"

#include "core/device/ops/rules.h"

namespace twofold::ops::rules {

KernelKey Key(const RandomFill& o) { return Flat("random_fill", o.out); }
Cost CostOf(const RandomFill& o) { return Streaming(60, o.out.numel(), Bytes(0), o.out.bytes()); }
void CheckShapes(const RandomFill& o) { Expect(IsFloat(o.out.dtype()), "random_fill", {&o.out}); }

}  // namespace twofold::ops::rules
