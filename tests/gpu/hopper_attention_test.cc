// Hopper's kernel of attention, where it is the one that runs; tensors that are not aligned are for the others.
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/strings.h"
#include "gmock/gmock.h"
#include "kernels/cuda/attentions.h"
#include "kernels/cuda/cuda_device.h"
#include "tests/gpu/against_cpu.h"
#include "tests/gpu/attention_cases.h"

namespace twofold {
namespace hopper_attention_test {

using namespace attention_cases;

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
      for (const BlockCase& a : kBlocks) CheckRectangle(type, a, add, kByHopper);
      for (const BlockCase& a : kBlocksOfHopper) CheckRectangle(type, a, add, kByHopper);
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

}  // namespace hopper_attention_test
}  // namespace twofold
