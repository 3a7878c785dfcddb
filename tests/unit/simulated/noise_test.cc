// Waiting for the slowest of many devices: closed forms, folded and unfolded.
#include "backends/simulated/fabric.h"
#include "sim/spread.h"
#include "tests/unit/simulated/fixture.h"

namespace twofold {
namespace noise_test {

constexpr double kSpread = 0.02;
const std::string& Uneven() {
  static const std::string cluster = [] {
    std::string text = kPlain;
    return text.replace(text.find("matmul_efficiency"), 0, "speed_spread: 0.02 ");
  }();
  return cluster;
}

// A product of one second.
void Multiply(RankContext& ctx, double seconds = 1) {
  const auto k = static_cast<int64_t>(seconds * 1e9 / (2 * 1000 * 1000));
  const auto matrix = [&](int64_t rows, int64_t columns) {
    return ctx.device().NewTensor(Shape{rows, columns}, DType::kF32, Category::kActivations);
  };
  const ops::MatMul product{matrix(1000, k), matrix(k, 1000), matrix(1000, 1000), Tensor()};
  ctx.device().Launch(ctx.device().compute(), product);
}

Work Meet(RankContext& ctx, ProcessGroup& group, int64_t elements = 10) {
  Tensor t = Floats(ctx, elements);
  return group.AllReduce(t);
}

class NoiseTest : public SimulatedTest {
 protected:
  double Seconds(const spec::Spec& spec, const RankFunction& fn) {
    const RunResult result = RunAll(spec, fn);
    EXPECT_TRUE(result.status.ok()) << result.status;
    return std::stod(result.results[0]);
  }
  // How much longer than with equal devices.
  double Longer(spec::Spec spec, const RankFunction& fn) {
    const double with = Seconds(spec, fn);
    spec.mutable_fabric()->mutable_simulated()->set_noise(spec::Simulated::Noise::OFF);
    return with - Seconds(spec, fn);
  }
};

TEST_F(NoiseTest, AllWaitForTheSlowestOfThem) {
  for (const int ranks : {2, 8, 64}) {
    const auto step = [](RankContext& ctx) {
      Multiply(ctx);
      Meet(ctx, ctx.world(), 1000).WaitOn(ctx.device().compute());
      return Finished(ctx);
    };
    EXPECT_NEAR(Longer(Spec(ranks, Uneven()), step), kSpread * sim::MaximumOf(ranks).mean, 1e-8) << ranks;
  }
  EXPECT_EQ(Longer(Spec(1, Uneven()), [](RankContext& ctx) { return Multiply(ctx), Finished(ctx); }), 0);
}

// Each communication has 0.1 s to hide behind a product, which is more than the slowest is late in a step, and less
// than in three: the average rank waits from then on, each time for as much as the slowest has fallen behind further.
TEST_F(NoiseTest, TheSlowestCountsOnceHoweverOftenRanksMeet) {
  const auto steps = [](RankContext& ctx) {
    for (int i = 0; i < 10; ++i) {
      Multiply(ctx, 0.9);
      Work work = Meet(ctx, ctx.world(), 10);
      Multiply(ctx, 0.1);
      work.WaitOn(ctx.device().compute());
    }
    Meet(ctx, ctx.world(), 1000).WaitOn(ctx.device().compute());
    return Finished(ctx);
  };
  EXPECT_NEAR(Longer(Spec(64, Uneven()), steps), 10 * kSpread * sim::MaximumOf(64).mean, 1e-7);
}

// Groups of tp meet first, then the slowest of each in dp: the slowest of the slowest.
TEST_F(NoiseTest, GroupsOfGroups) {
  spec::Spec spec = WithMesh(Spec(1, Uneven()), {.pp = 1, .dp = 8, .cp = 1, .tp = 4, .ep = 1});
  const auto [mean4, deviation4] = sim::MaximumOf(4);
  const auto [mean8, deviation8] = sim::MaximumOf(8);
  const auto with_groups = [](RankContext& ctx) {
    DeviceMesh mesh(ctx.world(), {.pp = 1, .dp = 8, .cp = 1, .tp = 4, .ep = 1});
    Multiply(ctx);
    Meet(ctx, mesh.Group(MeshGroup::kTp)).WaitOn(ctx.device().compute());
    Multiply(ctx);
    Meet(ctx, mesh.Group(MeshGroup::kTp)).WaitOn(ctx.device().compute());
    Meet(ctx, mesh.Group(MeshGroup::kDp)).WaitOn(ctx.device().compute());
    return Finished(ctx);
  };
  EXPECT_NEAR(Longer(spec, with_groups), 2 * kSpread * (mean4 + deviation4 * mean8), 1e-7);
}

TEST_F(NoiseTest, FoldedRanksWaitAsLong) {
  const auto steps = [](RankContext& ctx) {
    for (int i = 0; i < 3; ++i) {
      Multiply(ctx, 0.5);
      Work work = Meet(ctx, ctx.world(), 100000);
      Multiply(ctx, 0.25);
      work.WaitOn(ctx.device().compute());
    }
    return Finished(ctx);
  };
  spec::Spec spec = Spec(32, Uneven());
  const double every = Seconds(spec, steps);
  spec.mutable_fabric()->mutable_simulated()->set_folding(spec::Simulated::ON);
  EXPECT_NEAR(Seconds(spec, steps), every, 1e-9 * every);
}

TEST_F(NoiseTest, RefusesImpossibleSpreads) {
  std::string text = kPlain;
  text.replace(text.find("matmul_efficiency"), 0, "speed_spread: 0.6 ");
  const absl::Status status = MakeSimulatedFabric(Spec(2, text)).status();
  EXPECT_NE(std::string(status.message()).find("device.speed_spread: 0.6: must be at least 0 and below 0.5"),
            std::string::npos)
      << status;
}

}  // namespace noise_test
}  // namespace twofold
