// Which of tensor parallelism's messages a simulated GPU waits for.
//   Korthikanti et al. 2022, table 4, ran with sums of the backward pass beside the gradients of weights: Megatron-LM's
//   LinearWithGradAccumulationAndAsyncAllreduce (megatron/mpu/layers.py at 83b1e42f30)
#include <gtest/gtest.h>

#include <string_view>

#include "tests/integration/run_spec.h"

namespace twofold {
namespace tensor_overlap_test {

struct Times {
  double step, exposed;  // seconds: of a step; of it, idle for sums and gathers along tp
};

// Products that take far longer than a sum, on devices that neither differ nor lose anything to what runs beside.
Times Run(std::string_view parallel) {
  const auto records = test::RunText(
      StrCat("model { gpt { layers: 4 hidden: 8192 heads: 64 vocab: 1024 sequence: 2048 } }\n"
             "train { steps: 4 global_batch: 2 micro_batch: 2 optimizer { sgd {} } precision { parameter: BF16 } }\n"
             "parallel { tp: 8 ",
             parallel,
             " }\nfabric { simulated { cluster: \"dgx-a100\" noise: OFF contention: OFF } }\n"
             "trace { last_steps: 2 }\n"));
  if (records.empty()) return {};
  Times times{.step = records[0].steps().rbegin()->seconds(), .exposed = 0};
  for (const report::Collective& c : records[0].collectives()) {
    if (c.group() == "tp" && c.operation() != "broadcast") times.exposed += c.exposed_seconds();
  }
  return times;
}

// Of a layer's four sums, two are in backward; both are done before the gradients of weights beside them.
TEST(TensorOverlap, HidesTheSumsOfBackward) {
  for (const std::string_view rows : {"", "sequence_parallel: true "}) {
    SCOPED_TRACE(rows);
    const Times in_turn = Run(StrCat(rows, "overlap: false")),
                beside = Run(StrCat(rows, "overlap: false tp_backward_overlap: true"));
    ASSERT_GT(in_turn.exposed, 0);
    const double hidden = in_turn.exposed - beside.exposed;
    EXPECT_NEAR(in_turn.step - beside.step, hidden, 0.02 * hidden);
    EXPECT_GT(hidden, 0.35 * in_turn.exposed);
    EXPECT_LT(hidden, 0.65 * in_turn.exposed) << "those of forward have nothing to hide behind";
  }
}

TEST(TensorOverlap, FollowsOverlapUnlessItIsSet) {
  EXPECT_EQ(Run("overlap: false").step, Run("overlap: false tp_backward_overlap: false").step);
  EXPECT_EQ(Run("").step, Run("tp_backward_overlap: true").step);
  EXPECT_GT(Run("tp_backward_overlap: false").step, 1.01 * Run("").step);
}

}  // namespace tensor_overlap_test
}  // namespace twofold
