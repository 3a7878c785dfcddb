#include "core/device/ops/convolution.h"

#include "core/device/ops/rules.h"

namespace twofold::ops::rules {
namespace {

// Common kernel sizes have names of their own: their rates differ, because the lengths of contiguous memory differ.
enum Pass { kForward, kBackward, kWeights };
std::string_view Name(Pass pass, const Tensor& w) {
  constexpr std::string_view kNames[][3] = {{"conv1x1_forward", "conv1x1_backward", "conv1x1_weights"},
                                            {"conv3x3_forward", "conv3x3_backward", "conv3x3_weights"},
                                            {"conv5x5_forward", "conv5x5_backward", "conv5x5_weights"},
                                            {"conv7x7_forward", "conv7x7_backward", "conv7x7_weights"},
                                            {"conv_forward", "conv_backward", "conv_weights"}};
  const int64_t kernel = w.dim(0) == w.dim(1) ? w.dim(0) : 0;
  const size_t row = kernel == 1 || kernel == 3 || kernel == 5 || kernel == 7 ? static_cast<size_t>(kernel / 2) : 4;
  return kNames[row][pass];
}

KernelKey Key(Pass pass, const Tensor& y, const Tensor& w) {
  return {Name(pass, w), y.dtype(), {Rows(y), w.dim(3), w.dim(0) * w.dim(1) * w.dim(2)}};
}

// Every output pixel counts its whole kernel, including padding zeros.
Flops Products(const Tensor& y, const Tensor& w) {
  return Flops(2.0 * static_cast<double>(Rows(y)) * static_cast<double>(w.numel()));
}

bool Fits(int64_t size, int64_t kernel, int64_t output, int64_t stride, int64_t padding) {
  return kernel >= 1 && size + 2 * padding >= kernel && output == (size + 2 * padding - kernel) / stride + 1;
}

void Check(Pass pass, const Tensor& x, const Tensor& w, const Tensor& y, int64_t stride, int64_t padding) {
  const bool four = x.shape().rank() == 4 && w.shape().rank() == 4 && y.shape().rank() == 4;
  Expect(four && stride >= 1 && padding >= 0 && x.dim(0) == y.dim(0) && x.dim(3) == w.dim(2) && y.dim(3) == w.dim(3) &&
             Fits(x.dim(1), w.dim(0), y.dim(1), stride, padding) &&
             Fits(x.dim(2), w.dim(1), y.dim(2), stride, padding) && x.dtype() == y.dtype(),
         pass == kForward    ? "conv_forward"
         : pass == kBackward ? "conv_backward"
                             : "conv_weights",
         {&x, &w, &y});
}

int64_t Taps(const Tensor& w) { return w.dim(0) * w.dim(1); }

// Elements of a copy of images with margins. A copy is needed for BF16 or F16, for margins, or if the channels do not
// fill whole vectors.
int64_t CopyElements(const Tensor& t, Margin rows, Margin columns, int64_t channels) {
  const DType wide = AccumulationType(t.dtype());
  if (t.dtype() == wide && rows.none() && columns.none() && channels == t.dim(3)) return 0;
  const int64_t image = (t.dim(1) + rows.before + rows.after) * (t.dim(2) + columns.before + columns.after) * channels;
  return RoundUp(ImagesAtOnce(t.dim(0), image, wide) * image, 16);
}

}  // namespace

Phase PhaseOf(int64_t first, int64_t size, int64_t kernel_size, int64_t stride, int64_t padding) {
  const int64_t kernel = (first + padding) % stride;
  return {.first = first,
          .count = first < size ? (size - first + stride - 1) / stride : 0,
          .kernel = kernel,
          .taps = kernel < kernel_size ? (kernel_size - kernel + stride - 1) / stride : 0,
          .shift = (first + padding - kernel) / stride};
}

Margin BackwardMargin(int64_t size, int64_t output_size, int64_t kernel_size, int64_t stride, int64_t padding) {
  Margin margin;
  for (int64_t first = 0; first < std::min(stride, size); ++first) {
    const Phase p = PhaseOf(first, size, kernel_size, stride, padding);
    if (p.taps == 0) continue;
    margin.before = std::max(margin.before, p.taps - 1 - p.shift);
    margin.after = std::max(margin.after, p.count - 1 + p.shift - (output_size - 1));
  }
  return margin;
}

int64_t ImagesAtOnce(int64_t images, int64_t elements, DType wide) {
  const int64_t fit = (int64_t{1} << 20) / std::max<int64_t>(elements * ElementSize(wide), 1);
  return std::clamp<int64_t>(fit, 1, std::max<int64_t>(images, 1));
}

KernelKey Key(const ConvolutionForward& o) { return Key(kForward, o.y, o.w); }
Cost CostOf(const ConvolutionForward& o) {
  return {Products(o.y, o.w), o.x.bytes() + o.w.bytes() + OrZero(o.bias), o.y.bytes()};
}
void CheckShapes(const ConvolutionForward& o) {
  Check(kForward, o.x, o.w, o.y, o.stride, o.padding);
  Expect(
      o.w.dtype() == o.x.dtype() && (o.bias.empty() || (o.bias.numel() == o.w.dim(3) && o.bias.dtype() == o.x.dtype())),
      "conv_forward", {&o.x, &o.w, &o.bias});
}
// The weights in panels, the bias, and images with margins.
Bytes CpuWorkspace(const ConvolutionForward& o) {
  const DType wide = AccumulationType(o.x.dtype());
  const int64_t channels = Panels(o.w.dim(3), wide) * Lanes(wide);
  const Margin margin{o.padding, o.padding};
  return Bytes((RoundUp(Taps(o.w) * o.w.dim(2) * channels, 16) + RoundUp(channels, 16) +
                CopyElements(o.x, margin, margin, o.x.dim(3))) *
               ElementSize(wide));
}

KernelKey Key(const ConvolutionBackward& o) { return Key(kBackward, o.dy, o.w); }
Cost CostOf(const ConvolutionBackward& o) { return {Products(o.dy, o.w), o.dy.bytes() + o.w.bytes(), o.dx.bytes()}; }
void CheckShapes(const ConvolutionBackward& o) {
  Check(kBackward, o.dx, o.w, o.dy, o.stride, o.padding);
  Expect(o.w.dtype() == o.dy.dtype(), "conv_backward", {&o.dy, &o.w, &o.dx});
}
// The weights in panels of input channels, phase by phase, and images of dy with margins.
Bytes CpuWorkspace(const ConvolutionBackward& o) {
  const DType wide = AccumulationType(o.dy.dtype());
  const int64_t channels = Panels(o.w.dim(2), wide) * Lanes(wide);
  return Bytes((RoundUp(Taps(o.w) * o.w.dim(3) * channels, 16) +
                CopyElements(o.dy, BackwardMargin(o.dx.dim(1), o.dy.dim(1), o.w.dim(0), o.stride, o.padding),
                             BackwardMargin(o.dx.dim(2), o.dy.dim(2), o.w.dim(1), o.stride, o.padding), o.dy.dim(3))) *
               ElementSize(wide));
}

KernelKey Key(const ConvolutionWeights& o) { return Key(kWeights, o.dy, o.dw); }
Cost CostOf(const ConvolutionWeights& o) {
  return {Products(o.dy, o.dw), o.x.bytes() + o.dy.bytes() + (o.accumulate ? o.dw.bytes() : Bytes(0)), o.dw.bytes()};
}
void CheckShapes(const ConvolutionWeights& o) {
  Check(kWeights, o.x, o.dw, o.dy, o.stride, o.padding);
  Expect(IsFloat(o.dw.dtype()), "conv_weights", {&o.dy, &o.x, &o.dw});
}
// The sums in panels, images of x with margins, and images of dy padded to whole panels of channels.
Bytes CpuWorkspace(const ConvolutionWeights& o) {
  const DType wide = AccumulationType(o.x.dtype());
  const int64_t channels = Panels(o.dw.dim(3), wide) * Lanes(wide);
  const Margin margin{o.padding, o.padding};
  return Bytes((RoundUp(Taps(o.dw) * o.dw.dim(2) * channels, 16) + CopyElements(o.x, margin, margin, o.x.dim(3)) +
                CopyElements(o.dy, {}, {}, channels)) *
               ElementSize(wide));
}

Bytes CudaWeightsCopy(const Tensor& w, DType type) {
  return Bytes(RoundUp(w.numel() * ElementSize(type), kCudaAlignment));
}
Bytes CudaWorkspace(const ConvolutionForward& o) { return CudaWeightsCopy(o.w, o.w.dtype()) + kLibraryWorkspace; }
Bytes CudaWorkspace(const ConvolutionBackward& o) { return CudaWeightsCopy(o.w, o.w.dtype()) + kLibraryWorkspace; }

// Parts have at least 512 pixels. There are enough of them for 512 tiles of 64 x 64 in total, within the memory that
// the library gets.
int64_t CudaPixelParts(const ConvolutionWeights& o) {
  const int64_t rows = Taps(o.dw) * o.dw.dim(2), columns = o.dw.dim(3);
  const int64_t tiles = std::max<int64_t>((rows + 63) / 64 * ((columns + 63) / 64), 1);
  const int64_t fit =
      kLibraryWorkspace.value() / std::max<int64_t>(o.dw.numel() * ElementSize(AccumulationType(o.x.dtype())), 1);
  return std::max<int64_t>(1, std::min({Rows(o.dy) / 512, (512 + tiles - 1) / tiles, fit}));
}
Bytes CudaWorkspace(const ConvolutionWeights& o) {
  const Bytes parts(CudaPixelParts(o) * o.dw.numel() * ElementSize(AccumulationType(o.x.dtype())));
  return std::max(CudaWeightsCopy(o.dw, o.dw.dtype()) + kLibraryWorkspace, parts);
}

}  // namespace twofold::ops::rules
