// Attention's kernels. Narrow types run on tensor cores where heads are a multiple of 8 wide and rows aligned, with the
// probabilities and their gradients rounded to the type before their products, as FlashAttention does; on other cores
// elsewhere.
#include <cmath>
#include <utility>
#include <vector>

#include "core/base/strings.h"
#include "gmock/gmock.h"
#include "kernels/cuda/attentions.h"
#include "kernels/cuda/capability.h"
#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/error.h"
#include "tests/gpu/against_cpu.h"

namespace twofold {
namespace attention_test {

struct AttentionCase {
  int64_t batch, t, heads, kv_heads, dim;
  bool causal;
  int64_t columns() const { return (heads + 2 * kv_heads) * dim; }
  Shape out() const { return {batch, t, heads * dim}; }
  std::string name() const {
    return StrCat("batch ", batch, " t ", t, " heads ", heads, " of ", kv_heads, " x ", dim, causal ? " causal" : "");
  }
};

// f32 and f64: another order of sums. f16 and bf16: probabilities have 11 and 8 bits, as the results do.
double Tolerance(DType type) {
  switch (type) {
    case DType::kF64: return 1e-12;
    case DType::kF32: return 1e-5;
    case DType::kF16: return 2e-3;
    default: return 1e-2;
  }
}
constexpr DType kTypes[] = {DType::kF64, DType::kF32, DType::kBF16, DType::kF16};

// Sums of t probabilities of about e^(0.5) / t: what a log-sum-exp is near to.
Tensor SomeLse(Operands& o, Shape shape, int64_t keys) {
  return o.WideNormal(shape, 0.3, 0.5 + std::log(static_cast<double>(keys)));
}

void CheckForward(DType type, const AttentionCase& a, const OnDevice& device = OnDevice()) {
  SCOPED_TRACE(StrCat(DTypeName(type), " forward ", a.name()));
  ExpectLikeCpu(
      type, Tolerance(type),
      [&](Operands& o) -> ops::Op {
        return ops::AttentionForward{.qkv = o.Normal({a.batch, a.t, a.columns()}),
                                     .out = o.Out(a.out()),
                                     .lse = o.WideOut({a.batch, a.heads, a.t}),
                                     .heads = a.heads,
                                     .kv_heads = a.kv_heads,
                                     .causal = a.causal};
      },
      device);
}
void CheckBackward(DType type, const AttentionCase& a, const OnDevice& device = OnDevice()) {
  SCOPED_TRACE(StrCat(DTypeName(type), " backward ", a.name()));
  ExpectLikeCpu(
      type, Tolerance(type),
      [&](Operands& o) -> ops::Op {
        return ops::AttentionBackward{.qkv = o.Normal({a.batch, a.t, a.columns()}),
                                      .out = o.Normal(a.out(), 0.5),
                                      .lse = SomeLse(o, {a.batch, a.heads, a.t}, a.t),
                                      .dout = o.Normal(a.out()),
                                      .dqkv = o.Out({a.batch, a.t, a.columns()}),
                                      .heads = a.heads,
                                      .kv_heads = a.kv_heads,
                                      .causal = a.causal};
      },
      device);
}

class AttentionOnGpu : public GpuTest {};

// Every width that has a kernel of its own, and some that lie between them; 20 is for other cores, and so is what
// follows 256.
constexpr AttentionCase kCases[] = {
    {.batch = 1, .t = 1, .heads = 1, .kv_heads = 1, .dim = 64, .causal = true},
    {.batch = 2, .t = 17, .heads = 2, .kv_heads = 1, .dim = 16, .causal = true},
    {.batch = 1, .t = 33, .heads = 2, .kv_heads = 2, .dim = 20, .causal = true},
    {.batch = 3, .t = 64, .heads = 2, .kv_heads = 2, .dim = 40, .causal = false},
    {.batch = 1, .t = 127, .heads = 3, .kv_heads = 1, .dim = 64, .causal = true},
    {.batch = 1, .t = 193, .heads = 1, .kv_heads = 1, .dim = 64, .causal = false},
    {.batch = 1, .t = 193, .heads = 1, .kv_heads = 1, .dim = 64, .causal = true},
    {.batch = 1, .t = 131, .heads = 2, .kv_heads = 1, .dim = 80, .causal = true},
    {.batch = 1, .t = 127, .heads = 1, .kv_heads = 1, .dim = 96, .causal = false},
    {.batch = 1, .t = 193, .heads = 2, .kv_heads = 1, .dim = 128, .causal = true},
    {.batch = 1, .t = 65, .heads = 1, .kv_heads = 1, .dim = 128, .causal = false},
    {.batch = 1, .t = 97, .heads = 2, .kv_heads = 1, .dim = 200, .causal = true},
    {.batch = 1, .t = 70, .heads = 1, .kv_heads = 1, .dim = 256, .causal = false},
    {.batch = 1, .t = 35, .heads = 2, .kv_heads = 1, .dim = 264, .causal = true},
};

TEST_F(AttentionOnGpu, Forward) {
  for (const AttentionCase& a : kCases) {
    for (const DType type : kTypes) CheckForward(type, a);
  }
}
TEST_F(AttentionOnGpu, Backward) {
  for (const AttentionCase& a : kCases) {
    for (const DType type : kTypes) CheckBackward(type, a);
  }
}

class AttentionByCudnn : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    if (const std::string why = WhyNoCudnnAttention(); !why.empty())
      GTEST_SKIP() << "skipped without cuDNN's attention: " << why;
  }
  // Where cuDNN cannot do it the error says so, and of which operation and shape.
  template <class Check>
  static void Expect(cuda::AttentionPass pass, DType type, const AttentionCase& a, Check check) {
    const cuda::LibraryAttention asked{.pass = pass,
                                       .type = type,
                                       .batch = a.batch,
                                       .rows = a.t,
                                       .heads = a.heads,
                                       .kv_heads = a.kv_heads,
                                       .dim = a.dim,
                                       .causal = a.causal};
    const int major = cuda::CapabilityOf(0).major;
    const bool possible = cuda::WhyNotCudnn(asked, major, cuda::kOldestCudnnVersion).empty() &&
                          (pass == cuda::AttentionPass::kForward || major >= 9);
    // Sums of queries' gradients have no fixed order.
    const OnDevice device{.attention = cuda::AttentionKernels::kCudnn,
                          .any_alignment = false,
                          .same_bits = pass == cuda::AttentionPass::kForward};
    try {
      check(type, a, device);
      EXPECT_TRUE(possible) << cuda::NameOf(asked);
    } catch (const cuda::CudaError& e) {
      EXPECT_FALSE(possible) << e.what();
      EXPECT_THAT(e.what(), testing::HasSubstr(cuda::NameOf(asked)));
    }
  }
};
constexpr AttentionCase kTrained[] = {{.batch = 2, .t = 512, .heads = 4, .kv_heads = 4, .dim = 64, .causal = true},
                                      {.batch = 1, .t = 512, .heads = 8, .kv_heads = 2, .dim = 128, .causal = true}};

TEST_F(AttentionByCudnn, Forward) {
  for (const DType type : kTypes) {
    for (const AttentionCase& a : kCases) Expect(cuda::AttentionPass::kForward, type, a, CheckForward);
    for (const AttentionCase& a : kTrained) Expect(cuda::AttentionPass::kForward, type, a, CheckForward);
  }
}
TEST_F(AttentionByCudnn, Backward) {
  for (const DType type : kTypes) {
    for (const AttentionCase& a : kCases) Expect(cuda::AttentionPass::kBackward, type, a, CheckBackward);
    for (const AttentionCase& a : kTrained) Expect(cuda::AttentionPass::kBackward, type, a, CheckBackward);
  }
}

// What is told of whose kernels ran; and where cuDNN is not, AUTO is our kernels, and CUDNN an error that names the
// shape.
TEST_F(AttentionOnGpu, TellsWhoseKernelsRan) {
  for (const auto attention :
       {cuda::AttentionKernels::kAuto, cuda::AttentionKernels::kOwn, cuda::AttentionKernels::kCudnn}) {
    cuda::GpuSource source(0);
    cuda::PinnedSource host_source(0);
    CachingAllocator allocator(source, 0), host(host_source, 0, "host memory");
    CudaDevice device(allocator, host, 0, 0, {.attention = attention});
    std::vector<std::string> notes;
    device.SetNote([&](std::string note) { notes.push_back(std::move(note)); });
    const auto blank = [&](Shape shape, DType type) {
      return device.NewTensor(std::move(shape), type, Category::kOther);
    };
    const ops::AttentionForward o{.qkv = blank({1, 33, 3 * 64}, DType::kBF16),
                                  .out = blank({1, 33, 64}, DType::kBF16),
                                  .lse = blank({1, 1, 33}, DType::kF32)};
    const std::string none = WhyNoCudnnAttention();
    std::string error;
    try {
      for (int time = 0; time < 2; ++time) device.Launch(device.compute(), o);
    } catch (const cuda::CudaError& e) {
      error = e.what();
    }
    device.compute().Synchronize();
    if (attention == cuda::AttentionKernels::kOwn) {
      EXPECT_TRUE(notes.empty());
    } else if (none.empty()) {
      EXPECT_THAT(notes, testing::ElementsAre(testing::StartsWith("attention_forward: cuDNN 9.")));
    } else if (attention == cuda::AttentionKernels::kAuto) {
      EXPECT_THAT(notes, testing::ElementsAre(StrCat("attention_forward: own kernels (", none, ")")));
    }
    const bool impossible = attention == cuda::AttentionKernels::kCudnn && !none.empty();
    EXPECT_EQ(!error.empty(), impossible) << error;
    if (!impossible) continue;
    EXPECT_THAT(error, testing::HasSubstr("attention_forward bf16, batch 1 t 33 heads 1 of 1 x 64 causal"));
    EXPECT_THAT(error, testing::HasSubstr(none));
  }
}

// Large scores: what is not the largest of a row must not overflow, and what was made before a larger one came must
// shrink to nothing.
TEST_F(AttentionOnGpu, LargeScores) {
  for (const DType type : kTypes) {
    ExpectLikeCpu(type, Tolerance(type), [&](Operands& o) -> ops::Op {
      return ops::AttentionForward{
          .qkv = o.Normal({1, 150, 3 * 64}, 8), .out = o.Out({1, 150, 64}), .lse = o.WideOut({1, 1, 150})};
    });
  }
}

// Scores near -100, and log-sum-exps as well: keys that are not there, of score 0, must stay out of the gradients.
TEST_F(AttentionOnGpu, NegativeScores) {
  constexpr int64_t kT = 70, kDim = 64;
  for (const DType type : kTypes) {
    SCOPED_TRACE(DTypeName(type));
    ExpectLikeCpu(type, Tolerance(type), [&](Operands& o) -> ops::Op {
      const auto value = [](int64_t i) {
        const int64_t row = i / (3 * kDim), column = i % (3 * kDim);
        if (column < kDim) return 4.0;
        if (column < 2 * kDim) return -3 - static_cast<double>(row % 3) / 16;
        return static_cast<double>(i * 7 % 13 - 6) / 4;
      };
      return ops::AttentionBackward{.qkv = o.Values({1, kT, 3 * kDim}, value, o.type()),
                                    .out = o.Normal({1, kT, kDim}, 0.5),
                                    .lse = o.WideNormal({1, 1, kT}, 0.3, -93),
                                    .dout = o.Normal({1, kT, kDim}),
                                    .dqkv = o.Out({1, kT, 3 * kDim}),
                                    .causal = false};
    });
  }
}

// A rectangle of longer tensors; q and kv may be of different widths.
struct BlockCase {
  ops::AttentionBlock block;
  int64_t batch, tq, tk;
  int64_t more_columns = 0;  // of q before its end, and of kv before its keys
  std::string name() const {
    return StrCat("rectangle ", block.queries, " x ", block.keys, " heads ", block.heads, " of ", block.kv_heads, " x ",
                  block.head_dim, block.causal ? " causal" : "");
  }
  int64_t q_columns() const { return block.heads * block.head_dim + more_columns; }
  int64_t kv_columns() const { return 2 * block.kv_heads * block.head_dim + more_columns; }
  Shape out() const { return {batch, tq, block.heads * block.head_dim}; }
  Shape lse() const { return {batch, block.heads, tq}; }
};
constexpr BlockCase kBlocks[] = {
    {.block = {.heads = 2,
               .kv_heads = 1,
               .head_dim = 64,
               .first_query = 3,
               .queries = 70,
               .first_key = 5,
               .keys = 131,
               .causal = false},
     .batch = 2,
     .tq = 80,
     .tk = 140,
     .more_columns = 16},
    {.block = {.heads = 2,
               .kv_heads = 2,
               .head_dim = 128,
               .first_query = 40,
               .queries = 67,
               .first_key = 20,
               .keys = 67,
               .causal = true},
     .batch = 1,
     .tq = 110,
     .tk = 90},
    {.block = {.heads = 1,
               .kv_heads = 1,
               .head_dim = 80,
               .first_query = 0,
               .queries = 33,
               .first_key = 0,
               .keys = 1,
               .causal = false},
     .batch = 1,
     .tq = 33,
     .tk = 2,
     .more_columns = 8},
    {.block = {.heads = 2,
               .kv_heads = 1,
               .head_dim = 136,
               .first_query = 1,
               .queries = 40,
               .first_key = 2,
               .keys = 40,
               .causal = true},
     .batch = 1,
     .tq = 45,
     .tk = 45},
};

// What lies outside the rectangle stays, so that results are operands too.
void CheckForward(DType type, const BlockCase& a, bool add, const OnDevice& device = OnDevice()) {
  SCOPED_TRACE(StrCat(DTypeName(type), " forward ", a.name(), add ? " merged" : ""));
  ExpectLikeCpu(
      type, Tolerance(type),
      [&](Operands& o) -> ops::Op {
        return ops::AttentionBlockForward{.q = o.Normal({a.batch, a.tq, a.q_columns()}),
                                          .kv = o.Normal({a.batch, a.tk, a.kv_columns()}),
                                          .out = o.InOut(o.WideNormal(a.out())),
                                          .lse = o.InOut(SomeLse(o, a.lse(), a.block.keys)),
                                          .block = a.block,
                                          .merge = add};
      },
      device);
}

TEST_F(AttentionOnGpu, Rectangles) {
  for (const BlockCase& a : kBlocks) {
    for (const DType type : kTypes) {
      for (const bool add : {false, true}) {
        CheckForward(type, a, add);
        SCOPED_TRACE(StrCat(DTypeName(type), " backward ", a.name(), add ? " merged" : ""));
        ExpectLikeCpu(type, Tolerance(type), [&](Operands& o) -> ops::Op {
          return ops::AttentionBlockBackward{.q = o.Normal({a.batch, a.tq, a.q_columns()}),
                                             .kv = o.Normal({a.batch, a.tk, a.kv_columns()}),
                                             .out = o.Normal(a.out(), 0.5),
                                             .lse = SomeLse(o, a.lse(), a.block.keys),
                                             .dout = o.Normal(a.out()),
                                             .dq = o.InOut(o.WideNormal({a.batch, a.tq, a.q_columns()})),
                                             .dkv = o.InOut(o.WideNormal({a.batch, a.tk, a.kv_columns()})),
                                             .block = a.block,
                                             .accumulate = add};
        });
      }
    }
  }
}

// Hopper's kernel, where it is the one that runs; tensors that are not aligned are for the others.
class AttentionByHopper : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    if (const std::string why = WhyNoHopperAttention(0); !why.empty()) GTEST_SKIP() << "skipped: " << why;
  }
};
const OnDevice kByHopper{.attention = cuda::AttentionKernels::kHopper};
constexpr DType kNarrow[] = {DType::kBF16, DType::kF16};

// A block has 192 queries of heads that are 64 wide, and 128 of those that are 128 wide; a tile has 128 keys, and a
// ring two tiles. So there are rows, blocks and tiles that are whole, begun and alone; rings that go round; groups of
// warps that see fewer tiles than others do.
constexpr AttentionCase kOfHopper[] = {
    {.batch = 1, .t = 1, .heads = 1, .kv_heads = 1, .dim = 64, .causal = true},
    {.batch = 1, .t = 1, .heads = 2, .kv_heads = 1, .dim = 128, .causal = false},
    {.batch = 2, .t = 17, .heads = 2, .kv_heads = 1, .dim = 64, .causal = true},
    {.batch = 1, .t = 127, .heads = 3, .kv_heads = 1, .dim = 64, .causal = true},
    {.batch = 1, .t = 193, .heads = 1, .kv_heads = 1, .dim = 64, .causal = false},
    {.batch = 1, .t = 384, .heads = 2, .kv_heads = 2, .dim = 64, .causal = true},
    {.batch = 2, .t = 641, .heads = 2, .kv_heads = 1, .dim = 64, .causal = true},
    {.batch = 1, .t = 128, .heads = 1, .kv_heads = 1, .dim = 128, .causal = true},
    {.batch = 1, .t = 129, .heads = 4, .kv_heads = 2, .dim = 128, .causal = true},
    {.batch = 1, .t = 500, .heads = 1, .kv_heads = 1, .dim = 128, .causal = false},
    {.batch = 2, .t = 513, .heads = 2, .kv_heads = 1, .dim = 128, .causal = true},
};
TEST_F(AttentionByHopper, Forward) {
  for (const AttentionCase& a : kOfHopper) {
    for (const DType type : kNarrow) CheckForward(type, a, kByHopper);
  }
}
// What it leaves to other kernels.
TEST_F(AttentionByHopper, LeavesOthersAlone) {
  const AttentionCase a = {.batch = 1, .t = 33, .heads = 2, .kv_heads = 1, .dim = 64, .causal = true};
  for (const DType type : kTypes) {
    for (const int64_t dim : {20, 56, 80, 136}) {
      AttentionCase other = a;
      other.dim = dim;
      CheckForward(type, other, kByHopper);
    }
    CheckBackward(type, a, kByHopper);
  }
  CheckForward(DType::kF32, a, kByHopper);
  CheckForward(DType::kF64, a, kByHopper);
}
// As for the other kernels above.
TEST_F(AttentionByHopper, LargeScores) {
  for (const int64_t dim : {64, 128}) {
    for (const DType type : kNarrow) {
      ExpectLikeCpu(
          type, Tolerance(type),
          [&](Operands& o) -> ops::Op {
            return ops::AttentionForward{
                .qkv = o.Normal({1, 300, 3 * dim}, 8), .out = o.Out({1, 300, dim}), .lse = o.WideOut({1, 1, 300})};
          },
          kByHopper);
    }
  }
}

constexpr BlockCase kBlocksOfHopper[] = {
    {.block = {.heads = 4,
               .kv_heads = 2,
               .head_dim = 64,
               .first_query = 7,
               .queries = 250,
               .first_key = 3,
               .keys = 387,
               .causal = false},
     .batch = 2,
     .tq = 260,
     .tk = 400,
     .more_columns = 16},
    {.block = {.heads = 2,
               .kv_heads = 1,
               .head_dim = 128,
               .first_query = 1,
               .queries = 5,
               .first_key = 2,
               .keys = 300,
               .causal = false},
     .batch = 1,
     .tq = 8,
     .tk = 310},
    {.block = {.heads = 2,
               .kv_heads = 2,
               .head_dim = 128,
               .first_query = 40,
               .queries = 270,
               .first_key = 20,
               .keys = 270,
               .causal = true},
     .batch = 1,
     .tq = 330,
     .tk = 290,
     .more_columns = 8},
    {.block = {.heads = 1,
               .kv_heads = 1,
               .head_dim = 64,
               .first_query = 0,
               .queries = 200,
               .first_key = 0,
               .keys = 1,
               .causal = false},
     .batch = 1,
     .tq = 200,
     .tk = 2},
};
TEST_F(AttentionByHopper, Rectangles) {
  for (const DType type : kNarrow) {
    for (const bool add : {false, true}) {
      for (const BlockCase& a : kBlocks) CheckForward(type, a, add, kByHopper);
      for (const BlockCase& a : kBlocksOfHopper) CheckForward(type, a, add, kByHopper);
    }
  }
}

// What is told of whose kernels ran.
TEST_F(AttentionByHopper, TellsWhichKernelRan) {
  cuda::GpuSource source(0);
  cuda::PinnedSource host_source(0);
  CachingAllocator allocator(source, 0), host(host_source, 0, "host memory");
  CudaDevice device(allocator, host, 0, 0, {.attention = cuda::AttentionKernels::kHopper});
  std::vector<std::string> notes;
  device.SetNote([&](std::string note) { notes.push_back(std::move(note)); });
  const auto told = [&](DType type, int64_t dim, int64_t first = 0) {
    const auto blank = [&](Shape shape, DType t) {
      const int64_t n = shape.numel();
      return device.NewTensor({n + first}, t, Category::kOther).Slice(first, std::move(shape));
    };
    const ops::AttentionForward o{.qkv = blank({1, 33, 3 * dim}, type),
                                  .out = blank({1, 33, dim}, type),
                                  .lse = blank({1, 1, 33}, type == DType::kF64 ? type : DType::kF32)};
    for (int time = 0; time < 2; ++time) device.Launch(device.compute(), o);
    device.compute().Synchronize();
    return std::exchange(notes, {});
  };
  constexpr std::string_view kOthers = "attention_forward: own kernels (not the Hopper kernel: ";
  using testing::ElementsAre;
  EXPECT_THAT(told(DType::kBF16, 64), ElementsAre("attention_forward: the Hopper kernel"));
  EXPECT_THAT(told(DType::kF16, 128), ElementsAre()) << "once is enough";
  EXPECT_THAT(told(DType::kF32, 64), ElementsAre(StrCat(kOthers, "it needs BF16 or F16)")));
  EXPECT_THAT(told(DType::kBF16, 80), ElementsAre(StrCat(kOthers, "it needs heads 64 or 128 wide)")));
  EXPECT_THAT(
      told(DType::kBF16, 64, 1),
      ElementsAre(StrCat(kOthers, "it needs rows that are aligned to 16 bytes and less than 2^22 elements apart)")));
}

class SoftmaxOnGpu : public GpuTest {};

// Rows of a warp, of a block, and longer; multiples of what a load takes and not.
TEST_F(SoftmaxOnGpu, Forward) {
  for (const DType type : kTypes) {
    for (const int64_t n : {1, 31, 64, 257, 1030, 1536}) {
      SCOPED_TRACE(StrCat(DTypeName(type), " columns ", n));
      ExpectLikeCpu(type, Tolerance(type), [&](Operands& o) -> ops::Op {
        return ops::SoftmaxForward{.x = o.Normal({2, 3, n}, 3), .y = o.Out({2, 3, n}), .causal = false};
      });
    }
    for (const int64_t t : {1, 17, 72, 129}) {
      SCOPED_TRACE(StrCat(DTypeName(type), " causal ", t));
      ExpectLikeCpu(type, Tolerance(type), [&](Operands& o) -> ops::Op {
        const Tensor x = o.InOut(o.Normal({2, t, t}, 3));
        return ops::SoftmaxForward{.x = x, .y = x, .causal = true};
      });
    }
    SCOPED_TRACE(StrCat(DTypeName(type), " long rows"));
    ExpectLikeCpu(type, Tolerance(type), [&](Operands& o) -> ops::Op {
      return ops::SoftmaxForward{.x = o.Normal({1, 2, 17000}, 3), .y = o.Out({1, 2, 17000}), .causal = false};
    });
  }
}
TEST_F(SoftmaxOnGpu, Backward) {
  for (const DType type : kTypes) {
    for (const int64_t n : {1, 31, 64, 257, 1030, 1536, 9000}) {
      SCOPED_TRACE(StrCat(DTypeName(type), " columns ", n));
      ExpectLikeCpu(type, Tolerance(type), [&](Operands& o) -> ops::Op {
        return ops::SoftmaxBackward{.y = o.Uniform({3, n}, 0, 0.1), .dy = o.Normal({3, n}), .dx = o.Out({3, n})};
      });
    }
    ExpectLikeCpu(type, Tolerance(type), [&](Operands& o) -> ops::Op {
      const Tensor dy = o.InOut(o.Normal({5, 72}));
      return ops::SoftmaxBackward{.y = o.Uniform({5, 72}, 0, 0.1), .dy = dy, .dx = dy};
    });
  }
}

}  // namespace attention_test
}  // namespace twofold
