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
Bytes CpuWorkspace(const MaxPoolBackward&);
}  // namespace rules

}  // namespace twofold::ops
