// Two-dimensional convolution (cross-correlation, as deep learning uses the word).
//
// Images are [images, height, width, channels] (NHWC), weights [kernel height, kernel width, input channels, output
// channels] (HWIO): channels lie side by side, so a vector of output channels is one load, a kernel row is one run of
// memory, and batch normalisation sees plain rows. With a kernel of kh x kw, a stride and a padding of zeros on all sides,
//     y[i, r, c, o] = bias[o] + sum over (a, b, ch) of x[i, r * stride + a - padding, c * stride + b - padding, ch] * w[a, b, ch, o]
// and y has (height + 2 padding - kh) / stride + 1 rows, rounded down; columns likewise.
#pragma once

#include "core/device/ops/op.h"

namespace twofold::ops {

struct ConvolutionForward { Tensor x, w, bias /* [output channels], may be empty */, y; int64_t stride = 1, padding = 0; };
struct ConvolutionBackward { Tensor dy, w, dx; int64_t stride = 1, padding = 0; };  // the gradient of the input
struct ConvolutionWeights { Tensor dy, x, dw /*(acc)*/; int64_t stride = 1, padding = 0; bool accumulate = false; };

namespace rules {
KernelKey Key(const ConvolutionForward&);  // dims: m, n, k of the product: output pixels, output channels, kh * kw * input channels
Cost CostOf(const ConvolutionForward&);
void CheckShapes(const ConvolutionForward&);
Bytes CpuWorkspace(const ConvolutionForward&);
Bytes CudaWorkspace(const ConvolutionForward&);
KernelKey Key(const ConvolutionBackward&);  // dims: as forward
Cost CostOf(const ConvolutionBackward&);
void CheckShapes(const ConvolutionBackward&);
Bytes CpuWorkspace(const ConvolutionBackward&);
Bytes CudaWorkspace(const ConvolutionBackward&);
KernelKey Key(const ConvolutionWeights&);  // dims: as forward
Cost CostOf(const ConvolutionWeights&);
void CheckShapes(const ConvolutionWeights&);
Bytes CpuWorkspace(const ConvolutionWeights&);
Bytes CudaWorkspace(const ConvolutionWeights&);

// ---- What the CUDA kernels and their workspace rules share ----

// Weights as cuDNN has them, [output channels, kernel height, kernel width, input channels]: first in the workspace.
Bytes CudaWeightsCopy(const Tensor& w, DType type);
// Our own gradient of the weights sums pixels in so many parts, each of which is a copy (f32) of the weights in the workspace.
int64_t CudaPixelParts(const ConvolutionWeights&);

// ---- What the CPU kernels and their workspace rules share; none of it depends on the machine or on threads ----

// Output channels are computed in panels of one 64-byte vector.
inline int64_t Lanes(DType wide) { return 64 / ElementSize(wide); }
inline int64_t Panels(int64_t channels, DType wide) { return (channels + Lanes(wide) - 1) / Lanes(wide); }

// One dimension of an image with a margin of zeros: `before` and `after` it.
struct Margin { int64_t before = 0, after = 0; bool none() const { return before == 0 && after == 0; } };

// The gradient of the input falls into stride^2 phases. Input rows `first`, first + stride, ... (`count` of them) see the
// `taps` kernel rows kernel, kernel + stride, ...; row t of the phase takes tap m from row t + shift - m of the output.
struct Phase { int64_t first, count, kernel, taps, shift; };
Phase PhaseOf(int64_t first, int64_t size, int64_t kernel_size, int64_t stride, int64_t padding);
// What dy needs around it for all phases to stay inside.
Margin BackwardMargin(int64_t size, int64_t output_size, int64_t kernel_size, int64_t stride, int64_t padding);

// How many images, of so many elements each with their margins, are copied at once: about 1 MiB of them.
int64_t ImagesAtOnce(int64_t images, int64_t elements, DType wide);
}  // namespace rules

}  // namespace twofold::ops
