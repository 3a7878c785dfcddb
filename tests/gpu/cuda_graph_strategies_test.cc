// CUDA graphs in training: every strategy with the bits and the bytes of launches one by one.
#include <algorithm>
#include <cstdlib>
#include <string>
#include <string_view>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cuda/cuda_device.h"
#include "tests/gpu/against_cpu.h"
#include "tests/gpu/strategy_cases.h"
#include "tests/integration/run_spec.h"

#ifdef TWOFOLD_EMULATED_CUDA
#include <cuda_runtime.h>
#endif

namespace twofold {
namespace cuda_graph_strategies_test {

using namespace test::strategies;
using ::testing::HasSubstr;

constexpr char kGraphs[] = "cuda { graphs: true }\n";

// What these do with graphs, others do, too: they run with TWOFOLD_TEST_FULL=1.
constexpr std::string_view kInFull[] = {
    "GptUnfused",   "Mlp",           "DdpOfThree",         "Zero1",     "Zero3Llama",
    "NoOverlap",    "TensorUnfused", "ContextLlama",       "GPipe",     "PipelineTensor",
    "ExpertTensor", "Recomputed",    "OffloadedOptimizer", "Bf16Llama", "F64"};

std::string WithSteps(const Case& c) {
  std::string text = Text(c);
  const std::string steps = StrCat("steps: ", kSteps, " ");
  return text.replace(text.find(steps), steps.size(), "steps: 6 ");  // two make the graphs, the last one is traced
}

class EveryStrategyWithGraphs : public GpuTest, public ::testing::WithParamInterface<Case> {};

TEST_P(EveryStrategyWithGraphs, HasTheBitsAndTheBytesOfLaunchesOneByOne) {
  if (std::getenv("TWOFOLD_TEST_FULL") == nullptr && std::ranges::count(kInFull, GetParam().name) > 0)
    GTEST_SKIP() << "TWOFOLD_TEST_FULL=1 runs it";
  const std::string text = OnGpu(WithSteps(GetParam()));
  const auto want = test::RunText(text);
#ifdef TWOFOLD_EMULATED_CUDA
  const int64_t before = emulated::Calls(emulated::Call::kGraphLaunch);
#endif
  const auto got = test::RunText(text + kGraphs);
  test::ExpectAsPredicted(got, want);
  ASSERT_FALSE(want.empty());
  for (const std::string& note : got[0].notes()) EXPECT_THAT(note, testing::Not(HasSubstr("cuda.graphs")));
#ifdef TWOFOLD_EMULATED_CUDA
  EXPECT_GE(emulated::Calls(emulated::Call::kGraphLaunch) - before, 3 * static_cast<int64_t>(want.size()))
      << "each rank replays something in at least three steps";
#endif
}

INSTANTIATE_TEST_SUITE_P(Strategies, EveryStrategyWithGraphs, ::testing::ValuesIn(kCases),
                         [](const auto& info) { return std::string(info.param.name); });

using CudaGraphStrategies = GpuTest;

// Memory is predicted to the byte, and no more is used than without graphs.
TEST_F(CudaGraphStrategies, MemoryIsAsPredicted) {
  for (const Case& c : {Case{"", kGpt, "dp: 2 sharding: ZERO_3"}, Case{"", kLlama, "tp: 2"}}) {
    std::string text = OnGpu(WithSteps(c)) + kGraphs;
    const auto measured = test::RunText(text);
    const std::string fabric = "fabric { in_memory {} timeout_s: 300 }\n";
    text.replace(text.find(fabric), fabric.size(),
                 "fabric { simulated { cluster: \"star-h100\" data: SYMBOLIC } timeout_s: 300 }\n");
    const auto predicted = test::RunText(text);
    ASSERT_EQ(measured.size(), predicted.size());
    for (size_t r = 0; r < measured.size(); ++r) {
      EXPECT_EQ(measured[r].memory().peak_bytes(), predicted[r].memory().peak_bytes());
      EXPECT_EQ(measured[r].memory().reserved_bytes(), predicted[r].memory().reserved_bytes());
    }
  }
}

#ifdef TWOFOLD_EMULATED_CUDA
// Where a section ends must not depend on whether a communication happens to be over.
TEST_F(CudaGraphStrategies, EveryRunReplaysTheSameSections) {
  const std::string text = OnGpu(WithSteps({"", kGpt, "dp: 2 bucket_mib: 0.005"})) + kGraphs;
  const auto launches = [&text] {
    const int64_t before = emulated::Calls(emulated::Call::kGraphLaunch);
    test::RunText(text);
    return emulated::Calls(emulated::Call::kGraphLaunch) - before;
  };
  const int64_t first = launches();
  for (int run = 0; run < 2; ++run) EXPECT_EQ(launches(), first);
}
#endif

}  // namespace cuda_graph_strategies_test
}  // namespace twofold
