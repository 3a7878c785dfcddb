// What simulated ranks write as execution traces, read again and run on the same network, takes the same time.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "backends/simulated/workload_run.h"
#include "experiments/program/report/chakra_files.h"
#include "experiments/program/report/files.h"
#include "experiments/program/workload/chakra.h"
#include "experiments/program/workload/steps.h"
#include "tests/integration/run_spec.h"
#include "tests/scratch_folder.h"

namespace twofold {
namespace execution_traces_test {

using test::Resolve;
using test::RunResolved;

constexpr char kGpt[] = "gpt { layers: 4 hidden: 256 heads: 4 vocab: 512 sequence: 64 }";
constexpr char kLlama[] = "llama { layers: 4 hidden: 256 heads: 8 kv_heads: 4 ffn: 512 vocab: 512 sequence: 64 }";
constexpr char kMoe[] = "moe { llama { layers: 4 hidden: 256 heads: 4 vocab: 512 sequence: 64 } experts: 8 top_k: 2 }";
constexpr char kIdeal[] = "star-h100", kNccl[] = "dgx-h100";

struct Job {
  const char *name, *model, *parallel, *train, *cluster;
};
void PrintTo(const Job& job, std::ostream* out) { *out << job.name; }
constexpr Job kJobs[] = {
    {"Ddp", kGpt, "dp: 8", "", kIdeal},
    {"Zero1", kGpt, "dp: 8 sharding: ZERO_1", "clip_norm: 1", kIdeal},
    {"Zero3", kGpt, "dp: 8 sharding: FULL_SHARD", "", kIdeal},
    {"Hybrid", kGpt, "dp: 8 sharding: HYBRID_SHARD shard_group: 4", "", kIdeal},
    {"OffloadAll", kGpt, "dp: 4 sharding: FULL_SHARD offload: OFFLOAD_ALL", "", kIdeal},
    {"Tp2", kLlama, "tp: 2 dp: 4 sequence_parallel: true", "", kIdeal},
    {"Pp4", kLlama, "pp: 4 dp: 2 sharding: ZERO_1", "", kIdeal},
    {"ZeroBubble", kLlama, "pp: 4 dp: 2 schedule: ZERO_BUBBLE_H1", "clip_norm: 1", kIdeal},
    {"Interleaved", kLlama, "tp: 2 pp: 2 dp: 2 schedule: INTERLEAVED_ONE_F_ONE_B virtual_stages: 2", "", kIdeal},
    {"Cp4", kLlama, "cp: 4 dp: 2", "", kIdeal},
    {"Experts", kMoe, "ep: 4 dp: 8 sharding: ZERO_1", "", kIdeal},
    {"Recompute", kLlama, "tp: 2 pp: 2 dp: 2", "activation_checkpointing { every: 1 }", kIdeal},
    {"OnNccl", kLlama, "tp: 2 pp: 2 dp: 4 sharding: ZERO_1", "", kNccl},
    {"Compressed", kGpt, "dp: 4 compression { quantize { bits: 8 } }", "", kIdeal},
};

class Replayed : public ::testing::TestWithParam<Job> {};

TEST_P(Replayed, TakesTheSameTime) {
  const Job& job = GetParam();
  spec::Spec spec = Resolve(
      StrCat("model { ", job.model, " }\ntrain { steps: 3 warmup_steps: 0 micro_batch: 1 global_batch: 16 ", job.train,
             " }\nparallel { ", job.parallel, " }\ntrace { execution_graph: true }\nfabric { simulated { cluster: \"",
             job.cluster, "\" folding: OFF noise: OFF } }\n"));
  const RunResult result = RunResolved(spec);
  ASSERT_TRUE(result.status.ok()) << result.status;
  const auto records = ReadRecords(spec, result);
  ASSERT_TRUE(records.ok()) << records.status();
  const std::string folder = test::ScratchFolder("chakra");
  ASSERT_TRUE(WriteFiles(folder, ChakraFiles(*records, "job")).ok());
  const auto traces = ReadChakraFolder(folder);
  ASSERT_TRUE(traces.ok()) << traces.status();
  EXPECT_TRUE(traces->notes.empty()) << traces->notes[0];
  const auto run = RunWorkload(spec, traces->workload);
  ASSERT_TRUE(run.ok()) << run.status();
  for (size_t r = 0; r < records->size(); ++r) {
    std::vector<double> ends;
    for (const WorkloadRun::Times& t : run->of[r]) ends.push_back(t.end);
    const auto steps = StepSpans(traces->workload.ranks[r], ends);
    const report::RankRecord& ran = (*records)[r].record;
    ASSERT_EQ(std::ssize(steps), ran.steps_size());
    for (int s = 0; s < ran.steps_size(); ++s) {
      const auto [from, to] = steps[static_cast<size_t>(s)];
      EXPECT_NEAR(to - from, ran.steps(s).seconds(), 1e-6 * ran.steps(s).seconds()) << "rank " << r << ", step " << s;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(, Replayed, ::testing::ValuesIn(kJobs), [](const auto& job) { return job.param.name; });

// Two ranks that communicate in different orders: the error names both sides.
TEST(Replay, RanksThatDisagreeAreNamed) {
  Workload workload{.groups = {{"world", {0, 1}}}, .ranks = {{}, {}}};
  const auto collective = [&](int rank, Communication::Kind kind) {
    WorkloadNode node{.kind = WorkloadNode::kCollective, .name = "c"};
    node.group = 0, node.operation = kind, node.bytes = 64;
    auto& nodes = workload.ranks[static_cast<size_t>(rank)];
    if (!nodes.empty()) node.after = {static_cast<int>(nodes.size()) - 1};
    nodes.push_back(node);
  };
  spec::Spec spec = Resolve(
      "model { mlp { inputs: 1 hidden: 1 classes: 2 } }\nparallel { dp: 2 }\n"
      "fabric { simulated { cluster: \"star-h100\" folding: OFF } }\n");
  collective(0, Communication::kAllReduce), collective(1, Communication::kAllGather);
  EXPECT_THAT(std::string(RunWorkload(spec, workload).status().message()), ::testing::HasSubstr("all_gather"));
  workload.ranks = {{}, {}};
  collective(0, Communication::kAllReduce);
  const absl::Status alone = RunWorkload(spec, workload).status();
  EXPECT_FALSE(alone.ok()) << "rank 1 never comes";
  EXPECT_THAT(std::string(alone.message()), ::testing::HasSubstr("missing: rank 1"));
}

}  // namespace execution_traces_test
}  // namespace twofold
