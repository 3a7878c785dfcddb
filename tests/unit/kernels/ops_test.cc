// The rules of operations: keys, costs, shapes, workspace. No kernel runs here.
#include "core/device/ops.h"

#include "core/memory/allocator.h"
#include "core/memory/source.h"
#include "gtest/gtest.h"

namespace twofold::ops {
namespace ops_test {

class Ops : public testing::Test {
 protected:
  Tensor New(Shape shape, DType t = DType::kF32) { return Allocate(allocator_, std::move(shape), t, Category::kOther); }
  Bytes Scratch(const Op& op, int threads = 1) { return Workspace(op, DeviceKind::kCpu, threads); }

 private:
  VirtualSource source_;  // rules need no data
  CachingAllocator allocator_{source_, 0};
};
using OpsDeathTest = Ops;

TEST_F(Ops, KeysNameTheKernelAndItsSize) {
  EXPECT_EQ(Key(MatMul{New({3, 5}), New({5, 7}), New({3, 7}), Tensor()}),
            (KernelKey{"matmul_nn", DType::kF32, {3, 7, 5}}));
  EXPECT_EQ(Key(MatMul{New({5, 3}), New({7, 5}), New({3, 7}), Tensor(), true, true}),
            (KernelKey{"matmul_tt", DType::kF32, {3, 7, 5}}));
  EXPECT_EQ(Key(Add{New({2, 3}), New({2, 3}), New({2, 3})}), (KernelKey{"add", DType::kF32, {1, 6, 0}}));
  EXPECT_EQ(Key(ColumnSum{New({2, 4, 3}), New({3})}), (KernelKey{"column_sum", DType::kF32, {8, 3, 0}}));
  EXPECT_EQ(Key(AttentionForward{New({2, 9, 8 * 5}), New({2, 9, 20}), New({2, 4, 9}), 4, 2}),
            (KernelKey{"attention_forward", DType::kF32, {8, 9, 5}}));
}

TEST_F(Ops, KeysOfConvolutionsAreThoseOfTheirProduct) {
  const Tensor x = New({2, 9, 9, 3}), w = New({3, 3, 3, 8}), y = New({2, 5, 5, 8});  // stride 2, padding 1
  EXPECT_EQ(Key(ConvolutionForward{x, w, Tensor(), y, 2, 1}), (KernelKey{"conv3x3_forward", DType::kF32, {50, 8, 27}}));
  EXPECT_EQ(Key(ConvolutionBackward{y, w, x, 2, 1}), (KernelKey{"conv3x3_backward", DType::kF32, {50, 8, 27}}));
  EXPECT_EQ(Key(ConvolutionWeights{y, x, w, 2, 1}), (KernelKey{"conv3x3_weights", DType::kF32, {50, 8, 27}}));
  EXPECT_EQ(CostOf(ConvolutionForward{x, w, Tensor(), y, 2, 1}).flops.value(), 2.0 * 50 * 8 * 27);
  const Tensor wide = New({3, 2, 3, 8});  // a kernel that no model here uses
  EXPECT_EQ(Key(ConvolutionForward{x, wide, Tensor(), New({2, 7, 8, 8})}).name, "conv_forward");
}

TEST_F(Ops, WorkspaceOfBatchNormIsItsPartialSums) {
  const auto scratch = [&](int threads) {
    return Scratch(BatchNormStatistics{New({64, 8}), New({2, 8})}, threads).value();
  };
  EXPECT_EQ(scratch(1), scratch(7));  // whatever the number of threads
  EXPECT_GE(scratch(1), rules::kBatchNormSlabs * 2 * 8 * 4);
}

TEST_F(Ops, CostOfProducts) {
  const Cost cost = CostOf(MatMul{New({3, 5}), New({5, 7}), New({3, 7}), New({7})});
  EXPECT_EQ(cost.flops.value(), 2 * 3 * 5 * 7);
  EXPECT_EQ(cost.read.value(), 4 * (15 + 35 + 7));
  EXPECT_EQ(cost.written.value(), 4 * 21);
  const Cost added = CostOf(MatMul{.a = New({3, 5}), .b = New({5, 7}), .out = New({3, 7}), .accumulate = true});
  EXPECT_EQ(added.read.value(), 4 * (15 + 35 + 21));
}

TEST_F(Ops, CostOfAttentionHalvesUnderACausalMask) {
  AttentionForward o{New({2, 16, 24}), New({2, 16, 8}), New({2, 2, 16}), 2, 2, false};
  const double whole = CostOf(o).flops.value();
  EXPECT_EQ(whole, 2.0 * 2 * (2 * 2 * 16 * 16 * 4));
  o.causal = true;
  EXPECT_EQ(CostOf(o).flops.value(), whole / 2);
}

TEST_F(Ops, CostOfAttentionsRectangles) {
  const Tensor q = New({2, 9, 24}, DType::kBF16), kv = New({2, 7, 8}, DType::kBF16), out = New({2, 9, 16}),
               lse = New({2, 4, 9});
  AttentionBlockForward o{
      q,
      kv,
      out,
      lse,
      {.heads = 4, .kv_heads = 1, .head_dim = 4, .first_query = 3, .queries = 6, .first_key = 1, .keys = 6}};
  CheckShapes(o);
  EXPECT_EQ(Key(o), (KernelKey{"attention_block_forward", DType::kBF16, {2 * 4 * 6, 6, 4}}));
  EXPECT_EQ(CostOf(o).flops.value(), 2 * 2.0 * (2 * 4) * 6 * 6 * 4);
  EXPECT_EQ(CostOf(o).read.value(), 2 * (2 * 6 * 16 + 2 * 6 * 8));
  EXPECT_EQ(CostOf(o).written.value(), 4 * (2 * 6 * 16 + 2 * 4 * 6));
  EXPECT_EQ(Scratch(o).value(), 4 * (32 * (6 + 4) + (32 + 2 * 32)));  // tiles, then copies of queries, keys and values
  EXPECT_EQ(Scratch(o, 9).value(), 2 * Scratch(o).value());           // as many as there are heads of keys
  o.block.causal = true;
  EXPECT_EQ(Key(o).name, "attention_diagonal_forward");
  EXPECT_EQ(CostOf(o).flops.value(), 2.0 * (2 * 4) * 6 * 6 * 4);
  o.merge = true;
  EXPECT_EQ(CostOf(o).read.value(), 2 * (2 * 6 * 16 + 2 * 6 * 8) + CostOf(o).written.value());
  o.block.keys = 5;  // as many as queries, where causal
  EXPECT_DEATH(CheckShapes(o), "attention_block_forward");
  o.block = {.heads = 4, .kv_heads = 1, .head_dim = 4, .first_query = 4, .queries = 6, .keys = 6};
  EXPECT_DEATH(CheckShapes(o), "attention_block_forward");  // past the last query
  const AttentionBlockBackward back{q,
                                    kv,
                                    New({2, 9, 16}, DType::kBF16),
                                    lse,
                                    New({2, 9, 16}, DType::kBF16),
                                    New({2, 9, 24}),
                                    New({2, 7, 8}),
                                    {.heads = 4, .kv_heads = 1, .head_dim = 4, .queries = 9, .keys = 7}};
  CheckShapes(back);
  EXPECT_EQ(CostOf(back).flops.value(), 5 * 2.0 * (2 * 4) * 9 * 7 * 4);
  EXPECT_EQ(CostOf(back).read.value(), 2 * (3 * 2 * 9 * 16 + 2 * 7 * 8) + 4 * 2 * 4 * 9);
  EXPECT_EQ(CostOf(back).written.value(), 4 * (2 * 9 * 16 + 2 * 7 * 8));
}

TEST_F(Ops, CostOfAdamCountsItsState) {
  const Tensor p = New({100}, DType::kBF16), g = New({100}, DType::kBF16), s = New({100});
  const Cost cost = CostOf(AdamStep{p, g, s, s, s});
  EXPECT_EQ(cost.read.value(), 200 + 200 + 3 * 400);
  EXPECT_EQ(cost.written.value(), 200 + 3 * 400);
}

TEST_F(Ops, WorkspaceOfProductsIsPackedBlocksAThreadAndCopiesOfNarrowTypes) {
  const auto scratch = [&](DType in, DType out, int threads) {
    return Scratch(MatMul{New({16, 32}, in), New({32, 48}, in), New({16, 48}, out), Tensor()}, threads).value();
  };
  constexpr int64_t kBlocks = (32 + 64) * 32 + 128;
  EXPECT_EQ(scratch(DType::kF32, DType::kF32, 1), 4 * kBlocks);
  EXPECT_EQ(scratch(DType::kF32, DType::kF32, 3), 4 * 3 * kBlocks);
  EXPECT_EQ(scratch(DType::kF64, DType::kF64, 1), 8 * kBlocks);
  EXPECT_EQ(scratch(DType::kBF16, DType::kF32, 1), 4 * (16 * 32 + 32 * 48 + kBlocks));
  EXPECT_EQ(scratch(DType::kF16, DType::kF16, 1), 4 * (16 * 32 + 32 * 48 + 16 * 48 + kBlocks));
  EXPECT_EQ(scratch(DType::kF32, DType::kF64, 1), 4 * (16 * 48 + kBlocks));
  const Op large = MatMul{New({512, 300}), New({300, 4000}), New({512, 4000}), Tensor()};
  EXPECT_EQ(Scratch(large).value(), 4 * ((168 + 1024) * 256 + 128));  // no more than a block of each
}

TEST_F(Ops, WorkspaceOfAttentionIsOneTileAThread) {
  const auto scratch = [&](int64_t t, DType type, int threads) {
    return Scratch(AttentionForward{New({2, t, 96}, type), New({2, t, 32}, type), New({2, 2, t}), 2, 2}, threads)
        .value();
  };
  EXPECT_EQ(scratch(64, DType::kF32, 1), 4 * 32 * (64 + 16));
  EXPECT_EQ(scratch(512, DType::kF32, 1), 4 * 32 * (512 + 16));
  EXPECT_EQ(scratch(512, DType::kF64, 1), 8 * 16 * (512 + 16));
  EXPECT_EQ(scratch(512, DType::kF32, 3), 3 * scratch(512, DType::kF32, 1));
  EXPECT_EQ(scratch(512, DType::kF32, 9), 4 * scratch(512, DType::kF32, 1));  // as many as there are heads
  EXPECT_EQ(scratch(64, DType::kBF16, 1), 4 * (32 * (64 + 16) + 4 * 64 * 16));
}

TEST_F(Ops, CostOfBatchedProductsCountsSharedMatricesOnce) {
  const BatchedMatMul o{.a = {New({2, 4, 3, 5}), 5, 60, 15},
                        .b = {New({2, 2, 5, 7}), 7, 70, 35, 0, 2},
                        .out = {New({2, 4, 3, 7}), 7, 84, 21},
                        .batches = 2,
                        .heads = 4,
                        .m = 3,
                        .n = 7,
                        .k = 5};
  CheckShapes(o);
  EXPECT_EQ(Key(o), (KernelKey{"batched_matmul_nn", DType::kF32, {24, 7, 5}}));
  const Cost cost = CostOf(o);
  EXPECT_EQ(cost.flops.value(), 2 * 8 * 3 * 7 * 5);
  EXPECT_EQ(cost.read.value(), 4 * (8 * 15 + 4 * 35));
  EXPECT_EQ(cost.written.value(), 4 * 8 * 21);
  EXPECT_EQ(Scratch(o).value(), 0);
}

TEST_F(Ops, WorkspaceOnAGpuIsWhatLibrariesGetAndPartialSums) {
  const auto scratch = [](const Op& op) { return Workspace(op, DeviceKind::kCuda, 1).value(); };
  constexpr int64_t kLibrary = 32 << 20;
  const MatMul product{New({16, 32}, DType::kBF16), New({32, 48}, DType::kBF16), New({16, 48}), Tensor()};
  EXPECT_EQ(scratch(product), kLibrary);
  const Tensor x = New({2, 8, 8, 3}, DType::kBF16), w = New({3, 3, 3, 70}, DType::kBF16),
               y = New({2, 8, 8, 70}, DType::kBF16);
  constexpr int64_t kWeights = 4096;  // 1,890 elements of 2 bytes, a multiple of 512
  EXPECT_EQ(scratch(ConvolutionForward{.x = x, .w = w, .y = y, .padding = 1}), kLibrary + kWeights);
  EXPECT_EQ(scratch(ConvolutionBackward{.dy = y, .w = w, .dx = x, .padding = 1}), kLibrary + kWeights);
  EXPECT_EQ(scratch(ConvolutionWeights{.dy = y, .x = x, .dw = w, .padding = 1}), kLibrary + kWeights);
  const Tensor wide = New({3, 3, 3, 70});  // 1,890 elements of 4 bytes
  EXPECT_EQ(scratch(ConvolutionWeights{.dy = y, .x = x, .dw = wide, .padding = 1}), kLibrary + 7680);
  // 8 pieces of 8 channels, 32 rows of threads with 8 rows each: 10,000 rows in 39 slabs.
  const Tensor rows = New({10000, 64}, DType::kBF16);
  EXPECT_EQ(scratch(BatchNormStatistics{.x = rows, .statistics = New({2, 64})}), 2 * 39 * 64 * 4);
  EXPECT_EQ(scratch(BatchNormSums{.dy = rows, .x = rows, .mean = New({64}), .rstd = New({64}), .sums = New({2, 64})}),
            2 * 39 * 64 * 4);
  EXPECT_EQ(scratch(Add{New({5}), New({5}), New({5})}), 0);
}

TEST_F(Ops, GradientsOfWeightsSumPixelsInPartsOnAGpu) {
  const auto parts = [&](int64_t images, int64_t side, int64_t in, int64_t out) {
    return rules::CudaPixelParts(ConvolutionWeights{
        .dy = New({images, side, side, out}), .x = New({images, side, side, in}), .dw = New({1, 1, in, out})});
  };
  EXPECT_EQ(parts(1, 8, 3, 4), 1);
  EXPECT_EQ(parts(1, 64, 3, 4), 8);        // 512 pixels each
  EXPECT_EQ(parts(4, 512, 3, 4), 512);     // enough tiles
  EXPECT_EQ(parts(1, 64, 1024, 1024), 2);  // 4 MiB each, but 256 tiles already
  EXPECT_EQ(parts(1, 64, 4096, 1024), 1);
}

TEST_F(Ops, WorkspaceOfANarrowTableOrdersItsRows) {
  const Tensor ids = New({100}, DType::kI32), dy = New({100, 8});
  EXPECT_EQ(Scratch(EmbeddingBackward{ids, dy, New({50, 8})}).value(), 0);
  EXPECT_EQ(Scratch(EmbeddingBackward{ids, dy, New({50, 8}, DType::kBF16)}).value(), 4 * 112);
}

TEST_F(Ops, WorkspaceOfATableOnAGpuIsSortedIdsAndTheSumsThatPiecesShare) {
  const auto scratch = [&](int64_t rows) {
    return Workspace(EmbeddingBackward{New({rows}, DType::kI32), New({rows, 8}), New({50, 8})}, DeviceKind::kCuda, 1)
        .value();
  };
  EXPECT_EQ(scratch(0), 0);
  EXPECT_EQ(scratch(100), 2 * 128 * 8 + 2 * 4 * 8 * 4);
}

TEST_F(Ops, WorkspaceOfColumnSumsOnAGpuIsASumForEachBlockOfRows) {
  const auto scratch = [&](int64_t rows, DType t) {
    return Workspace(ColumnSum{New({rows, 8}, t), New({8})}, DeviceKind::kCuda, 1).value();
  };
  EXPECT_EQ(scratch(0, DType::kF32), 0);
  EXPECT_EQ(scratch(64, DType::kBF16), 2 * 8 * 4);
  EXPECT_EQ(scratch(1 << 20, DType::kF64), 512 * 8 * 8);
}

TEST_F(Ops, WorkspaceOfASquaredNormOnAGpuIsASumForEachPart) {
  const auto scratch = [&](int64_t n) {
    return Workspace(SquaredNorm{New({n}, DType::kBF16), New({1})}, DeviceKind::kCuda, 1).value();
  };
  EXPECT_EQ(scratch(0), 0);
  EXPECT_EQ(scratch(1), 8);
  EXPECT_EQ(scratch(kNormBlock + 1), 8 * (kNormBlock / rules::kNormPart + 1));
}

TEST_F(Ops, ShapesThatFitPass) {
  CheckShapes(MatMul{New({3, 5}), New({5, 7}), New({3, 7}, DType::kF64), New({7})});
  CheckShapes(EmbeddingForward{New({2, 3}, DType::kU8), New({9, 4}), New({2, 3, 4})});
  CheckShapes(LayerNormForward{New({2, 3, 4}), New({4}), New({4}), New({2, 3, 4}), New({6}), New({2, 3})});
  CheckShapes(AdamStep{New({3}, DType::kBF16), New({3}), New({3}), New({3}), New({3})});
}

TEST_F(OpsDeathTest, ShapesThatDoNotFitAbortAndArePrinted) {
  EXPECT_DEATH(CheckShapes(MatMul{New({3, 5}), New({6, 7}), New({3, 7}), Tensor()}), "f32\\[3, 5\\] f32\\[6, 7\\]");
  EXPECT_DEATH(CheckShapes(MatMul{New({3, 5}), New({5, 7}, DType::kBF16), New({3, 7}), Tensor()}), "matmul");
  EXPECT_DEATH(CheckShapes(MatMul{New({3, 5}), New({5, 7}), New({3, 7}), New({3})}), "matmul");
  EXPECT_DEATH(CheckShapes(Add{New({3}), New({4}), New({3})}), "add");
  EXPECT_DEATH(CheckShapes(ColumnSum{New({3, 4}), New({3})}), "column_sum");
  EXPECT_DEATH(CheckShapes(EmbeddingForward{New({2}, DType::kF32), New({9, 4}), New({2, 4})}), "embedding_forward");
  EXPECT_DEATH(CheckShapes(PositionForward{New({1, 5, 4}), New({4, 4}), New({1, 5, 4})}), "position_forward");
  const IndexMap chunks{.block = 2, .blocks = 2, .offset = {0, 6}};
  EXPECT_DEATH(CheckShapes(PositionForward{New({1, 4, 4}), New({7, 4}), New({1, 4, 4}), chunks}), "position_forward");
  EXPECT_DEATH(CheckShapes(PositionBackward{New({1, 4, 4}), New({7, 4}), false, chunks}), "position_backward");
  EXPECT_DEATH(CheckShapes(CopyColumns{New({3, 4}), New({3, 5}), 1, 0, 4}), "copy_columns");
  EXPECT_DEATH(CheckShapes(CopyColumns{New({3, 4}), New({2, 5}), 0, 0, 4}), "copy_columns");
  EXPECT_DEATH(
      CheckShapes(LayerNormForward{New({2, 4}), New({4}), New({4}), New({2, 4}), New({2}, DType::kF64), New({2})}),
      "layer_norm_forward");
  EXPECT_DEATH(CheckShapes(AttentionForward{New({1, 4, 24}), New({1, 4, 8}), New({1, 2, 4}), 3, 2}),
               "attention_forward");
  EXPECT_DEATH(CheckShapes(AddBias{New({3, 4}), New({3}), New({3, 4})}), "add_bias");
  EXPECT_DEATH(CheckShapes(SplitMax{New({3, 4}), New({3}), 5}), "split_max");
  EXPECT_DEATH(CheckShapes(SplitSums{New({3, 4}), New({3}, DType::kI32), New({3}), New({4, 3}), 0, 4}), "split_sums");
  EXPECT_DEATH(CheckShapes(SplitLosses{New({3}), New({3, 3}), New({3}), New({3})}), "split_losses");
  EXPECT_DEATH(CheckShapes(SplitBackward{New({3, 4}), New({3}, DType::kI32), New({4}), New({3, 4}), 0, 4}),
               "split_backward");
  EXPECT_DEATH(CheckShapes(SplitCorrect{New({2, 4}), New({1})}), "split_correct");
  EXPECT_DEATH(CheckShapes(CountCorrect{New({3, 4}), New({3}, DType::kI32), New({2})}), "count_correct");
  EXPECT_DEATH(CheckShapes(CrossEntropyForward{New({3, 4}), New({4}, DType::kI32), New({3}), New({3})}),
               "cross_entropy");
  EXPECT_DEATH(CheckShapes(AdamStep{New({3}), New({3}), New({3}), New({3}), New({3})}),
               "adam_step");  // a wide parameter needs no master
  EXPECT_DEATH(CheckShapes(RmsNormForward{New({2, 4}), New({3}), New({2, 4}), New({2})}), "rms_norm_forward");
  EXPECT_DEATH(CheckShapes(SwiGluForward{New({2, 6}), New({2, 4})}), "swiglu_forward");
  EXPECT_DEATH(CheckShapes(Rotary{New({1, 5, 8}), New({4, 4}), New({1, 5, 8}), 2}), "rotary");
  EXPECT_DEATH(CheckShapes(Rotary{New({1, 5, 8}), New({5, 4}), New({1, 5, 8}), 3}), "rotary");
  EXPECT_DEATH(CheckShapes(MaskedDropoutForward{New({3}), New({3}), New({3})}), "masked_dropout_forward");
  EXPECT_DEATH(CheckShapes(SoftmaxForward{New({2, 3}), New({2, 3})}), "softmax_forward");
  EXPECT_DEATH(CheckShapes(BatchedMatMul{.a = {New({2, 3}), 3},
                                         .b = {New({3, 4}), 4},
                                         .out = {New({2, 4}), 4, 8, 8},
                                         .heads = 2,
                                         .m = 2,
                                         .n = 4,
                                         .k = 3}),
               "batched_matmul_nn");
  EXPECT_DEATH(CheckShapes(ConvolutionForward{New({2, 9, 9, 3}), New({3, 3, 3, 8}), Tensor(), New({2, 9, 9, 8})}),
               "conv_forward");
  EXPECT_DEATH(CheckShapes(ConvolutionWeights{New({2, 9, 9, 8}), New({2, 9, 9, 4}), New({3, 3, 3, 8}), 1, 1}),
               "conv_weights");
  EXPECT_DEATH(CheckShapes(BatchNormStatistics{New({6, 8}), New({2, 7})}), "batch_norm");
  EXPECT_DEATH(CheckShapes(SgdStep{New({3}), New({3}), Tensor(), New({3})}), "sgd_step");
  EXPECT_DEATH(CheckShapes(SgdStep{.param = New({3}), .grad = New({3}), .factor = New({1}, DType::kBF16)}), "sgd_step");
}

TEST_F(OpsDeathTest, CodecsTakeWhatFits) {
  const auto places = [&](int64_t k) { return New({k}, DType::kI32); };
  const auto bytes = [&](int64_t n) { return New({n}, DType::kU8); };
  CheckShapes(TopK{New({300}), New({3}), places(3), New({300})});
  EXPECT_DEATH(CheckShapes(TopK{New({300}), New({301}), places(301), Tensor()}), "top_k");
  EXPECT_DEATH(CheckShapes(TopK{New({300}), New({3}), places(4), Tensor()}), "top_k");
  EXPECT_DEATH(CheckShapes(RandomPlaces{places(4), 3}), "random_places");
  EXPECT_DEATH(CheckShapes(ScatterElements{New({3}), places(4), New({9})}), "scatter_elements");
  CheckShapes(Quantise{New({257}, DType::kBF16), bytes(257), New({2}), Tensor()});
  EXPECT_DEATH(CheckShapes(Quantise{New({257}), bytes(257), New({1}), Tensor()}), "quantise");
  EXPECT_DEATH(CheckShapes(Quantise{New({257}), bytes(257), New({2}), New({257}, DType::kBF16)}), "quantise");
  CheckShapes(Quantise{.in = New({257}), .codes = bytes(129), .scales = New({1}), .bits = 4, .block = 512});
  EXPECT_DEATH(CheckShapes(Quantise{.in = New({257}), .codes = bytes(128), .scales = New({2}), .bits = 4}), "quantise");
  EXPECT_DEATH(CheckShapes(Dequantise{.codes = bytes(257), .scales = New({2}), .out = New({257}), .block = 128}),
               "dequantise");
  EXPECT_DEATH(CheckShapes(Orthogonalise{New({2, 3})}), "orthogonalise");
  CheckShapes(SignPack{New({1025}), bytes(129), New({2}), Tensor()});
  EXPECT_DEATH(CheckShapes(SignPack{New({1025}), bytes(128), New({2}), Tensor()}), "sign_pack");
  EXPECT_DEATH(CheckShapes(SignUnpack{bytes(129), New({2}, DType::kBF16), New({1025})}), "sign_unpack");
}

TEST_F(OpsDeathTest, RangesAreInOrderAndWithin) {
  const auto check = [&](std::vector<ElementRange> ranges) {
    CheckShapes(SgdStep{.param = New({9}),
                        .grad = New({9}),
                        .factor = New({1}),
                        .undecayed = std::make_shared<std::vector<ElementRange>>(std::move(ranges))});
  };
  check({{0, 3}, {3, 4}, {8, 9}});
  EXPECT_DEATH(check({{0, 3}, {2, 4}}), "\\[2, 4\\) after 3, of 9 elements");
  EXPECT_DEATH(check({{8, 10}}), "\\[8, 10\\) after 0, of 9 elements");
  EXPECT_DEATH(check({{4, 4}}), "\\[4, 4\\)");
}

}  // namespace ops_test
}  // namespace twofold::ops
