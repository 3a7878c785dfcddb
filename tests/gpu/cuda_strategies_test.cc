// Every strategy trains on GPUs as it does on CPUs: same spec, same data, the losses of every rank side by side.
//
// Ranks share one GPU, on the in-memory fabric. Models are tiny, so that the emulation of a GPU runs them, too.
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cuda/cuda_device.h"
#include "tests/gpu/against_cpu.h"
#include "tests/gpu/strategy_cases.h"
#include "tests/integration/run_spec.h"
#include "tests/scratch_folder.h"

namespace twofold {
namespace cuda_strategies_test {

using namespace test::strategies;
using test::Losses;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::testing::Not;
using ::testing::StartsWith;

void ExpectNear(const std::vector<double>& got, const std::vector<double>& want, double tolerance, int rank) {
  ASSERT_EQ(got.size(), want.size());
  for (size_t i = 0; i < got.size(); ++i)
    EXPECT_NEAR(got[i], want[i], tolerance * std::abs(want[i])) << "rank " << rank << ", step " << i;
}

class EveryCudaStrategy : public GpuTest, public ::testing::WithParamInterface<Case> {};

TEST_P(EveryCudaStrategy, HaveTheLossesOfTheCpu) {
  const Case& c = GetParam();
  const auto want = test::RunText(Text(c)), got = test::RunText(OnGpu(Text(c)));
  ASSERT_EQ(got.size(), want.size());
  ASSERT_FALSE(got.empty());
  for (size_t r = 0; r < got.size(); ++r) ExpectNear(Losses(got[r]), Losses(want[r]), c.tolerance, static_cast<int>(r));
  ASSERT_EQ(want[0].steps_size(), kSteps);
  EXPECT_NE(want[0].steps(kSteps - 1).loss(), want[0].steps(0).loss()) << "nothing was learned";
}

INSTANTIATE_TEST_SUITE_P(Strategies, EveryCudaStrategy, ::testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.name); });

using CudaStrategies = GpuTest;

// Ranks of a layout agree to the bit, and so do two runs.
TEST_F(CudaStrategies, RepeatThemselvesToTheBit) {
  const Case c = {"", kGpt, "dp: 3 sharding: ZERO_3"};
  const auto once = test::RunText(OnGpu(Text(c))), again = test::RunText(OnGpu(Text(c)));
  ASSERT_EQ(once.size(), 3u);
  for (size_t r = 0; r < 3; ++r) {
    EXPECT_EQ(Losses(once[r]), Losses(once[0]));
    EXPECT_EQ(Losses(once[r]), Losses(again[r]));
  }
}

// Heads are 8 wide, which cuDNN takes in bf16.
TEST_F(CudaStrategies, AttentionIsWhoseItWasAskedToBeAndTheNotesSayWhose) {
  const std::string why_not = WhyNoCudnnAttention();
  for (const std::string attention : {"AUTO", "OWN", "CUDNN"}) {
    SCOPED_TRACE(attention);
    spec::Spec spec = test::Resolve(
        StrCat(OnGpu(Text({"", kGpt, "", "precision { parameter: BF16 }"})), "cuda { attention: ", attention, " }\n"));
    const RunResult result = test::RunResolved(spec);
    if (attention == "CUDNN" && !why_not.empty()) {
      EXPECT_THAT(std::string(result.status.message()),
                  HasSubstr(StrCat("cuda.attention: CUDNN is not available: ", why_not)));
      continue;
    }
    ASSERT_TRUE(result.status.ok()) << result.status.message();
    EXPECT_THAT(result.notes, IsSupersetOf(GpuLibraries()));
    const report::RankRecord record = test::RecordsOf(spec, result).at(0);
    const std::vector<std::string> notes(record.notes().begin(), record.notes().end());
    for (const std::string pass : {"attention_forward: ", "attention_backward: "}) {
      if (attention == "OWN") {
        EXPECT_THAT(notes, Not(Contains(StartsWith(pass))));
      } else {
        EXPECT_THAT(notes, Contains(StartsWith(attention == "CUDNN" ? pass + "cuDNN" : pass)));
      }
    }
  }
}

// Heads are 64 wide, which Hopper's kernel takes; with cp: 2 in blocks that are merged around the ring, and as part of
// graphs; the other two combinations run with TWOFOLD_TEST_FULL=1. Losses, and the memory to the byte, are those of the
// other kernels.
TEST_F(CudaStrategies, HopperAttentionTrainsAsTheOtherKernelsDo) {
  const std::string why_not = WhyNoHopperAttention(0);
  constexpr char kWide[] = "model { llama { layers: 1 hidden: 128 heads: 2 kv_heads: 1 ffn: 24 sequence: 160 } }\n";
  constexpr char kBf16Text[] = "precision { parameter: BF16 }";
  for (const char* parallel : {"", "cp: 2"}) {
    for (const char* more : {"", " graphs: true"}) {
      if ((*parallel == 0) != (*more == 0) && std::getenv("TWOFOLD_TEST_FULL") == nullptr) continue;
      SCOPED_TRACE(StrCat(parallel, more));
      const std::string text = OnGpu(Text({"", kWide, parallel, kBf16Text}));
      spec::Spec spec = test::Resolve(StrCat(text, "cuda { attention: HOPPER", more, " }\n"));
      const RunResult result = test::RunResolved(spec);
      if (!why_not.empty()) {
        EXPECT_THAT(std::string(result.status.message()),
                    HasSubstr(StrCat("cuda.attention: HOPPER is not available on GPU 0: ", why_not)));
        continue;
      }
      ASSERT_TRUE(result.status.ok()) << result.status.message();
      const auto got = test::RecordsOf(spec, result);
      const auto want = test::RunText(StrCat(text, "cuda { attention: OWN", more, " }\n"));
      ASSERT_EQ(got.size(), want.size());
      for (size_t r = 0; r < got.size(); ++r) {
        EXPECT_THAT(got[r].notes(), Contains("attention_forward: the Hopper kernel"));
        EXPECT_THAT(want[r].notes(), Not(Contains(HasSubstr("Hopper"))));
        ExpectNear(Losses(got[r]), Losses(want[r]), kBf16, static_cast<int>(r));
        EXPECT_EQ(got[r].memory().peak_bytes(), want[r].memory().peak_bytes());
        EXPECT_EQ(got[r].memory().reserved_bytes(), want[r].memory().reserved_bytes());
      }
    }
  }
}

// Sums are 128 and 256 terms, which cuBLASLt takes with both scalings. Losses, and the memory to the byte, are those of
// our own kernels.
TEST_F(CudaStrategies, ProductsInFp8OfTheLibraryTrainAsOurOwnDo) {
  constexpr char kWide[] = "model { llama { layers: 1 hidden: 128 heads: 2 kv_heads: 1 ffn: 256 sequence: 64 } }\n";
  for (const std::string scaling : {"CURRENT", "BLOCK"}) {
    SCOPED_TRACE(scaling);
    const std::string precision =
        StrCat("precision { parameter: BF16 reduce: F32 matmul: FP8 fp8 { scaling: ", scaling, " } }");
    const std::string text = OnGpu(Text({"", kWide, "dp: 2 sharding: ZERO_2", precision.c_str()}));
    const auto got = test::RunText(text), own = test::RunText(StrCat(text, "cuda { fp8: OWN }\n"));
    ASSERT_EQ(got.size(), 2u);
    const std::string kernel = scaling == "BLOCK" ? "matmul_fp8_block_" : "matmul_fp8_";
    for (size_t r = 0; r < got.size(); ++r) {
#ifdef TWOFOLD_EMULATED_CUDA  // as on an H100
      for (const char* way : {"nt", "nn", "tn"})
        EXPECT_THAT(got[r].notes(), Contains(StrCat(kernel, way, ": cuBLASLt's kernels")));
#endif
      EXPECT_THAT(own[r].notes(), Contains(StrCat(kernel, "nt: own kernels (cuda.fp8: OWN)")));
      ExpectNear(Losses(got[r]), Losses(own[r]), kBf16, static_cast<int>(r));
      EXPECT_EQ(got[r].memory().peak_bytes(), own[r].memory().peak_bytes());
      EXPECT_EQ(got[r].memory().reserved_bytes(), own[r].memory().reserved_bytes());
    }
  }
}

// A checkpoint knows nothing of the device that wrote it: the second half of a run elsewhere has the losses of one that
// stayed.
TEST_F(CudaStrategies, CheckpointsMoveBetweenDevices) {
  constexpr int kStop = kSteps / 2;
  const Case c = {"", kGpt, "dp: 2 sharding: ZERO_3"};
  const std::vector<double> stayed = Losses(test::RunText(Text(c))[0]);
  for (const bool from_gpu : {true, false}) {
    const std::string folder = test::ScratchFolder(from_gpu ? "gpu_to_cpu" : "cpu_to_gpu");
    const std::string saving =
        Text(c, StrCat("checkpoint { path: \"", folder, "\" every_steps: ", kStop, " keep_last: 0 }"));
    const std::string resuming = Text(c, StrCat("resume: \"", folder, "/000001-step-", kStop, "\""));
    test::RunText(from_gpu ? OnGpu(saving) : saving);
    const auto resumed = test::RunText(from_gpu ? resuming : OnGpu(resuming));
    ASSERT_FALSE(resumed.empty());
    EXPECT_EQ(resumed[0].first_step(), kStop);
    ExpectNear(Losses(resumed[0]), {stayed.begin() + kStop, stayed.end()}, kF32, 0);
    std::filesystem::remove_all(folder);
  }
}

}  // namespace cuda_strategies_test
}  // namespace twofold
