// Batch normalisation (Ioffe and Szegedy 2015): each channel over all rows, that is over images and pixels.
//
// Forward is three steps, so that ranks may put their rows together between the first two:
//     statistics   each rank's mean and sum of squared deviations, a channel
//     finish       one or several ranks' statistics -> mean and 1 / sqrt(variance + eps); running statistics move on
//     forward      y = gamma * (x - mean) * rstd + beta, with ReLU at will
// and backward two: sums over rows, which ranks may add up, and the gradient of the input.
#pragma once

#include "core/device/ops/op.h"

namespace twofold::ops {

// statistics[0] = mean, [1] = sum of (x - mean)^2, over the rows of x.
struct BatchNormStatistics { Tensor x, statistics /*(f32)[2, channels]*/; };

// From `parts`, each of as many rows, to what normalises. The running statistics become
// (1 - momentum) * running + momentum * batch; the running variance takes the unbiased one (rows - 1), as PyTorch's does.
// `parts` empty: mean and rstd of the running statistics, which stay as they are (evaluation). The running statistics may be
// wider than the rest: F32 or F64, both alike.
struct BatchNormFinish {
  Tensor parts /*(f32)[.., 2, channels]*/, running_mean, running_variance, mean /*(f32)*/, rstd /*(f32)*/;
  int64_t rows = 0;  // of one part
  double momentum = 0.1, eps = 1e-5;
};

struct BatchNormForward { Tensor x, gamma, beta, mean /*(f32)*/, rstd /*(f32)*/, y; bool relu = false; };

// With g = dy, or dy where y > 0 under ReLU: sums[0] = sum of g, sums[1] = sum of g * (x - mean) * rstd, over rows. They
// are the gradients of beta and gamma.
struct BatchNormSums {
  Tensor dy, x, y /* empty without ReLU */, mean, rstd, sums /*(f32)[2, channels]*/;
};
// dx = gamma * rstd * (g - (sums[0] + (x - mean) * rstd * sums[1]) / rows); dx may be dy. `rows`: over all that `sums`
// is of.
struct BatchNormBackward { Tensor dy, x, y /* empty without ReLU */, gamma, mean, rstd, sums, dx; int64_t rows = 0; };

namespace rules {
inline constexpr int64_t kBatchNormSlabs = 16;  // parts that rows are summed in, whatever the number of threads

KernelKey Key(const BatchNormStatistics&);
Cost CostOf(const BatchNormStatistics&);
void CheckShapes(const BatchNormStatistics&);
Bytes CpuWorkspace(const BatchNormStatistics&);
Bytes CudaWorkspace(const BatchNormStatistics&);
KernelKey Key(const BatchNormFinish&);
Cost CostOf(const BatchNormFinish&);
void CheckShapes(const BatchNormFinish&);
KernelKey Key(const BatchNormForward&);
Cost CostOf(const BatchNormForward&);
void CheckShapes(const BatchNormForward&);
KernelKey Key(const BatchNormSums&);
Cost CostOf(const BatchNormSums&);
void CheckShapes(const BatchNormSums&);
Bytes CpuWorkspace(const BatchNormSums&);
Bytes CudaWorkspace(const BatchNormSums&);
KernelKey Key(const BatchNormBackward&);
Cost CostOf(const BatchNormBackward&);
void CheckShapes(const BatchNormBackward&);

// How a GPU goes over x, by shape alone. A thread has a piece of 16 bytes of a row; a block of 256 threads has `tile` pieces side by
// side, in `at_once` rows. Where rows are summed, they are divided into `slabs`, about 1024 blocks in all, with 8 rows or more to a
// thread; the workspace holds two figures (f32) a slab and channel.
struct CudaSweep {
  explicit CudaSweep(const Tensor& x);
  int64_t channels, rows, piece, tile, at_once, tiles, slabs;
};
}  // namespace rules

}  // namespace twofold::ops
