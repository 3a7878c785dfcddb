// A computation in cuDNN's form: a graph of products, convolutions, elementwise operations and reductions (cuDNN's
// developer guide, "Graph API"). It is a value: it can be evaluated step by step, and so be tested, without cuDNN.
// graph_plan.h makes it cuDNN's. Nothing here calls CUDA.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/tensor/dtype.h"

namespace twofold::cuda {

// Tensors of a graph that are in memory: those of attention, its own and those that the backward pass keeps in its
// workspace, and those of a convolution or their gradients.
enum class GraphOperand { kQ, kK, kV, kOut, kLse, kDOut, kDQ, kDK, kDV, kDelta, kDQSums, kX, kW, kBias, kY };
inline constexpr size_t kGraphOperands = 15;
using GraphAddresses = std::array<void*, kGraphOperands>;  // by GraphOperand; null if the graph does not have it

enum class GraphType { kF32, kNarrow, kI32, kBool };  // kNarrow: LibraryGraph::type
// Strides are in elements. A tensor without operand and value exists within the graph only.
struct GraphTensor {
  std::array<int64_t, 4> dims, strides;
  GraphType type = GraphType::kF32;
  std::optional<GraphOperand> operand = std::nullopt;
  std::optional<float> value = std::nullopt;  // a constant
  bool aligned = true;                        // its address is a multiple of 16; if not, of its elements' size
};
enum class GraphStep {
  kMatMul,  // in[0] in[1]; consecutive heads of in[0] may share a head of in[1]
  kMultiply,
  kSubtract,
  kAdd,
  kDivide,  // in[0] (op) in[1]; in[1] is broadcast along dimensions of size 1
  kExp,
  kLog,
  kIdentity,
  kRow,
  kColumn,     // the index of each element
  kNotBefore,  // in[0] >= in[1]
  kSelect,     // in[2] ? in[0] : in[1]
  // over the dimensions in which the result is smaller than in[0]; for heads: over those that share one
  kMaximum,
  kSum,
  kView,  // the same elements with other dimensions
  // Convolutions of images x [images, input channels, height, width] with weights w [output channels, input channels,
  // height, width] into y [images, output channels, height, width], as core/device/ops/convolution.h defines them.
  kConvolve,         // y from x, w
  kConvolveBack,     // the gradient of x from those of y, and w
  kConvolveWeights,  // the gradient of w from those of y, and x
};
struct GraphNode {
  GraphStep step;
  std::vector<size_t> in;  // indices into LibraryGraph::tensors
  size_t out;
  int64_t stride = 1, padding = 0;  // of convolutions
};
struct LibraryGraph {
  std::string name;  // for messages
  DType type;        // of its kNarrow tensors: BF16, F16, or F32
  std::vector<GraphTensor> tensors = {};
  std::vector<GraphNode> nodes = {};
};

}  // namespace twofold::cuda
