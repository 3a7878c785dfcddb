// cuDNN's convolutions. Where it is not installed there are none, nor in a build without it (no_cudnn.cc): kernels/cuda/convolution.cu
// then does all of them.
#pragma once

#include <cuda_runtime.h>

#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/tensor/dtype.h"

namespace twofold::cuda {

enum class ConvolutionPass { kForward, kBackward, kWeights };

// A convolution as cuDNN takes it: images are NHWC, weights [output channels, kernel height, kernel width, input channels].
struct LibraryConvolution {
  ConvolutionPass pass;
  DType type;  // of all
  int64_t images, height, width, in_channels, out_height, out_width, out_channels, kernel_height, kernel_width, stride, padding;
  friend auto operator<=>(const LibraryConvolution&, const LibraryConvolution&) = default;
};

class Convolutions {
 public:
  explicit Convolutions(bool tf32);  // of the current GPU; F32 operands may be rounded to TF32
  ~Convolutions();

  // Whether there are any of this type, and the library.
  static bool Has(DType type);
  // Enqueues what writes the one of x, w and y that p.pass says, from the other two. Algorithms are chosen once for each convolution and
  // workspace: the first deterministic one of the library's heuristic. False where there is none: nothing has been done.
  bool Run(const LibraryConvolution& p, void* x, void* w, void* y, std::byte* workspace, size_t workspace_bytes, cudaStream_t stream);

 private:
  struct Handles;
  const bool tf32_;
  std::unique_ptr<Handles> handles_;  // made when first used
  bool impossible_ = false;           // it could not be
};

}  // namespace twofold::cuda
