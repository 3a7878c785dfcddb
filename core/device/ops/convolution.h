// Two-dimensional convolution (cross-correlation, as is usual in deep learning).
//
// Images are [images, height, width, channels] (NHWC). Weights are [kernel height, kernel width, input channels, output
// channels] (HWIO). Channels are contiguous, so a vector of output channels is one load, a kernel row is one contiguous
// range, and batch normalisation sees plain rows. With a kernel of kh x kw, a stride, and zero padding on all sides,
//     y[i, r, c, o] = bias[o] + sum over (a, b, ch) of
//         x[i, r * stride + a - padding, c * stride + b - padding, ch] * w[a, b, ch, o]
// and y has (height + 2 padding - kh) / stride + 1 rows, rounded down. Columns likewise.
#pragma once

#include "core/device/ops/op.h"

namespace twofold::ops {

struct ConvolutionForward {
  Tensor x, w, bias /* [output channels], may be empty */, y;
  int64_t stride = 1, padding = 0;
};
struct ConvolutionBackward {
  Tensor dy, w, dx;
  int64_t stride = 1, padding = 0;
};  // the gradient of the input
struct ConvolutionWeights {
  Tensor dy, x, dw /*(acc)*/;
  int64_t stride = 1, padding = 0;
  bool accumulate = false;
};

namespace rules {
// The dims of all three keys: m, n, k of the product, which are output pixels, output channels, kh * kw * input
// channels.

Bytes CpuWorkspace(const ConvolutionForward&);
Bytes CudaWorkspace(const ConvolutionForward&);
Bytes CpuWorkspace(const ConvolutionBackward&);
Bytes CudaWorkspace(const ConvolutionBackward&);
Bytes CpuWorkspace(const ConvolutionWeights&);
Bytes CudaWorkspace(const ConvolutionWeights&);

// ---- Shared by the CUDA kernels and their workspace rules ----

// A copy of the weights in cuDNN's layout, [output channels, kernel height, kernel width, input channels]. First in the
// workspace.
Bytes CudaWeightsCopy(const Tensor& w, DType type);
// The number of parts in which our own weight-gradient kernel sums pixels. Each part is a copy (f32) of the weights in
// the workspace.
int64_t CudaPixelParts(const ConvolutionWeights&);

// ---- Shared by the CPU kernels and their workspace rules; independent of the machine and the number of threads ----

// Output channels are computed in panels of one 64-byte vector.
inline int64_t Lanes(DType wide) { return 64 / ElementSize(wide); }
inline int64_t Panels(int64_t channels, DType wide) { return (channels + Lanes(wide) - 1) / Lanes(wide); }

// The zero margin `before` and `after` one dimension of an image.
struct Margin {
  int64_t before = 0, after = 0;
  bool none() const { return before == 0 && after == 0; }
};

// The gradient of the input is computed in stride^2 phases. The input rows `first`, first + stride, ... (`count` rows)
// use the `taps` kernel rows kernel, kernel + stride, ... Row t of the phase takes tap m from row t + shift - m of the
// output.
struct Phase {
  int64_t first, count, kernel, taps, shift;
};
Phase PhaseOf(int64_t first, int64_t size, int64_t kernel_size, int64_t stride, int64_t padding);
// The margin that dy needs so that no phase reads outside it.
Margin BackwardMargin(int64_t size, int64_t output_size, int64_t kernel_size, int64_t stride, int64_t padding);

// The number of images copied at a time, about 1 MiB. Each has `elements` elements including margins.
int64_t ImagesAtOnce(int64_t images, int64_t elements, DType wide);
}  // namespace rules

}  // namespace twofold::ops
