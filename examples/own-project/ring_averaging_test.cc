#include "ring_averaging.h"

#include <gtest/gtest.h>

#include <vector>

#include "backends/registry.h"
#include "core/data/synthetic_dataset.h"

namespace {

constexpr int kRanks = 4;

std::vector<RankOutcome> Outcomes(bool simulated, const RingAveraging& options) {
  const auto data = twofold::MakeSyntheticDataset({.samples = 4096, .inputs = 16, .classes = 4});
  twofold::spec::Spec spec;
  spec.mutable_parallel()->set_dp(kRanks);
  if (simulated)  // with arithmetic, so that losses can be compared
    spec.mutable_fabric()->mutable_simulated()->set_data(twofold::spec::Simulated::REAL);
  else
    spec.mutable_fabric()->mutable_in_memory();
  const auto fabric = twofold::MakeFabric(spec);
  EXPECT_TRUE(fabric.ok()) << fabric.status();
  if (!fabric.ok()) return {};
  const twofold::RunResult result =
      (*fabric)->Run(kRanks, [&](twofold::RankContext& ctx) { return TrainOnRing(ctx, **data, options); });
  EXPECT_TRUE(result.status.ok()) << result.status;
  std::vector<RankOutcome> outcomes;
  for (int rank = 0; result.status.ok() && rank < kRanks; ++rank) outcomes.push_back(OutcomeOf(result.results[rank]));
  return outcomes;
}

TEST(RingAveraging, LearnsWhileRanksStayTogether) {
  const std::vector<RankOutcome> outcomes = Outcomes(false, {.steps = 200});
  ASSERT_EQ(outcomes.size(), size_t{kRanks});
  for (const RankOutcome& outcome : outcomes) {
    EXPECT_LT(outcome.last_loss, 0.5 * outcome.first_loss);
    EXPECT_GT(outcome.distance, 0) << "ranks train on samples of their own";
    EXPECT_LT(outcome.distance, 0.05) << "neighbours' parameters were not averaged";
  }
}

TEST(RingAveraging, LosesTheSameOnTheSimulatedFabric) {
  const std::vector<RankOutcome> measured = Outcomes(false, {.steps = 20}), predicted = Outcomes(true, {.steps = 20});
  ASSERT_EQ(measured.size(), predicted.size());
  for (size_t rank = 0; rank < measured.size(); ++rank) {
    EXPECT_EQ(measured[rank].last_loss, predicted[rank].last_loss);
    EXPECT_EQ(measured[rank].distance, predicted[rank].distance);
  }
}

}  // namespace
