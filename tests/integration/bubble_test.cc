// The bubble of a pipeline in a simulated run, where stages are alike and messages take no time, is its schedule's
// closed form.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "experiments/program/bubble.h"
#include "strategies/from_spec.h"
#include "tests/integration/run_spec.h"

namespace twofold {
namespace bubble_test {

// Wide, so that embedding and head cost next to nothing beside a block: 256 / (12 * 16384) of it.
constexpr char kModel[] = "model { gpt { layers: 16 hidden: 16384 heads: 128 sequence: 64 tied_embeddings: false } }\n";

constexpr std::pair kSteady(1, 3);  // the steps that are traced

struct Job {
  spec::Spec spec;
  std::vector<report::RankRecord> records;
};

Job RunPipeline(int p, int m, std::string_view parallel) {
  Job run;
  run.spec = test::Resolve(StrCat(kModel, "train { steps: 3 global_batch: ", m,
                                  " optimizer { sgd {} } }\nparallel { pp: ", p, " ", parallel,
                                  " }\nfabric { simulated { cluster: \"tests/integration/free_links.textproto\" } }\n",
                                  "trace { last_steps: 2 }\n"));
  const RunResult result = test::RunResolved(run.spec);
  EXPECT_TRUE(result.status.ok()) << result.status.message();
  run.records = test::RecordsOf(run.spec, result);
  return run;
}

double Bubble(int p, int m, std::string_view parallel) {
  const Job run = RunPipeline(p, m, parallel);
  // The traces say the same as what ranks record without them.
  std::vector<report::RankRecord> untraced = run.records;
  for (report::RankRecord& record : untraced) record.clear_spans(), record.clear_samples();
  const double bubble = BubbleFraction(run.spec, run.records, kSteady);
  EXPECT_NEAR(BubbleFraction(run.spec, untraced, kSteady), bubble, 1e-3 * bubble) << parallel;
  return bubble;
}

constexpr double kNear = 1e-3;  // embedding and head

TEST(Bubble, OfGPipeAndOneFOneB) {
  for (const auto& [p, m] : {std::pair(2, 2), std::pair(2, 7), std::pair(4, 4), std::pair(4, 16), std::pair(8, 24)}) {
    const double expected = (p - 1.0) / (m + p - 1);
    EXPECT_NEAR(Bubble(p, m, "schedule: GPIPE"), expected, kNear) << p << " stages, " << m;
    EXPECT_NEAR(Bubble(p, m, "schedule: ONE_F_ONE_B"), expected, kNear) << p << " stages, " << m;
  }
}

TEST(Bubble, OfInterleaved) {
  for (const auto& [p, m, v] :
       {std::tuple(2, 4, 2), std::tuple(2, 8, 4), std::tuple(4, 8, 2), std::tuple(4, 4, 4), std::tuple(8, 8, 2)}) {
    EXPECT_NEAR(Bubble(p, m, StrCat("schedule: INTERLEAVED_ONE_F_ONE_B virtual_stages: ", v)),
                (p - 1.0) / (v * m + p - 1), kNear)
        << p << " stages, " << m << ", " << v << " chunks";
  }
}

// By the times of its own actions: those of a stage in the middle.
TEST(Bubble, OfZeroBubble) {
  for (const auto& [p, m] : {std::pair(2, 4), std::pair(4, 4), std::pair(4, 16), std::pair(8, 24)}) {
    const Job run = RunPipeline(p, m, "schedule: ZERO_BUBBLE_H1");
    std::map<char, double> times;
    for (const report::Span& s : run.records[1].spans()) {
      if (s.stream() == "compute" && !s.label().empty()) times[s.label()[0]] += (s.end() - s.start()) / (2 * m);
    }
    const double f = times['F'], i = times['I'], w = times['W'], idle = (p - 1) * (f + i - w);
    EXPECT_LT(w, i * (1 + 1e-9));
    EXPECT_NEAR(BubbleFraction(run.spec, run.records, kSteady), idle / (m * (f + i + w) + idle), kNear)
        << p << " stages, " << m;
    EXPECT_LT(BubbleFraction(run.spec, run.records, kSteady), 0.5 * (p - 1.0) / (m + p - 1)) << "that of 1F1B";
  }
}

// What a trace's labels say that a rank did is its schedule.
TEST(Labels, AreTheSchedulesActions) {
  const Job run = RunPipeline(4, 8, "schedule: INTERLEAVED_ONE_F_ONE_B virtual_stages: 2");
  for (int stage = 0; stage < 4; ++stage) {
    std::vector<std::string> expected, seen;
    for (int step = 0; step < 2; ++step) {
      for (const pipeline::Action& a :
           pipeline::ActionsOf(pipeline::Schedule::kInterleaved, TrainingOptionsOf(run.spec).pipeline, stage)) {
        expected.push_back(a.ToString());
      }
    }
    for (const report::Span& s : run.records[static_cast<size_t>(stage)].spans()) {
      if (s.stream() != "compute" || s.label().empty()) continue;
      if (seen.empty() || seen.back() != s.label()) seen.push_back(s.label());
    }
    EXPECT_EQ(seen, expected) << "stage " << stage;
  }
}

// Without overlap the host launches nothing while a pass computes, so that a GPU waits for the first launch of each;
// else it has run ahead. 4 micro-batches have 8 passes.
TEST(WithoutOverlap, EveryPassBeginsOnAnIdleGpu) {
  const auto seconds = [](std::string_view overlap) {
    const auto records =
        test::RunText(StrCat("model { gpt { layers: 2 hidden: 1024 heads: 8 sequence: 512 } }\n"
                             "train { steps: 3 warmup_steps: 1 micro_batch: 8 global_batch: 32 }\nparallel { overlap: ",
                             overlap, " }\nfabric { simulated { cluster: \"star-a100\" } }\n"));
    return records.empty() ? 0 : records[0].steps(2).seconds();
  };
  constexpr double kLaunch = 4e-6;  // of star-a100
  EXPECT_GT(seconds("false"), seconds("true") + 7.5 * kLaunch);
}

// A stage sends its last message on before its gradients are summed. Were it not so, the sums of all stages would
// follow one another. Summing and gathering shards takes about as long as an all-reduce.
TEST(SumsInFlight, DoNotHoldUpThePipeline) {
  const auto seconds = [](std::string_view sharding) {
    const auto records =
        test::RunText(StrCat("model { gpt { layers: 8 hidden: 4096 heads: 32 sequence: 64 tied_embeddings: false } }\n"
                             "train { steps: 3 warmup_steps: 1 global_batch: 8 }\nparallel { pp: 4 dp: 2 sharding: ",
                             sharding, " }\nfabric { simulated { cluster: \"star-a100\" } }\n"));
    return records.empty() ? 0 : records[0].steps(2).seconds();
  };
  const double whole = seconds("NO_SHARD"), sharded = seconds("SHARD_OPTIMIZER");
  EXPECT_GT(whole, 0);
  EXPECT_GT(sharded, 0.5 * whole);
  EXPECT_LT(sharded, 1.1 * whole);
}

TEST(Bubble, IsNoneWithoutAPipeline) { EXPECT_EQ(Bubble(1, 4, ""), 0); }

}  // namespace bubble_test
}  // namespace twofold
