#include "kernels/cuda/library_convolution.h"

#include <array>
#include <utility>

#include "core/base/strings.h"

namespace twofold::cuda {
namespace {

bool IsNarrow(DType type) { return type == DType::kBF16 || type == DType::kF16; }

const char* OperationOf(ConvolutionPass pass) {
  switch (pass) {
    case ConvolutionPass::kForward: return "conv_forward";
    case ConvolutionPass::kBackward: return "conv_backward";
    case ConvolutionPass::kWeights: return "conv_weights";
  }
  return "";
}

// Dimensions [a, channels, height, width], in memory [a, height, width, channels].
GraphTensor ChannelsLast(const std::array<int64_t, 4>& d, GraphType type,
                         std::optional<GraphOperand> operand = std::nullopt) {
  return {.dims = d,
          .strides = {d[1] * d[2] * d[3], 1, d[1] * d[3], d[1]},
          .type = type,
          .operand = operand,
          .aligned = operand != GraphOperand::kBias};
}

}  // namespace

std::string NameOf(const LibraryConvolution& c) {
  const std::string types(DTypeName(c.type));
  return StrCat(OperationOf(c.pass), " ", types,
                c.result == c.type ? "" : StrCat(" to ", std::string(DTypeName(c.result))), c.bias ? " with bias" : "",
                ", images ", c.images, " x ", c.height, " x ", c.width, " x ", c.in_channels, ", weights ",
                c.kernel_height, " x ", c.kernel_width, " x ", c.in_channels, " x ", c.out_channels, ", stride ",
                c.stride, ", padding ", c.padding);
}

std::string WhyNotCudnn(const LibraryConvolution& c) {
  if (!IsNarrow(c.type) && c.type != DType::kF32) return "cuDNN's convolutions are used for f32, bf16 and f16";
  const bool wider = c.pass == ConvolutionPass::kWeights && IsNarrow(c.type) && c.result == DType::kF32;
  if (c.result != c.type && !wider)
    return StrCat("cuDNN's convolutions have no results in ", std::string(DTypeName(c.result)), " from ",
                  std::string(DTypeName(c.type)));
  if (c.images == 0) return "there are no images";
  return "";
}

LibraryGraph GraphOf(const LibraryConvolution& c) {
  const GraphTensor x =
      ChannelsLast({c.images, c.in_channels, c.height, c.width}, GraphType::kNarrow, GraphOperand::kX);
  const GraphTensor w = ChannelsLast({c.out_channels, c.in_channels, c.kernel_height, c.kernel_width},
                                     GraphType::kNarrow, GraphOperand::kW);
  const GraphTensor y =
      ChannelsLast({c.images, c.out_channels, c.out_height, c.out_width}, GraphType::kNarrow, GraphOperand::kY);
  LibraryGraph graph{.name = NameOf(c), .type = c.type};
  // One step from two tensors to `result`, or to its F32 sums, which a second step makes the result.
  const auto convolve = [&](GraphStep step, const GraphTensor& a, const GraphTensor& b, GraphTensor result,
                            bool second) {
    graph.tensors = {a, b, second ? ChannelsLast(result.dims, GraphType::kF32) : result};
    graph.nodes.push_back({.step = step, .in = {0, 1}, .out = 2, .stride = c.stride, .padding = c.padding});
    if (second) graph.tensors.push_back(result);
  };
  switch (c.pass) {
    case ConvolutionPass::kForward:
      convolve(GraphStep::kConvolve, x, w, y, c.bias);
      if (c.bias) {
        graph.tensors.push_back(ChannelsLast({1, c.out_channels, 1, 1}, GraphType::kNarrow, GraphOperand::kBias));
        graph.nodes.push_back({.step = GraphStep::kAdd, .in = {2, 4}, .out = 3});
      }
      break;
    case ConvolutionPass::kBackward: convolve(GraphStep::kConvolveBack, y, w, x, false); break;
    case ConvolutionPass::kWeights: {
      const bool wider = c.result != c.type;
      GraphTensor dw = w;
      if (wider) dw.type = GraphType::kF32;
      convolve(GraphStep::kConvolveWeights, y, x, dw, wider);
      if (wider) graph.nodes.push_back({.step = GraphStep::kIdentity, .in = {2}, .out = 3});
      break;
    }
  }
  return graph;
}

}  // namespace twofold::cuda
