// Promise 2 on a GPU: the peak and reserved bytes that a simulated run and `twofold memory` predict for ranks of
// device: CUDA are those that CudaDevice's allocators measure, under every layout that ranks sharing one GPU can have;
// and what the GPU has in use beyond them is one constant.
#include <gmock/gmock.h>

#include "kernels/cuda/cuda_device.h"
#include "tests/gpu/against_cpu.h"
#include "tests/integration/replayed.h"

namespace twofold {
namespace cuda_memory_test {

constexpr char kGpus[] = "device: CUDA\n";
constexpr char kMeasured[] = "fabric { in_memory {} timeout_s: 600 }\n";
constexpr char kPredicted[] = "fabric { simulated { cluster: \"star-h100\" data: SYMBOLIC } timeout_s: 600 }\n";

// The records of what was measured.
std::vector<report::RankRecord> ExpectPredicted(const std::string& spec) {
  const std::string text = spec + kGpus;
  const std::vector<report::RankRecord> measured = test::RunText(text + kMeasured),
                                        predicted = test::RunText(text + kPredicted);
  EXPECT_EQ(measured.size(), predicted.size());
  for (size_t r = 0; r < std::min(measured.size(), predicted.size()); ++r) {
    test::ExpectEqual(predicted[r].memory(), measured[r].memory(), "simulated");
    EXPECT_GT(measured[r].memory().peak_bytes(), 0);
  }
  test::ExpectReplayed(text + kMeasured, measured);
  test::ExpectReplayed(text + kPredicted, predicted);
  return measured;
}

struct Layout {
  const char* name;
  const char* parallel;
  const char* train = "";
};
void PrintTo(const Layout& layout, std::ostream* out) { *out << layout.name; }
constexpr auto kName = [](const auto& info) { return std::string(info.param.name); };

constexpr char kMixed[] = "clip_norm: 1 precision { parameter: BF16 reduce: F32 } ";

// ---- Small models ----

class MlpMemory : public GpuTest, public ::testing::WithParamInterface<Layout> {};

TEST_P(MlpMemory, IsAsPredicted) {
  ExpectPredicted(StrCat(test::kTinyMlp, "train { steps: 3 micro_batch: 2 global_batch: 16 ", GetParam().train,
                         " }\nparallel { ", GetParam().parallel, " }\n"));
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, MlpMemory,
    ::testing::Values(Layout{"One", ""}, Layout{"Mixed", "", kMixed}, Layout{"Ddp", "dp: 2 bucket_mib: 0.001"},
                      Layout{"Validated", "dp: 2", "validation { every_steps: 2 batch: 5 samples: 17 }"},
                      Layout{"Zero1", "dp: 4 sharding: ZERO_1", kMixed},
                      Layout{"Zero3", "dp: 2 sharding: ZERO_3", kMixed}),
    kName);

class GptMemory : public GpuTest, public ::testing::WithParamInterface<Layout> {};

TEST_P(GptMemory, IsAsPredicted) {
  ExpectPredicted(StrCat("model { gpt { layers: 4 hidden: 32 heads: 4 vocab: 257 sequence: 16 } }\n",
                         "train { steps: 3 micro_batch: 1 global_batch: 4 ", GetParam().train, " }\nparallel { ",
                         GetParam().parallel, " }\n"));
}

constexpr char kFp8[] = "precision { parameter: BF16 reduce: F32 matmul: FP8 } ",
               kFp8Block[] = "precision { parameter: BF16 reduce: F32 matmul: FP8 fp8 { scaling: BLOCK } } ";

constexpr Layout kLayouts[] = {{"One", "", "clip_norm: 1 "},
                               {"Fp8", "", kFp8},
                               {"Fp8Tp", "tp: 2 sequence_parallel: true", kFp8},
                               {"Fp8Block", "dp: 2 sharding: ZERO_3", kFp8Block},
                               {"Mixed", "", kMixed},
                               {"Half", "", "precision { parameter: F16 } "},
                               {"Recomputed", "", "activation_checkpointing {} "},
                               {"Ddp", "dp: 2 bucket_mib: 0.01", kMixed},
                               {"Zero1", "dp: 2 sharding: ZERO_1", kMixed},
                               {"Zero2", "dp: 2 sharding: ZERO_2", kMixed},
                               {"Zero3", "dp: 4 sharding: ZERO_3 prefetch: 2", kMixed},
                               {"Zero3Recomputed", "dp: 2 sharding: ZERO_3", "activation_checkpointing { every: 2 } "},
                               {"Hybrid", "dp: 4 sharding: HYBRID_SHARD shard_group: 2", ""},
                               {"OptimizerOffloaded", "dp: 2 sharding: ZERO_1 offload: OFFLOAD_OPTIMIZER", kMixed},
                               {"Offloaded", "dp: 2 sharding: ZERO_3 offload: OFFLOAD_ALL", kMixed},
                               {"Tp", "tp: 2", kMixed},
                               {"TpSequence", "tp: 2 sequence_parallel: true", kMixed},
                               {"Pp", "pp: 2", kMixed},
                               {"Interleaved", "pp: 2 virtual_stages: 2 schedule: INTERLEAVED_ONE_F_ONE_B", kMixed},
                               {"ZeroBubble", "pp: 2 schedule: ZERO_BUBBLE_H1", kMixed},
                               {"Cp", "cp: 2", kMixed},
                               {"TpPpDpZero1", "tp: 2 pp: 2 dp: 2 sharding: ZERO_1", kMixed}};
INSTANTIATE_TEST_SUITE_P(Layouts, GptMemory, ::testing::ValuesIn(kLayouts), kName);

class OtherMemory : public GpuTest, public ::testing::WithParamInterface<test::TinyModel> {};

TEST_P(OtherMemory, IsAsPredicted) {
  ExpectPredicted(
      StrCat(GetParam().model, "train { steps: 3 micro_batch: 2 global_batch: 8 ", kMixed, "}\nparallel { dp: 2 }\n"));
}
INSTANTIATE_TEST_SUITE_P(Llama, OtherMemory, ::testing::Values(test::kTinyModels[2]), kName);
INSTANTIATE_TEST_SUITE_P(Cnns, OtherMemory, ::testing::ValuesIn(test::kTinyCnns), kName);
INSTANTIATE_TEST_SUITE_P(Variants, OtherMemory, ::testing::ValuesIn(test::kTinyVariants), kName);

using CudaMemoryTest = GpuTest;

// All products are cuBLASLt's on an H100, with copies of codes and scales in the workspace.
TEST_F(CudaMemoryTest, OfProductsInFp8WithBlocksOfScalesIsAsPredicted) {
  ExpectPredicted(StrCat("model { gpt { layers: 2 hidden: 128 heads: 4 vocab: 257 sequence: 128 } }\n",
                         "train { steps: 3 micro_batch: 1 global_batch: 2 ", kFp8Block, " }\n"));
}

TEST_F(CudaMemoryTest, OfExpertsIsAsPredicted) {
  ExpectPredicted(
      StrCat("model { moe { llama { layers: 2 hidden: 16 heads: 4 kv_heads: 2 ffn: 24 vocab: 257 sequence: 8 } "
             "experts: 4 } }\n",
             "train { steps: 3 micro_batch: 2 global_batch: 8 ", kMixed, "}\nparallel { dp: 2 ep: 2 }\n"));
}

// ---- What the ledgers do not hold ----

// Together, of ranks that share a GPU.
int64_t OutsideLedgers(const std::vector<report::RankRecord>& records) {
  int64_t bytes = 0;
  for (const report::RankRecord& r : records) bytes += r.memory().outside_ledger_bytes();
  return bytes;
}

std::string MlpOfWidth(int64_t width, int ranks) {
  return StrCat("model { mlp { inputs: 64 hidden: [", width,
                "] classes: 8 } }\ntrain { steps: 2 micro_batch: 2 global_batch: 8 }\n", "parallel { dp: ", ranks,
                " }\n", kGpus, kMeasured);
}

// What libraries take once they have been used goes with their kernels, not with tensors: 32 MiB are far less than what
// the tensors differ by.
TEST_F(CudaMemoryTest, OutsideTheLedgersIsTheSameHoweverMuchIsInThem) {
  const auto small = test::RunText(MlpOfWidth(32, 1)), large = test::RunText(MlpOfWidth(1 << 17, 1));
  ASSERT_GT(large[0].memory().reserved_bytes(), small[0].memory().reserved_bytes() + (96 << 20));
  EXPECT_GT(OutsideLedgers(small), 0);
  EXPECT_NEAR(static_cast<double>(OutsideLedgers(large)), static_cast<double>(OutsideLedgers(small)), 32 << 20);
}

TEST_F(CudaMemoryTest, RanksOfAGpuShareWhatIsOutsideTheirLedgers) {
  const auto records = test::RunText(MlpOfWidth(32, 2));
  ASSERT_EQ(records.size(), 2u);
  EXPECT_NEAR(static_cast<double>(records[0].memory().outside_ledger_bytes()),
              static_cast<double>(records[1].memory().outside_ledger_bytes()), 16 << 20);
}

// ---- Models of the size that GPUs are for ----

class WholeModelMemory : public GpuTest, public ::testing::WithParamInterface<Layout> {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
#ifdef TWOFOLD_EMULATED_CUDA
    GTEST_SKIP() << "the emulation of a GPU would take days for a model of this size";
#endif
  }
  void ExpectAllPredicted(std::string_view model, int64_t context) {
    const auto records = ExpectPredicted(StrCat("model { ", std::string(model),
                                                " }\ntrain { steps: 2 micro_batch: 1 global_batch: 8 warmup_steps: 0 ",
                                                GetParam().train, " }\nparallel { ", GetParam().parallel, " }\n"));
    if (records.empty()) return;
    RecordProperty("outside_ledgers_mib", std::to_string(OutsideLedgers(records) >> 20));
    EXPECT_LT(OutsideLedgers(records), context);
  }
};

// Of the GPU's context, of the kernels of this program and of cuBLASLt's and cuDNN's that were used, and of each rank's
// handles.
constexpr int64_t kMostOutside = int64_t{2} << 30;

TEST_P(WholeModelMemory, OfGpt2IsAsPredicted) { ExpectAllPredicted("preset: \"gpt2-124m\"", kMostOutside); }
TEST_P(WholeModelMemory, OfGpt2MediumIsAsPredicted) { ExpectAllPredicted("preset: \"gpt2-350m\"", kMostOutside); }
TEST_P(WholeModelMemory, OfALlamaOf1BIsAsPredicted) {
  ExpectAllPredicted(
      "llama { layers: 16 hidden: 2048 heads: 32 kv_heads: 8 ffn: 8192 vocab: 128256 sequence: 2048 tied_embeddings: "
      "true }",
      kMostOutside);
}

constexpr Layout kWhole[] = {
    {"One", "", kMixed},
    {"Fp8", "", kFp8},
    {"Fp8Block", "", kFp8Block},
    {"Recomputed", "", "precision { parameter: BF16 reduce: F32 } activation_checkpointing {} "},
    {"Ddp", "dp: 2", kMixed},
    {"Zero1", "dp: 2 sharding: ZERO_1", kMixed},
    {"Zero2", "dp: 2 sharding: ZERO_2", kMixed},
    {"Zero3", "dp: 2 sharding: ZERO_3", kMixed},
    {"Zero3Of4", "dp: 4 sharding: ZERO_3", kMixed},
    {"Hybrid", "dp: 4 sharding: HYBRID_SHARD shard_group: 2", kMixed},
    {"OptimizerOffloaded", "dp: 2 sharding: ZERO_1 offload: OFFLOAD_OPTIMIZER", kMixed},
    {"Offloaded", "dp: 2 sharding: ZERO_3 offload: OFFLOAD_ALL", kMixed},
    {"Tp", "tp: 2", kMixed},
    {"TpSequence", "tp: 4 sequence_parallel: true", kMixed},
    {"Pp", "pp: 2", kMixed},
    {"ZeroBubble", "pp: 2 schedule: ZERO_BUBBLE_H1", kMixed},
    {"Cp", "cp: 2", kMixed},
    {"TpPpDpZero1", "tp: 2 pp: 2 dp: 2 sharding: ZERO_1", kMixed}};
INSTANTIATE_TEST_SUITE_P(Layouts, WholeModelMemory, ::testing::ValuesIn(kWhole), kName);

TEST_F(CudaMemoryTest, OfExpertsAsLargeAsGpt2MediumIsAsPredicted) {
#ifdef TWOFOLD_EMULATED_CUDA
  GTEST_SKIP() << "the emulation of a GPU would take days for a model of this size";
#endif
  ExpectPredicted(StrCat(
      "model { moe { llama { layers: 12 hidden: 768 heads: 12 ffn: 1024 vocab: 32000 sequence: 1024 } experts: 8 } }\n",
      "train { steps: 2 micro_batch: 1 global_batch: 4 warmup_steps: 0 ", kMixed, "}\nparallel { dp: 2 ep: 2 }\n"));
}

}  // namespace cuda_memory_test
}  // namespace twofold
