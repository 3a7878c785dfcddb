// The graph of a convolution that cuDNN is asked for, evaluated, must be what the operation says.
#include "kernels/cuda/library_convolution.h"

#include "core/base/strings.h"
#include "tests/unit/cuda/graph_interpreter.h"

namespace twofold::cuda {
namespace library_convolution_test {

using testing::HasSubstr;

struct Sizes {
  int64_t images, height, width, in, out, kernel_height, kernel_width, stride, padding;
  int64_t rows() const { return (height + 2 * padding - kernel_height) / stride + 1; }
  int64_t columns() const { return (width + 2 * padding - kernel_width) / stride + 1; }
  Shape x() const { return {images, height, width, in}; }
  Shape w() const { return {kernel_height, kernel_width, in, out}; }
  Shape y() const { return {images, rows(), columns(), out}; }
};
constexpr Sizes kCases[] = {{1, 1, 1, 1, 1, 1, 1, 1, 0}, {2, 5, 7, 3, 5, 3, 3, 1, 1}, {1, 9, 8, 4, 3, 3, 2, 2, 1},
                            {2, 7, 5, 4, 3, 2, 3, 3, 0}, {1, 4, 6, 2, 3, 1, 1, 2, 0}, {1, 6, 5, 3, 2, 5, 5, 1, 2}};

LibraryConvolution Described(ConvolutionPass pass, const Sizes& s, DType type, DType result, bool bias = false) {
  return {.pass = pass,
          .type = type,
          .result = result,
          .bias = bias,
          .images = s.images,
          .height = s.height,
          .width = s.width,
          .in_channels = s.in,
          .out_height = s.rows(),
          .out_width = s.columns(),
          .out_channels = s.out,
          .kernel_height = s.kernel_height,
          .kernel_width = s.kernel_width,
          .stride = s.stride,
          .padding = s.padding};
}

// Weights with the output channels first, as cuDNN has them, from and to the operations' order.
Values OutputChannelsFirst(const Values& w, const Sizes& s) {
  Values first(w.size());
  const auto inner = w.size() / static_cast<size_t>(s.out), out = static_cast<size_t>(s.out);
  for (size_t i = 0; i < w.size(); ++i) first[i % out * inner + i / out] = w[i];
  return first;
}
Stored First(const Tensor& w, const Sizes& s) {
  return {std::make_shared<Values>(OutputChannelsFirst(ValuesOf(w), s))};
}

TEST(LibraryConvolution, ForwardGraphIsTheOperation) {
  for (const Sizes& s : kCases) {
    for (const bool biased : {false, true}) {
      Lab lab(1, 0);
      const ops::ConvolutionForward o{.x = lab.Normal(s.x(), DType::kF64),
                                      .w = lab.Normal(s.w(), DType::kF64),
                                      .bias = biased ? lab.Normal({s.out}, DType::kF64) : Tensor(),
                                      .y = lab.Blank(s.y(), DType::kF64),
                                      .stride = s.stride,
                                      .padding = s.padding};
      const LibraryConvolution c = Described(ConvolutionPass::kForward, s, DType::kBF16, DType::kBF16, biased);
      SCOPED_TRACE(NameOf(c));
      std::map<GraphOperand, Stored> at = {
          {GraphOperand::kX, ValuesAt(o.x)}, {GraphOperand::kW, First(o.w, s)}, {GraphOperand::kY, ValuesAt(o.y)}};
      if (biased) at[GraphOperand::kBias] = ValuesAt(o.bias);
      Interpreter(GraphOf(c), at).Run();
      lab.Run(o);
      ExpectNear(*at[GraphOperand::kY].values, ValuesOf(o.y));
    }
  }
}

TEST(LibraryConvolution, BackwardGraphsAreTheOperations) {
  for (const Sizes& s : kCases) {
    Lab lab(1, 0);
    const Tensor x = lab.Normal(s.x(), DType::kF64), w = lab.Normal(s.w(), DType::kF64),
                 dy = lab.Normal(s.y(), DType::kF64);
    const ops::ConvolutionBackward o{
        .dy = dy, .w = w, .dx = lab.Blank(s.x(), DType::kF64), .stride = s.stride, .padding = s.padding};
    const LibraryConvolution back = Described(ConvolutionPass::kBackward, s, DType::kF16, DType::kF16);
    SCOPED_TRACE(NameOf(back));
    std::map<GraphOperand, Stored> at = {
        {GraphOperand::kX, ValuesAt(o.dx)}, {GraphOperand::kW, First(w, s)}, {GraphOperand::kY, ValuesAt(dy)}};
    Interpreter(GraphOf(back), at).Run();
    lab.Run(o);
    ExpectNear(*at[GraphOperand::kX].values, ValuesOf(o.dx));

    const ops::ConvolutionWeights weights{
        .dy = dy, .x = x, .dw = lab.Blank(s.w(), DType::kF64), .stride = s.stride, .padding = s.padding};
    lab.Run(weights);
    for (const DType result : {DType::kBF16, DType::kF32}) {
      at = {
          {GraphOperand::kX, ValuesAt(x)}, {GraphOperand::kW, First(weights.dw, s)}, {GraphOperand::kY, ValuesAt(dy)}};
      for (double& value : *at[GraphOperand::kW].values) value = std::numeric_limits<double>::quiet_NaN();
      Interpreter(GraphOf(Described(ConvolutionPass::kWeights, s, DType::kBF16, result)), at).Run();
      ExpectNear(*at[GraphOperand::kW].values, OutputChannelsFirst(ValuesOf(weights.dw), s));
    }
  }
}

// The tensor of an operand.
const GraphTensor& TensorOf(const LibraryGraph& graph, GraphOperand operand) {
  for (const GraphTensor& t : graph.tensors) {
    if (t.operand == operand) return t;
  }
  ADD_FAILURE() << "the graph has no such operand";
  return graph.tensors[0];
}

// Sums are F32 until the bias is added, and stay so in a gradient of F32.
TEST(LibraryConvolution, NothingIsRoundedBetweenSteps) {
  const LibraryGraph biased =
      GraphOf(Described(ConvolutionPass::kForward, kCases[1], DType::kBF16, DType::kBF16, true));
  ASSERT_EQ(biased.nodes.size(), 2u);
  const GraphTensor& sums = biased.tensors[biased.nodes[0].out];
  EXPECT_EQ(sums.type, GraphType::kF32);
  EXPECT_FALSE(sums.operand);
  EXPECT_EQ(biased.nodes[1].in[0], biased.nodes[0].out);
  EXPECT_EQ(TensorOf(biased, GraphOperand::kY).type, GraphType::kNarrow);
  EXPECT_FALSE(TensorOf(biased, GraphOperand::kBias).aligned) << "a bias may be anywhere in a flat parameter";

  const LibraryGraph wide = GraphOf(Described(ConvolutionPass::kWeights, kCases[1], DType::kF16, DType::kF32));
  for (const GraphNode& node : wide.nodes) EXPECT_EQ(wide.tensors[node.out].type, GraphType::kF32);
  EXPECT_EQ(TensorOf(wide, GraphOperand::kW).type, GraphType::kF32);
  EXPECT_EQ(TensorOf(wide, GraphOperand::kX).type, GraphType::kNarrow);
  EXPECT_EQ(GraphOf(Described(ConvolutionPass::kWeights, kCases[1], DType::kF16, DType::kF16)).nodes.size(), 1u);
}

TEST(LibraryConvolution, IsRefusedWithTheReason) {
  const auto why = [](ConvolutionPass pass, DType type, DType result, int64_t images = 2) {
    Sizes s = kCases[1];
    s.images = images;
    return WhyNotCudnn(Described(pass, s, type, result));
  };
  constexpr ConvolutionPass kWeights = ConvolutionPass::kWeights;
  for (const DType type : {DType::kF32, DType::kBF16, DType::kF16}) {
    EXPECT_EQ(why(ConvolutionPass::kForward, type, type), "");
    EXPECT_EQ(why(ConvolutionPass::kBackward, type, type), "");
    EXPECT_EQ(why(kWeights, type, type), "");
    EXPECT_EQ(why(kWeights, type, DType::kF32), "");
    EXPECT_THAT(why(kWeights, type, DType::kF64), HasSubstr("no results in f64"));
  }
  EXPECT_THAT(why(kWeights, DType::kF32, DType::kBF16), HasSubstr("no results in bf16 from f32"));
  EXPECT_THAT(why(kWeights, DType::kBF16, DType::kF16), HasSubstr("no results in f16 from bf16"));
  EXPECT_THAT(why(kWeights, DType::kF64, DType::kF64), HasSubstr("f32, bf16 and f16"));
  EXPECT_THAT(why(kWeights, DType::kF32, DType::kF32, 0), HasSubstr("no images"));
  EXPECT_EQ(NameOf(Described(kWeights, kCases[1], DType::kBF16, DType::kF32)),
            "conv_weights bf16 to f32, images 2 x 5 x 7 x 3, weights 3 x 3 x 3 x 5, stride 1, padding 1");
}

}  // namespace library_convolution_test
}  // namespace twofold::cuda
