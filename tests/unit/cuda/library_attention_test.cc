// The graph of attention that cuDNN is asked for, evaluated, must be what the operation says.
#include "kernels/cuda/library_attention.h"

#include "core/base/strings.h"
#include "tests/unit/cuda/graph_interpreter.h"

namespace twofold::cuda {
namespace library_attention_test {

using testing::HasSubstr;

struct Sizes {
  int64_t batch, t, heads, kv_heads, dim;
  bool causal;
  Shape qkv() const { return {batch, t, (heads + 2 * kv_heads) * dim}; }
  Shape out() const { return {batch, t, heads * dim}; }
  Shape lse() const { return {batch, heads, t}; }
};
// Constants of a graph are f32: exact, of widths that are powers of four.
constexpr Sizes kCases[] = {{1, 2, 1, 1, 16, true},
                            {2, 7, 4, 2, 16, true},
                            {1, 5, 6, 2, 64, false},
                            {2, 6, 3, 3, 16, true},
                            {1, 9, 2, 1, 64, false}};

TEST(LibraryAttention, ForwardGraphIsTheOperation) {
  for (const Sizes& s : kCases) {
    Lab lab(1, 0);
    const ops::AttentionForward o{.qkv = lab.Normal(s.qkv(), DType::kF64),
                                  .out = lab.Blank(s.out(), DType::kF64),
                                  .lse = lab.Blank(s.lse(), DType::kF64),
                                  .heads = s.heads,
                                  .kv_heads = s.kv_heads,
                                  .causal = s.causal};
    const LibraryAttention a = Described(o);
    SCOPED_TRACE(NameOf(a));
    std::map<GraphOperand, Stored> at = {{GraphOperand::kOut, ValuesAt(o.out)}, {GraphOperand::kLse, ValuesAt(o.lse)}};
    for (const GraphOperand x : {GraphOperand::kQ, GraphOperand::kK, GraphOperand::kV})
      at[x] = ValuesAt(o.qkv, FirstElement(a, x));
    Interpreter(GraphOf(a), at).Run();
    lab.Run(o);
    ExpectNear(*at[GraphOperand::kOut].values, ValuesOf(o.out));
    ExpectNear(*at[GraphOperand::kLse].values, ValuesOf(o.lse));
  }
}

TEST(LibraryAttention, BackwardGraphIsTheOperationRepeatableOrNot) {
  for (const Sizes& s : kCases) {
    for (const bool repeatable : {true, false}) {
      Lab lab(1, 0);
      ops::AttentionForward f{.qkv = lab.Normal(s.qkv(), DType::kF64),
                              .out = lab.Blank(s.out(), DType::kF64),
                              .lse = lab.Blank(s.lse(), DType::kF64),
                              .heads = s.heads,
                              .kv_heads = s.kv_heads,
                              .causal = s.causal};
      lab.Run(f);
      const ops::AttentionBackward o{.qkv = f.qkv,
                                     .out = f.out,
                                     .lse = f.lse,
                                     .dout = lab.Normal(s.out(), DType::kF64),
                                     .dqkv = lab.Blank(s.qkv(), DType::kF64),
                                     .heads = s.heads,
                                     .kv_heads = s.kv_heads,
                                     .causal = s.causal};
      LibraryAttention a = Described(o);
      a.repeatable = repeatable;
      SCOPED_TRACE(StrCat(NameOf(a), repeatable ? " repeatable" : ""));
      std::map<GraphOperand, Stored> at = {{GraphOperand::kOut, ValuesAt(o.out)},
                                           {GraphOperand::kLse, ValuesAt(o.lse)},
                                           {GraphOperand::kDOut, ValuesAt(o.dout)},
                                           {GraphOperand::kDelta, ValuesAt(o.lse)}};
      if (!repeatable) at[GraphOperand::kDQSums] = ValuesAt(o.out);
      const Stored gradients = ValuesAt(o.dqkv);  // NaN
      for (const GraphOperand x : {GraphOperand::kQ, GraphOperand::kK, GraphOperand::kV})
        at[x] = ValuesAt(o.qkv, FirstElement(a, x));
      for (const GraphOperand x : {GraphOperand::kDQ, GraphOperand::kDK, GraphOperand::kDV})
        at[x] = {gradients.values, FirstElement(a, x)};
      Interpreter(GraphOf(a), at).Run();
      lab.Run(o);
      ExpectNear(*gradients.values, ValuesOf(o.dqkv));
    }
  }
}

LibraryAttention Some(AttentionPass pass) {
  return {.pass = pass,
          .type = DType::kBF16,
          .batch = 8,
          .rows = 1024,
          .heads = 12,
          .kv_heads = 12,
          .dim = 64,
          .causal = true};
}

TEST(LibraryAttention, IsRefusedWithTheReason) {
  const LibraryAttention f = Some(AttentionPass::kForward), b = Some(AttentionPass::kBackward);
  EXPECT_EQ(WhyNotCudnn(f, 8, 91900), "");
  EXPECT_EQ(WhyNotCudnn(b, 9, kOldestCudnnVersion), "");
  EXPECT_THAT(WhyNotCudnn(f, 9, 91501), HasSubstr("9.15.1; its attention needs version 9.16 or newer"));
  EXPECT_THAT(WhyNotCudnn(f, 9, 100000), HasSubstr("below 10"));
  const auto with = [](LibraryAttention a, auto change) {
    change(a);
    return a;
  };
  EXPECT_THAT(WhyNotCudnn(with(f, [](auto& a) { a.type = DType::kF32; }), 9, 91900), HasSubstr("bf16 and f16"));
  EXPECT_THAT(WhyNotCudnn(with(f, [](auto& a) { a.dim = 20; }), 9, 91900), HasSubstr("multiples of 8 up to 256"));
  EXPECT_THAT(WhyNotCudnn(with(f, [](auto& a) { a.dim = 264; }), 9, 91900), HasSubstr("up to 256"));
  EXPECT_EQ(WhyNotCudnn(with(b, [](auto& a) { a.dim = 256; }), 9, 91900), "");
  EXPECT_THAT(WhyNotCudnn(with(b, [](auto& a) { a.dim = 136; }), 8, 91900), HasSubstr("up to 128"));
  EXPECT_THAT(WhyNotCudnn(with(b, [](auto& a) { a.rows = 1; }), 9, 91900), HasSubstr("two tokens"));
  EXPECT_EQ(NameOf(with(b, [](auto& a) { a.kv_heads = 4; })),
            "attention_backward bf16, batch 8 t 1024 heads 12 of 4 x 64 causal");
}

// Who does not mind the last bits, or insists on cuDNN, gets sums in no fixed order, where the others do not fit.
TEST(LibraryAttention, IsAskedForRepeatableFirst) {
  const LibraryAttention f = Some(AttentionPass::kForward), b = Some(AttentionPass::kBackward);
  for (const bool any_bits : {false, true}) {
    EXPECT_TRUE(AskedFor(f, AttentionKernels::kOwn, any_bits).empty());
    EXPECT_TRUE(AskedFor(b, AttentionKernels::kOwn, any_bits).empty());
    EXPECT_TRUE(AskedFor(f, AttentionKernels::kHopper, any_bits).empty());
    EXPECT_TRUE(AskedFor(b, AttentionKernels::kHopper, any_bits).empty());
    EXPECT_EQ(AskedFor(f, AttentionKernels::kAuto, any_bits), std::vector{f});
    EXPECT_EQ(AskedFor(f, AttentionKernels::kCudnn, any_bits), std::vector{f});
  }
  EXPECT_EQ(AskedFor(b, AttentionKernels::kAuto, false), std::vector{b});
  LibraryAttention free = b;
  free.repeatable = false;
  EXPECT_EQ(AskedFor(b, AttentionKernels::kAuto, true), (std::vector{b, free}));
  EXPECT_EQ(AskedFor(b, AttentionKernels::kCudnn, false), (std::vector{b, free}));
}

// The note says which setting would have been enough.
TEST(LibraryAttention, ARepeatableBackwardPassSaysWhatItNeeds) {
  LibraryAttention b = Some(AttentionPass::kBackward);
  const size_t scores = size_t{2} * 8 * 12 * 1024 * 1024, delta = WorkspaceOf(b).bytes();  // 192 MiB
  EXPECT_EQ(MoreWorkspace(b, delta + scores), "");
  EXPECT_EQ(MoreWorkspace(b, delta + scores - 1), "; a fixed order of sums needs cuda.attention_workspace_mib: 192");
  // Heads that share keys and values have gradients of their own, of which those of the sequence are the sums.
  LibraryAttention shared = b;
  shared.kv_heads = 4;
  const size_t own = WorkspaceOf(shared).bytes() + scores + 2 * size_t{2} * 8 * 12 * 1024 * static_cast<size_t>(b.dim);
  EXPECT_EQ(MoreWorkspace(shared, own), "");
  EXPECT_EQ(MoreWorkspace(shared, own - 1), "; a fixed order of sums needs cuda.attention_workspace_mib: 192");
  b.rows = 1025;
  EXPECT_THAT(MoreWorkspace(b, 0), HasSubstr("attention_workspace_mib: 243"));
  b.repeatable = false;
  EXPECT_EQ(MoreWorkspace(b, 0), "");
  EXPECT_EQ(MoreWorkspace(Some(AttentionPass::kForward), 0), "");
}

// The workspace of the operation holds what the graph keeps in it, and leaves room for the library's.
TEST(CudaWorkspace, OfAttentionHoldsTheGraphsTensors) {
  Lab lab(1, 0);
  const auto of = [&](DType type, int64_t heads, int64_t kv_heads, int64_t dim) {
    const Sizes s{.batch = 2, .t = 33, .heads = heads, .kv_heads = kv_heads, .dim = dim, .causal = true};
    const DType wide = ops::AccumulationType(type);
    return std::pair(ops::AttentionForward{.qkv = lab.Blank(s.qkv(), type),
                                           .out = lab.Blank(s.out(), type),
                                           .lse = lab.Blank(s.lse(), wide),
                                           .heads = heads,
                                           .kv_heads = kv_heads},
                     ops::AttentionBackward{.qkv = lab.Blank(s.qkv(), type),
                                            .out = lab.Blank(s.out(), type),
                                            .lse = lab.Blank(s.lse(), wide),
                                            .dout = lab.Blank(s.out(), type),
                                            .dqkv = lab.Blank(s.qkv(), type),
                                            .heads = heads,
                                            .kv_heads = kv_heads});
  };
  using ops::rules::CudaWorkspace;
  const auto [forward, backward] = of(DType::kBF16, 4, 4, 64);
  EXPECT_EQ(CudaWorkspace(forward), Bytes(512));
  EXPECT_EQ(CudaWorkspace(backward), Bytes(1536 + 4 * 33 * 2 * 4 * 64 + 512));  // 1056 of delta
  LibraryAttention free = Described(backward);
  free.repeatable = false;
  EXPECT_EQ(static_cast<int64_t>(WorkspaceOf(free).bytes()), (CudaWorkspace(backward) - Bytes(512)).value());
  EXPECT_EQ(WorkspaceOf(Described(backward)).bytes(), 1536u);
  EXPECT_EQ(WorkspaceOf(Described(forward)).bytes(), 0u);

  EXPECT_EQ(CudaWorkspace(of(DType::kF16, 4, 2, 64).second), Bytes(1536 + (4 + 2 * 2) * 33 * 2 * 4 * 64 + 512));

  // The gradients of 2 x 4 x 33 x 33 scores, stored as 128 x 128, do not add to the sums of dq: the larger counts.
  const auto with = [](ops::AttentionBackward o, int64_t limit) {
    o.score_limit = limit;
    return CudaWorkspace(o);
  };
  const auto [few, many] = std::pair(of(DType::kBF16, 4, 4, 8).second, of(DType::kBF16, 4, 2, 8).second);
  constexpr int64_t kScores = 2 * 8 * 128 * 128;
  EXPECT_EQ(ops::rules::CudaScoreGradients(8, 33), Bytes(kScores));
  EXPECT_EQ(ops::rules::CudaScoreGradients(8, 128), Bytes(kScores));
  EXPECT_EQ(with(few, kScores - 1), CudaWorkspace(few));
  EXPECT_EQ(CudaWorkspace(few), Bytes(1536 + 8704 + 512));
  EXPECT_EQ(with(few, kScores), Bytes(1536 + kScores + 512));
  EXPECT_EQ(with(many, 1 << 20), Bytes(1536 + kScores + 2 * 4608 + 512));
  const auto wide = of(DType::kBF16, 4, 4, 256).second;
  EXPECT_EQ(with(wide, 1 << 20), CudaWorkspace(wide)) << "the sums of dq are larger";

  for (const auto& [f, b] : {of(DType::kF32, 4, 4, 64), of(DType::kBF16, 4, 4, 20), of(DType::kBF16, 1, 1, 264)}) {
    EXPECT_EQ(CudaWorkspace(f), Bytes(0));
    EXPECT_EQ(CudaWorkspace(b), b.lse.bytes());
  }
}

}  // namespace library_attention_test
}  // namespace twofold::cuda
