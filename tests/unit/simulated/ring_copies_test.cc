// Messages of parallel.tp_overlap under a framework that copies them by the GPUs' copy engines.
#include "backends/simulated/ring_copies.h"

#include <array>

#include "sim/collectives/copy_engines.h"
#include "tests/unit/simulated/fixture.h"

namespace twofold {
namespace ring_copies_test {

TEST(RingCopies, AreAmongRanksOfOneTpGroup) {
  RingCopies copies{.mesh = {.pp = 2, .dp = 1, .cp = 1, .tp = 2}};
  EXPECT_TRUE(copies.Among(std::array{2, 3}));
  EXPECT_FALSE(copies.Among(std::array{0, 2})) << "a pipeline's";
  EXPECT_FALSE(copies.Among(std::array{0, 1, 2, 3}));
  copies.mesh.order = {Axis::kTp, Axis::kDp, Axis::kCp, Axis::kPp};
  EXPECT_TRUE(copies.Among(std::array{0, 2}));
  EXPECT_FALSE(copies.Among(std::array{2, 3}));
}

TEST(RingCopies, OnlyWhereTheFrameworkAndTheSpecSaySo) {
  spec::Parallel parallel;
  framework::TpOverlap framework;
  EXPECT_FALSE(RingCopiesOf(parallel, framework, 1).has_value());
  parallel.set_tp(2), parallel.set_tp_overlap(true);
  EXPECT_FALSE(RingCopiesOf(parallel, framework, 1).has_value());
  framework.set_copy_engines(true);
  EXPECT_EQ(RingCopiesOf(parallel, framework, 1)->launch_seconds, 1);
  framework.set_launch_us(3);
  EXPECT_DOUBLE_EQ(RingCopiesOf(parallel, framework, 1)->launch_seconds, 3e-6);
  parallel.set_tp_overlap(false);
  EXPECT_FALSE(RingCopiesOf(parallel, framework, 1).has_value());
}

TEST(RingCopies, TakeNoMultiprocessors) { EXPECT_EQ(sim::CopyByEngine(1e6).multiprocessors, 0); }

struct RingCopiesTest : SimulatedTest {
  // Seconds in which each of the ranks passes so many bytes to the next one.
  double Passing(bool copied, int64_t bytes, const MeshShape& mesh) {
    const std::string profile =
        Write(".textproto", StrCat("name: \"mine\" source: \"a test\" time { communication_launch_us: 50 ",
                                   copied ? "tp_overlap { copy_engines: true launch_us: 20 } }" : "}"));
    spec::Spec spec = WithMesh(Spec(mesh.size(), kFatTree), mesh);
    spec.set_framework(spec::MEGATRON), spec.set_framework_profile(profile);
    spec.mutable_parallel()->set_tp_overlap(true);
    const RunResult result = RunAll(spec, [&](RankContext& ctx) {
      ProcessGroup& world = ctx.world();
      const Tensor out = Floats(ctx, bytes / 4), in = Floats(ctx, bytes / 4);
      const int next = (world.rank() + 1) % world.size(), last = (world.rank() + world.size() - 1) % world.size();
      world.Batch(std::array{P2p{P2p::kSend, out, next, 0}, P2p{P2p::kRecv, in, last, 0}})
          .WaitOn(ctx.device().compute());
      return Finished(ctx);
    });
    EXPECT_TRUE(result.status.ok()) << result.status;
    return std::stod(result.results[0]);
  }
};

// 8 GB/s within a node; the launches differ, too.
TEST_F(RingCopiesTest, TakeTheirShareOfTheLink) {
  const MeshShape mesh{.tp = 4};
  for (const int64_t bytes : {4'000, 80'000'000}) {
    const double more = sim::kCopySeconds + static_cast<double>(bytes) / 8e9 * (1 / sim::kCopyShare - 1);
    EXPECT_NEAR(Passing(true, bytes, mesh) - Passing(false, bytes, mesh), more + 20e-6 - 50e-6, 1e-8) << bytes;
  }
}

TEST_F(RingCopiesTest, MessagesOfOtherGroupsAndBetweenNodesAreTheLibrarys) {
  for (const MeshShape& mesh : {MeshShape{.dp = 4}, MeshShape{.pp = 2, .tp = 2}})
    EXPECT_DOUBLE_EQ(Passing(true, 8'000'000, mesh), Passing(false, 8'000'000, mesh));
  // Two nodes of four: the slowest messages of the ring are those between the nodes, and only their launches differ.
  EXPECT_NEAR(Passing(true, 8'000'000, {.tp = 8}) - Passing(false, 8'000'000, {.tp = 8}), 20e-6 - 50e-6, 1e-8);
}

}  // namespace ring_copies_test
}  // namespace twofold
