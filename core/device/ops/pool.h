// Pooling of images [images, height, width, channels].
#pragma once

#include "core/device/ops/op.h"

namespace twofold::ops {

// y[i, r, c, ch] is the maximum of the size x size window whose first row is r * stride - padding. Elements outside the
// image are ignored. `chosen` is the index of the maximum, a * size + b, the first if equal. A NaN counts as the
// maximum.
struct MaxPoolForward {
  Tensor x, y, chosen /* U8, as y */;
  int64_t size = 2, stride = 2, padding = 0;
};
struct MaxPoolBackward {
  Tensor dy, chosen, dx;
  int64_t size = 2, stride = 2, padding = 0;
};

struct AveragePoolForward {
  Tensor x /*[n, .., channels]*/, y /*[n, channels]*/;
};  // the mean over all pixels
struct AveragePoolBackward {
  Tensor dy, dx;
};

namespace rules {
KernelKey Key(const MaxPoolForward&);
Cost CostOf(const MaxPoolForward&);
void CheckShapes(const MaxPoolForward&);
KernelKey Key(const MaxPoolBackward&);
Cost CostOf(const MaxPoolBackward&);
void CheckShapes(const MaxPoolBackward&);
Bytes CpuWorkspace(const MaxPoolBackward&);
KernelKey Key(const AveragePoolForward&);
Cost CostOf(const AveragePoolForward&);
void CheckShapes(const AveragePoolForward&);
KernelKey Key(const AveragePoolBackward&);
Cost CostOf(const AveragePoolBackward&);
void CheckShapes(const AveragePoolBackward&);
}  // namespace rules

}  // namespace twofold::ops
