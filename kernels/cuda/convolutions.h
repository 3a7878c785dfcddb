// cuDNN's convolutions. If cuDNN is not installed, or the build has none (no_cudnn.cc), kernels/cuda/convolution.cu
// does all convolutions.
#pragma once

#include <cuda_runtime.h>

#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/tensor/dtype.h"

namespace twofold::cuda {

enum class ConvolutionPass { kForward, kBackward, kWeights };

// A convolution in cuDNN's layout: images are NHWC, weights [output channels, kernel height, kernel width, input
// channels].
struct LibraryConvolution {
  ConvolutionPass pass;
  DType type;  // of all tensors
  int64_t images, height, width, in_channels, out_height, out_width, out_channels, kernel_height, kernel_width, stride,
      padding;
  friend auto operator<=>(const LibraryConvolution&, const LibraryConvolution&) = default;
};

class Convolutions {
 public:
  explicit Convolutions(bool tf32);  // of the current GPU; F32 operands may be rounded to TF32
  ~Convolutions();

  // Whether the library is available and has convolutions of this type.
  static bool Has(DType type);
  // Enqueues the pass: p.pass selects which of x, w and y is written, from the other two. The algorithm is chosen once
  // for each convolution and workspace size: the first deterministic one of the library's heuristic. Returns false,
  // having done nothing, if there is none.
  bool Run(const LibraryConvolution& p, void* x, void* w, void* y, std::byte* workspace, size_t workspace_bytes,
           cudaStream_t stream);

 private:
  struct Handles;
  const bool tf32_;
  std::unique_ptr<Handles> handles_;  // made on first use
  bool impossible_ = false;           // they could not be made
};

}  // namespace twofold::cuda
