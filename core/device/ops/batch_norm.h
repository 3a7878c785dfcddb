// Batch normalisation (Ioffe and Szegedy 2015): normalises each channel over all rows, that is over images and pixels.
//
// Forward has three steps, so that ranks can combine their statistics between the first two:
//     statistics   each rank's mean and sum of squared deviations, per channel
//     finish       statistics of one or several ranks -> mean and 1 / sqrt(variance + eps);
//                  updates the running statistics
//     forward      y = gamma * (x - mean) * rstd + beta, optionally with ReLU
// Backward has two: sums over rows, which ranks may add up, and the gradient of the input.
#pragma once

#include "core/device/ops/op.h"

namespace twofold::ops {

// statistics[0] = mean, [1] = sum of (x - mean)^2, over the rows of x.
struct BatchNormStatistics {
  Tensor x, statistics /*(f32)[2, channels]*/;
};

// Computes mean and rstd from `parts`, which all have the same number of rows. The running statistics become (1 -
// momentum) * running + momentum * batch. The running variance uses the unbiased batch variance (rows - 1), as in
// PyTorch. If `parts` is empty (evaluation), mean and rstd come from the running statistics, which are unchanged. The
// running statistics may have a wider type than the rest: F32 or F64, the same for both.
struct BatchNormFinish {
  Tensor parts /*(f32)[.., 2, channels]*/, running_mean, running_variance, mean /*(f32)*/, rstd /*(f32)*/;
  int64_t rows = 0;  // of one part
  double momentum = 0.1, eps = 1e-5;
};

struct BatchNormForward {
  Tensor x, gamma, beta, mean /*(f32)*/, rstd /*(f32)*/, y;
  bool relu = false;
};

// With g = dy, or dy where y > 0 under ReLU: sums[0] = sum of g, sums[1] = sum of g * (x - mean) * rstd, over rows.
// These are the gradients of beta and gamma.
struct BatchNormSums {
  Tensor dy, x, y /* empty without ReLU */, mean, rstd, sums /*(f32)[2, channels]*/;
};
// dx = gamma * rstd * (g - (sums[0] + (x - mean) * rstd * sums[1]) / rows). dx may be dy. `rows`: the number of rows
// over which `sums` were taken.
struct BatchNormBackward {
  Tensor dy, x, y /* empty without ReLU */, gamma, mean, rstd, sums, dx;
  int64_t rows = 0;
};

namespace rules {
inline constexpr int64_t kBatchNormSlabs = 16;  // fixed number of partial sums over rows, for any number of threads

Bytes CpuWorkspace(const BatchNormStatistics&);
Bytes CudaWorkspace(const BatchNormStatistics&);
Bytes CpuWorkspace(const BatchNormSums&);
Bytes CudaWorkspace(const BatchNormSums&);

// How a GPU traverses x; depends only on the shape. A thread has a piece of 16 bytes of a row. A block of 256 threads
// has `tile` adjacent pieces in `at_once` rows. For sums over rows, the rows are divided into `slabs`, so that there
// are about 1024 blocks in total and at least 8 rows per thread. The workspace holds two values (f32) per slab and
// channel.
struct CudaSweep {
  explicit CudaSweep(const Tensor& x);
  int64_t channels, rows, piece, tile, at_once, tiles, slabs;
};
}  // namespace rules

}  // namespace twofold::ops
