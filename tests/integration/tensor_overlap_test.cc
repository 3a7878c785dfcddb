// Which of tensor parallelism's messages a simulated GPU waits for.
//   Korthikanti et al. 2022, table 4, ran with sums of the backward pass beside the gradients of weights: Megatron-LM's
//   LinearWithGradAccumulationAndAsyncAllreduce (megatron/mpu/layers.py at 83b1e42f30)
#include <gtest/gtest.h>

#include <string_view>
#include <utility>

#include "tests/integration/run_spec.h"

namespace twofold {
namespace tensor_overlap_test {

constexpr int kSteps = 4;

struct Times {
  double step, messages;  // seconds: of a step; of its messages, all along tp
};

// Products that take far longer than a sum, on devices that neither differ nor lose anything to what runs beside.
Times TimesOf(std::string_view parallel) {
  const auto records = test::RunText(StrCat(
      "model { gpt { layers: 4 hidden: 8192 heads: 64 vocab: 1024 sequence: 2048 } }\n"
      "train { steps: ",
      kSteps, " global_batch: 2 micro_batch: 2 optimizer { sgd {} } precision { parameter: BF16 } }\nparallel { tp: 8 ",
      parallel, " }\nfabric { simulated { cluster: \"dgx-a100\" noise: OFF contention: OFF } }\n"));
  if (records.empty()) return {};
  Times times{.step = records[0].steps().rbegin()->seconds(), .messages = 0};
  for (const report::Collective& c : records[0].collectives()) times.messages += c.seconds() / kSteps;
  return times;
}

// Two of a layer's four sums are in backward; both are done before the gradients of weights beside them. With split
// rows it is four of ten messages: inputs are gathered again beside a product, too, but what a row-parallel layer
// gathers is waited for. The head's and the loss' are few.
TEST(TensorOverlap, HidesTheSumsOfBackward) {
  for (const auto& [rows, share] : {std::pair("", 2.0 / 4), std::pair("sequence_parallel: true ", 4.0 / 10)}) {
    SCOPED_TRACE(rows);
    const Times in_turn = TimesOf(StrCat(rows, "overlap: false")),
                beside = TimesOf(StrCat(rows, "overlap: false tp_backward_overlap: true"));
    ASSERT_GT(in_turn.messages, 0);
    const double hidden = in_turn.step - beside.step;
    EXPECT_GT(hidden, 0.8 * share * in_turn.messages);
    EXPECT_LT(hidden, share * in_turn.messages) << "those of forward have nothing to hide behind";
  }
}

TEST(TensorOverlap, FollowsOverlapUnlessItIsSet) {
  EXPECT_EQ(TimesOf("overlap: false").step, TimesOf("overlap: false tp_backward_overlap: false").step);
  EXPECT_EQ(TimesOf("").step, TimesOf("tp_backward_overlap: true").step);
  EXPECT_GT(TimesOf("tp_backward_overlap: false").step, 1.01 * TimesOf("").step);
}

}  // namespace tensor_overlap_test
}  // namespace twofold
