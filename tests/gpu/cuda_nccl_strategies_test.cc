// Strategies train over NCCL as they do between threads: same spec, same data, same kernels, the losses of every rank
// side by side.
//
// NCCL sums in the order of its rings, the in-memory fabric in that of ranks: the tolerance is what that does to sums
// of f32 (or, in narrow types, to what is rounded on its way). Each number of ranks is one job, which trains one case
// after another.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>

#include "tests/gpu/against_cpu.h"
#include "tests/gpu/nccl_job.h"
#include "tests/integration/run_spec.h"

namespace twofold {
namespace cuda_nccl_strategies_test {

using test::Losses;
using test::NcclJob;

constexpr int kSteps = 4;
constexpr double kF32 = 1e-5, kBf16 = 2e-2;  // relative, of every step's loss

constexpr char kGpt[] = "model { gpt { layers: 2 hidden: 16 heads: 2 sequence: 8 } }\n";
constexpr char kDeepGpt[] = "model { gpt { layers: 4 hidden: 16 heads: 2 sequence: 8 } }\n";
constexpr char kLlama[] = "model { llama { layers: 2 hidden: 16 heads: 4 kv_heads: 2 ffn: 24 sequence: 8 } }\n";
constexpr char kMoe[] =
    "model { moe { llama { layers: 2 hidden: 16 heads: 4 kv_heads: 2 ffn: 24 sequence: 8 } experts: 4 top_k: 2 "
    "capacity_factor: 2 } }\n";

struct Case {
  const char* name;
  int ranks;
  const char* model;
  const char* parallel;
  const char* train = "";
  double tolerance = kF32;
};

constexpr Case kCases[] = {
    {"Alone", 1, kGpt, ""},
    // Layouts over replicas.
    {"Ddp", 2, kGpt, "dp: 2 bucket_mib: 0.005"},
    {"Zero1", 2, kGpt, "dp: 2 sharding: ZERO_1", "clip_norm: 0.5"},
    {"Zero2", 2, kGpt, "dp: 2 sharding: ZERO_2", "global_batch: 8"},
    {"Zero3", 2, kGpt, "dp: 2 sharding: ZERO_3"},
    {"Zero3Llama", 4, kLlama, "dp: 4 sharding: ZERO_3"},
    {"DdpOfFour", 4, kGpt, "dp: 4"},
    {"HybridShard", 4, kGpt, "dp: 4 sharding: HYBRID_SHARD shard_group: 2"},
    {"Bf16", 2, kGpt, "dp: 2 sharding: ZERO_3", "precision { parameter: BF16 reduce: F32 }", kBf16},
    // Axes inside layers.
    {"Tensor", 2, kGpt, "tp: 2"},
    {"TensorSequence", 2, kLlama, "tp: 2 sequence_parallel: true"},
    {"Context", 2, kGpt, "cp: 2"},
    {"Expert", 2, kMoe, "dp: 2 ep: 2"},
    // Pipelines.
    {"GPipe", 2, kGpt, "pp: 2 schedule: GPIPE", "global_batch: 8"},
    {"OneFOneB", 2, kGpt, "pp: 2", "global_batch: 8"},
    {"Interleaved", 2, kDeepGpt, "pp: 2 schedule: INTERLEAVED_ONE_F_ONE_B virtual_stages: 2", "global_batch: 8"},
    {"ZeroBubble", 2, kLlama, "pp: 2 schedule: ZERO_BUBBLE_H1", "global_batch: 8"},
    {"OneFOneBOfFour", 4, kDeepGpt, "pp: 4", "global_batch: 12"},
    // Hybrids.
    {"TensorData", 4, kLlama, "tp: 2 dp: 2 sharding: ZERO_2"},
    {"PipelineTensor", 4, kGpt, "pp: 2 tp: 2", "global_batch: 4"},
};

std::string Text(const Case& c, const char* fabric, const std::string& train = "") {
  return StrCat(c.model, "train { steps: ", kSteps, " micro_batch: 2 ", c.train, " ", train, " }\nparallel { ",
                c.parallel, " }\n", "fabric { ", fabric, " {} timeout_s: 60 }\ndevice: CUDA\n");
}

// ---- The ranks ----

// Trains SPEC, SPEC, ... in turn; whoever speaks writes, to OUT, a line a spec and rank: its losses.
int TrainAsRank(const std::vector<std::string>& arguments) {
  std::ofstream out;
  for (size_t i = 1; i < arguments.size(); ++i) {
    spec::Spec spec = test::Resolve(NcclJob::Read(arguments[i]));
    auto data = LoadTrainingData(spec, arguments[i]);
    auto fabric = data.ok() ? MakeFabric(spec) : data.status();
    if (!fabric.ok()) return std::fprintf(stderr, "%s\n", std::string(fabric.status().message()).c_str()), 2;
    const RunResult result = (*fabric)->Run(static_cast<int>(WorldSize(spec)), [&](RankContext& ctx) {
      return TrainRank(ctx, TrainingOptionsOf(spec), data->samples());
    });
    if (!result.status.ok()) return std::fprintf(stderr, "%s\n", std::string(result.status.message()).c_str()), 1;
    if (!(*fabric)->speaks()) continue;
    if (!out.is_open()) out.open(arguments[0]);
    out.precision(17);
    for (const report::RankRecord& record : test::RecordsOf(spec, result)) {
      for (const double loss : Losses(record)) out << loss << " ";
      out << "\n";
    }
  }
  return 0;
}

// ---- Those who start them ----

// The losses of each spec by rank.
using LossesOfRanks = std::vector<std::vector<double>>;
std::vector<LossesOfRanks> OverNccl(NcclJob& job, int ranks, const std::vector<std::string>& specs,
                                    const std::function<void(int, test::Variables&)>& change = nullptr) {
  std::vector<std::string> arguments = {job.At("losses")};
  for (size_t i = 0; i < specs.size(); ++i) {
    arguments.push_back(job.At(StrCat("spec", i)));
    std::ofstream(arguments.back()) << specs[i];
  }
  const std::vector<NcclJob::Ended> ended = job.Run(ranks, arguments, 1200, change);
  for (const NcclJob::Ended& rank : ended) {
    EXPECT_EQ(rank.status, 0) << rank.output;
    EXPECT_EQ(rank.output.find("emulated NCCL"), std::string::npos) << rank.output;
  }
  std::ifstream file(job.At("losses"));
  std::vector<LossesOfRanks> all;
  std::string line;
  while (std::getline(file, line)) {
    if (all.empty() || static_cast<int>(all.back().size()) == ranks) all.emplace_back();
    std::istringstream words(line);
    std::vector<double>& losses = all.back().emplace_back();
    for (double loss; words >> loss;) losses.push_back(loss);
  }
  return all;
}

double Largest(const std::vector<double>& got, const std::vector<double>& want) {
  EXPECT_EQ(got.size(), want.size());
  double largest = 0;
  for (size_t i = 0; i < std::min(got.size(), want.size()); ++i)
    largest = std::max(largest, std::abs(got[i] - want[i]) / std::abs(want[i]));
  return largest;
}

class NcclStrategies : public GpuTest, public ::testing::WithParamInterface<int> {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    if (const std::string why = test::WhyNotNccl(GetParam()); !why.empty()) GTEST_SKIP() << why;
  }
};
INSTANTIATE_TEST_SUITE_P(Ranks, NcclStrategies, ::testing::Values(1, 2, 4));

TEST_P(NcclStrategies, HaveTheLossesOfTheInMemoryFabric) {
  std::vector<Case> cases;
  std::vector<std::string> specs;
  for (const Case& c : kCases) {
    if (c.ranks != GetParam()) continue;
    cases.push_back(c);
    specs.push_back(Text(c, "nccl"));
  }
  NcclJob job;
  const std::vector<LossesOfRanks> got = OverNccl(job, GetParam(), specs);
  ASSERT_EQ(got.size(), cases.size());
  for (size_t i = 0; i < cases.size(); ++i) {
    SCOPED_TRACE(cases[i].name);
    const auto want = test::RunText(Text(cases[i], "in_memory"));
    ASSERT_EQ(got[i].size(), want.size());
    double largest = 0;
    for (size_t r = 0; r < want.size(); ++r) largest = std::max(largest, Largest(got[i][r], Losses(want[r])));
    EXPECT_LE(largest, cases[i].tolerance);
    RecordProperty(cases[i].name, StrCat(largest));
    ASSERT_EQ(got[i][0].size(), static_cast<size_t>(kSteps));
    EXPECT_NE(got[i][0].front(), got[i][0].back()) << "nothing was learned";
  }
}

// NCCL 2.28 has an all-to-all of its own; before, it is messages.
using NcclVersions = GpuTest;
TEST_F(NcclVersions, AllToAllGivesTheSameWithAnOlderNccl) {
  if (IsSkipped()) return;
  if (const std::string why = test::WhyNotNccl(2); !why.empty()) GTEST_SKIP() << why;
  const auto* expert =
      std::find_if(std::begin(kCases), std::end(kCases), [](const Case& c) { return c.model == kMoe; });
  std::vector<LossesOfRanks> got;
  for (const char* version : {"22809", "22706"}) {  // of the emulated one; a real one is what it is
    NcclJob job;
    got.push_back(OverNccl(job, expert->ranks, {Text(*expert, "nccl")}, [&](int, test::Variables& v) {
                    v["TWOFOLD_EMULATED_NCCL_VERSION"] = version;
                  }).at(0));
  }
  EXPECT_EQ(got[0], got[1]);
  EXPECT_EQ(got[0].size(), static_cast<size_t>(expert->ranks));
}

// A checkpoint knows nothing of the fabric that wrote it.
TEST_P(NcclStrategies, CheckpointsMoveBetweenFabrics) {
  constexpr int kStop = kSteps / 2;
  const std::string parallel = StrCat("dp: ", GetParam(), " sharding: ZERO_3");
  const Case c = {"", GetParam(), kGpt, parallel.c_str()};
  const std::vector<double> stayed = Losses(test::RunText(Text(c, "in_memory"))[0]);
  NcclJob job;
  const auto saving = [&](const char* fabric) {
    return Text(c, fabric,
                StrCat("checkpoint { path: \"", job.At(fabric), "\" every_steps: ", kStop, " keep_last: 0 }"));
  };
  const auto resuming = [&](const char* from, const char* fabric) {
    return Text(c, fabric, StrCat("resume: \"", job.At(from), "/000001-step-", kStop, "\""));
  };
  test::RunText(saving("in_memory"));
  const std::vector<LossesOfRanks> got = OverNccl(job, GetParam(), {saving("nccl"), resuming("in_memory", "nccl")});
  ASSERT_EQ(got.size(), 2u);
  const std::vector<double> second_half(stayed.begin() + kStop, stayed.end());
  EXPECT_LE(Largest(got[0][0], stayed), kF32);
  EXPECT_LE(Largest(got[1][0], second_half), kF32) << "from threads to NCCL";
  const auto resumed = test::RunText(resuming("nccl", "in_memory"));
  ASSERT_FALSE(resumed.empty());
  EXPECT_LE(Largest(Losses(resumed[0]), second_half), kF32) << "from NCCL to threads";
}

}  // namespace cuda_nccl_strategies_test
}  // namespace twofold

int main(int argc, char** argv) {
  if (const auto arguments = twofold::test::AsRank(argc, argv))
    return twofold::cuda_nccl_strategies_test::TrainAsRank(*arguments);
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
