// Attention's kernels. Narrow types run on tensor cores where heads are a multiple of 8 wide and rows aligned, with the
// probabilities and their gradients rounded to the type before their products, as FlashAttention does; on other cores
// elsewhere.
#include <utility>
#include <vector>

#include "core/base/strings.h"
#include "gmock/gmock.h"
#include "kernels/cuda/attentions.h"
#include "kernels/cuda/capability.h"
#include "kernels/cuda/cuda_device.h"
#include "kernels/cuda/error.h"
#include "tests/gpu/against_cpu.h"
#include "tests/gpu/attention_cases.h"

namespace twofold {
namespace attention_test {

using namespace attention_cases;

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

TEST_F(AttentionOnGpu, Rectangles) {
  for (const BlockCase& a : kBlocks) {
    for (const DType type : kTypes) {
      for (const bool add : {false, true}) {
        CheckRectangle(type, a, add);
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

}  // namespace attention_test
}  // namespace twofold
