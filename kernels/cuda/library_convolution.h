// Convolutions in cuDNN's form (library_graph.h). Nothing here calls CUDA.
#pragma once

#include <compare>
#include <cstdint>
#include <string>

#include "kernels/cuda/library_graph.h"

namespace twofold::cuda {

enum class ConvolutionPass { kForward, kBackward, kWeights };

// A convolution in cuDNN's layout: images are NHWC, weights [output channels, kernel height, kernel width, input
// channels].
struct LibraryConvolution {
  ConvolutionPass pass;
  DType type;    // of all tensors but the result
  DType result;  // of y, the gradient of x or the gradient of w
  bool bias;     // forward only: [output channels], added to the sums before they are rounded
  int64_t images, height, width, in_channels, out_height, out_width, out_channels, kernel_height, kernel_width, stride,
      padding;
  friend auto operator<=>(const LibraryConvolution&, const LibraryConvolution&) = default;
};
// "conv_weights bf16 to f32, images 8 x 14 x 14 x 256, weights 3 x 3 x 256 x 512, stride 1, padding 1".
std::string NameOf(const LibraryConvolution& c);

// Why no cuDNN can have this convolution; "" if it may have it. Only making its plan shows whether it does. cuDNN 9.19
// has all of F32, BF16 and F16, with and without a bias, but one: gradients of weights in F32 from BF16 or F16 need
// even numbers of channels (graph_plan_test asks it for A100 and H100).
std::string WhyNotCudnn(const LibraryConvolution& c);

// Sums are in F32. A bias is added, and a wider gradient stored, by a second step of the graph, so that nothing is
// rounded in between: cuDNN's convolution alone has no result wider than its operands.
LibraryGraph GraphOf(const LibraryConvolution& c);

}  // namespace twofold::cuda
