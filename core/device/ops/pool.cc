#include "core/device/ops/pool.h"

#include "core/device/ops/rules.h"

namespace twofold::ops::rules {
namespace {

// Windows are at most 16 x 16, so that one byte can hold the chosen index. Each window overlaps the image.
bool WindowsFit(int64_t size, int64_t output, int64_t window, int64_t stride, int64_t padding) {
  return size + 2 * padding >= window && output == (size + 2 * padding - window) / stride + 1;
}

void CheckMaxPool(const Tensor& x, const Tensor& y, const Tensor& chosen, int64_t size, int64_t stride, int64_t padding,
                  std::string_view name) {
  Expect(x.shape().rank() == 4 && y.shape().rank() == 4 && size >= 1 && size <= 16 && stride >= 1 && padding >= 0 &&
             2 * padding <= size && x.dim(0) == y.dim(0) && x.dim(3) == y.dim(3) &&
             WindowsFit(x.dim(1), y.dim(1), size, stride, padding) &&
             WindowsFit(x.dim(2), y.dim(2), size, stride, padding) && x.dtype() == y.dtype() &&
             chosen.dtype() == DType::kU8 && chosen.numel() == y.numel(),
         name, {&x, &y, &chosen});
}

void CheckAverage(const Tensor& x, const Tensor& y, std::string_view name) {
  Expect(x.shape().rank() >= 2 && x.numel() > 0 && y.numel() == x.dim(0) * x.dim(-1) && x.dtype() == y.dtype(), name,
         {&x, &y});
}

}  // namespace

KernelKey Key(const MaxPoolForward& o) { return ByRows("max_pool_forward", o.x); }
Cost CostOf(const MaxPoolForward& o) {
  return Streaming(static_cast<double>(o.size * o.size), o.y.numel(), o.x.bytes(), o.y.bytes() + o.chosen.bytes());
}
void CheckShapes(const MaxPoolForward& o) {
  CheckMaxPool(o.x, o.y, o.chosen, o.size, o.stride, o.padding, "max_pool_forward");
}

KernelKey Key(const MaxPoolBackward& o) { return ByRows("max_pool_backward", o.dx); }
Cost CostOf(const MaxPoolBackward& o) {
  return Streaming(1, o.dy.numel(), o.dy.bytes() + o.chosen.bytes(), o.dx.bytes());
}
void CheckShapes(const MaxPoolBackward& o) {
  CheckMaxPool(o.dx, o.dy, o.chosen, o.size, o.stride, o.padding, "max_pool_backward");
}
// Overlapping windows add up. For BF16 and F16 this is done in an F32 copy.
Bytes CpuWorkspace(const MaxPoolBackward& o) {
  const DType wide = AccumulationType(o.dx.dtype());
  return o.dx.dtype() == wide ? Bytes(0) : Bytes(RoundUp(o.dx.numel(), 16) * ElementSize(wide));
}

KernelKey Key(const AveragePoolForward& o) { return ByRows("average_pool_forward", o.x); }
Cost CostOf(const AveragePoolForward& o) { return Streaming(1, o.x.numel(), o.x.bytes(), o.y.bytes()); }
void CheckShapes(const AveragePoolForward& o) { CheckAverage(o.x, o.y, "average_pool_forward"); }

KernelKey Key(const AveragePoolBackward& o) { return ByRows("average_pool_backward", o.dx); }
Cost CostOf(const AveragePoolBackward& o) { return Streaming(1, o.dx.numel(), o.dy.bytes(), o.dx.bytes()); }
void CheckShapes(const AveragePoolBackward& o) { CheckAverage(o.dx, o.dy, "average_pool_backward"); }

}  // namespace twofold::ops::rules
