// Every strategy trains on GPUs as it does on CPUs: same spec, same data, the losses of every rank side by side.
//
// Ranks share one GPU, on the in-memory fabric. Models are tiny, so that the emulation of a GPU runs them, too.
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cuda/cuda_device.h"
#include "tests/gpu/against_cpu.h"
#include "tests/integration/run_spec.h"
#include "tests/scratch_folder.h"

namespace twofold {
namespace cuda_strategies_test {

using test::Losses;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::IsSupersetOf;
using ::testing::Not;
using ::testing::StartsWith;

constexpr int kSteps = 4;

constexpr char kGpt[] = "model { gpt { layers: 2 hidden: 16 heads: 2 sequence: 8 } }\n";
constexpr char kDeepGpt[] = "model { gpt { layers: 4 hidden: 16 heads: 2 sequence: 8 } }\n";
constexpr char kLlama[] = "model { llama { layers: 2 hidden: 16 heads: 4 kv_heads: 2 ffn: 24 sequence: 8 } }\n";
constexpr char kMoe[] =
    "model { moe { llama { layers: 2 hidden: 16 heads: 4 kv_heads: 2 ffn: 24 sequence: 8 } experts: 4 top_k: 2 "
    "capacity_factor: 2 } }\n";
constexpr char kMlp[] = "model { mlp { inputs: 8 hidden: [24, 16] classes: 5 } }\n";
constexpr char kCnn[] =
    "model { cnn { height: 8 width: 8 widths: [4, 6] blocks: [1, 1] classes: 5 sync_batch_norm: true } }\n"
    "data { synthetic { samples: 96 } }\n";
constexpr char kUnfused[] =
    "model { gpt { layers: 2 hidden: 16 heads: 2 sequence: 8 dropout: 0.1 attention_dropout: 0.1 } attention: UNFUSED "
    "}\n";

// Relative, of every step's loss. In f32 sums differ in their order alone. In bf16 each activation and gradient is
// rounded to 8 bits, so that another order of a sum moves some by 2^-8; in f16 by 2^-11.
constexpr double kF32 = 1e-4, kBf16 = 2e-2, kF16 = 5e-3;

struct Case {
  const char* name;
  const char* model;
  const char* parallel;
  const char* train = "";  // further fields
  double tolerance = kF32;
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

constexpr Case kCases[] = {
    // One rank, every model.
    {"Gpt", kGpt, ""},
    {"Llama", kLlama, ""},
    {"Moe", kMoe, ""},
    {"Mlp", kMlp, ""},
    {"Cnn", kCnn, "", "optimizer { sgd { lr: 0.05 momentum: 0.9 } }"},
    {"GptUnfused", kUnfused, ""},
    // Layouts over replicas.
    {"Ddp", kGpt, "dp: 2 bucket_mib: 0.005"},
    {"DdpOfThree", kMlp, "dp: 3"},
    {"DdpCnn", kCnn, "dp: 2", "optimizer { sgd { lr: 0.05 momentum: 0.9 } }"},
    {"Zero1", kGpt, "dp: 2 sharding: ZERO_1"},
    {"Zero2", kGpt, "dp: 2 sharding: ZERO_2"},
    {"Zero3", kGpt, "dp: 2 sharding: ZERO_3"},
    {"Zero3Llama", kLlama, "dp: 3 sharding: ZERO_3"},
    {"HybridShard", kGpt, "dp: 4 sharding: HYBRID_SHARD shard_group: 2"},
    {"NoOverlap", kGpt, "dp: 2 sharding: ZERO_3 overlap: false"},
    // Axes inside layers.
    {"Tensor", kGpt, "tp: 2"},
    {"TensorSequence", kLlama, "tp: 2 sequence_parallel: true"},
    {"TensorUnfused", kUnfused, "tp: 2"},
    {"Context", kGpt, "cp: 2"},
    {"ContextLlama", kLlama, "cp: 2"},
    {"Expert", kMoe, "dp: 2 ep: 2"},
    // Pipelines.
    {"GPipe", kGpt, "pp: 2 schedule: GPIPE", "global_batch: 8"},
    {"OneFOneB", kGpt, "pp: 2", "global_batch: 8"},
    {"Interleaved", kDeepGpt, "pp: 2 schedule: INTERLEAVED_ONE_F_ONE_B virtual_stages: 2", "global_batch: 8"},
    {"ZeroBubble", kLlama, "pp: 2 schedule: ZERO_BUBBLE_H1", "global_batch: 8"},
    // Hybrids.
    {"TensorData", kLlama, "tp: 2 dp: 2 sharding: ZERO_2"},
    {"PipelineTensor", kGpt, "pp: 2 tp: 2", "global_batch: 4"},
    {"ExpertTensor", kMoe, "dp: 2 ep: 2 tp: 2"},
    // What saves memory.
    {"Accumulated", kGpt, "dp: 2 sharding: ZERO_2", "global_batch: 8"},
    {"Clipped", kGpt, "dp: 2 sharding: ZERO_3", "clip_norm: 0.5"},
    {"Recomputed", kGpt, "dp: 2", "activation_checkpointing {}"},
    {"RecomputedSelectively", kUnfused, "dp: 2", "activation_checkpointing { recompute: SELECTIVE }"},
    {"OffloadedOptimizer", kGpt, "dp: 2 sharding: ZERO_2 offload: OFFLOAD_OPTIMIZER"},
    {"Offloaded", kGpt, "dp: 2 sharding: ZERO_3 offload: OFFLOAD_ALL"},
    // Narrow types.
    {"Bf16", kGpt, "dp: 2 sharding: ZERO_3", "precision { parameter: BF16 reduce: F32 }", kBf16},
    {"Bf16Llama", kLlama, "tp: 2", "precision { parameter: BF16 }", kBf16},
    {"F16", kGpt, "dp: 2", "precision { parameter: F16 loss_scale { dynamic { initial: 1024 } } }", kF16},
    {"F64", kGpt, "dp: 2", "precision { parameter: F64 }", 1e-9},
};

std::string Text(const Case& c, const std::string& train = "") {
  return StrCat(c.model, "train { steps: ", kSteps, " micro_batch: 2 ", c.train, " ", train, " }\nparallel { ",
                c.parallel, " }\n", "fabric { in_memory {} timeout_s: 300 }\n");
}
std::string OnGpu(const std::string& text) { return text + "device: CUDA\n"; }

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
