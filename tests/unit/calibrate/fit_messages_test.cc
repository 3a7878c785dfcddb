// The fit finds the figures of made-up links from the times of their messages, and writes them where a cluster has
// them.
#include "experiments/program/calibrate/fit_messages.h"

#include "gtest/gtest.h"
#include "topologies/build.h"
#include "topologies/catalogue.h"

namespace twofold::calibrate {
namespace fit_messages_test {

constexpr double kLatency = 340e-6, kRate = 24.5e6, kFree = 7600;

std::vector<MessageTime> Times(double factor) {
  std::vector<MessageTime> times;
  for (double n : {1024.0, 16384.0, 65536.0, 1048576.0})
    times.push_back({n, kLatency + std::max(0.0, n - kFree) * factor / kRate});
  return times;
}

profile::PointToPoint Measured() {
  profile::PointToPoint m;
  m.set_ranks(8), m.set_near_latency_s(kLatency), m.set_far_latency_s(kLatency + 200e-6), m.set_bytes_per_second(kRate);
  m.set_free_bytes(kFree), m.set_acknowledgements(0.02), m.set_gap_s(12e-6), m.set_eager_bytes(65536),
      m.set_switch_seen(true);
  m.set_in_order_bytes(16384);
  return m;
}

TEST(FitMessages, FindsRateAndFreeBytes) {
  const MessageFit fit = FitMessages(kLatency, Times(1));
  EXPECT_NEAR(fit.bytes_per_second, kRate, 1e-6 * kRate);
  EXPECT_NEAR(fit.free_bytes, kFree, 1e-3);
  EXPECT_NEAR(FitAcknowledgements(fit, Times(1.03)), 0.03, 1e-9);
  EXPECT_EQ(FitAcknowledgements(fit, Times(0.99)), 0);
}

TEST(FitMessages, AMessagesOwnCostIsNoNegativeCredit) {
  std::vector<MessageTime> times;
  for (double n : {16384.0, 65536.0, 1048576.0}) times.push_back({n, kLatency + 1e-4 + n / kRate});
  EXPECT_EQ(FitMessages(kLatency, times).free_bytes, 0);
}

TEST(ClusterFrom, AStarAndATreeHaveTheLatenciesAndRatesThatWereMeasured) {
  cluster::Cluster star;
  star.set_name("s"), star.mutable_star()->set_hosts(8);
  const auto written = ClusterFrom(star, Measured());
  ASSERT_TRUE(written.ok()) << written.status();
  EXPECT_NEAR(written->star().latency_us(), 440, 1e-9);
  EXPECT_EQ(written->library().name(), "open_mpi");
  EXPECT_EQ(written->library().open_mpi().eager_bytes(), 65536);

  cluster::Cluster tree;
  tree.set_name("t");
  cluster::Machines& machines = *tree.mutable_machines();
  machines.set_nodes(8);
  machines.mutable_node()->mutable_single(), machines.mutable_node()->set_nics(0);
  machines.mutable_network()->mutable_fat_tree()->set_radix(6),
      machines.mutable_network()->mutable_fat_tree()->set_oversubscription(2);
  const auto calibrated = ClusterFrom(tree, Measured());
  ASSERT_TRUE(calibrated.ok()) << calibrated.status();
  const auto topology = BuildTopology(*calibrated, 8);
  ASSERT_TRUE(topology.ok()) << topology.status();
  EXPECT_NEAR((*topology)->Latency({0, 1}).value(), kLatency, 1e-9);
  EXPECT_NEAR((*topology)->Latency({0, 7}).value(), kLatency + 200e-6, 1e-9);

  cluster::Cluster host;
  host.set_name("h"), host.mutable_shared_memory_host();
  EXPECT_NE(ClusterFrom(host, Measured()).status().message().find("neither a star"), std::string::npos);
}

}  // namespace fit_messages_test
}  // namespace twofold::calibrate
