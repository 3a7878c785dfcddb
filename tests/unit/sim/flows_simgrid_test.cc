// Flows that come and go, solved bundle by bundle, end when SimGrid says that they do.
#include <algorithm>
#include <cstddef>
#include <memory>
#include <random>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "tests/seed.h"
#include "tests/unit/sim/flows.h"
#include "topologies/networks/fat_tree.h"
#include "topologies/networks/star.h"

namespace twofold::sim {
namespace flows_simgrid_test {

// Schedules of several phases and flows, at random times among random endpoints, by both.
TEST(FlowsOfTheEngine, EndWhenSimGridsDo) {
  const auto star = MakeStar({.hosts = 12, .bandwidth = BytesPerSecond(1e9), .latency = Seconds(1e-3)});
  const auto tree = MakeFatTree({.ports = 24,
                                 .radix = 12,
                                 .oversubscription = 2,
                                 .wiring = {.bandwidth = BytesPerSecond(1e9), .cable = Seconds(1e-3)}});
  std::mt19937 random(TestSeed());
  std::uniform_real_distribution<double> uniform(0, 1);
  for (const Topology* topology :
       {static_cast<const Topology*>(star.get()), static_cast<const Topology*>(tree.get())}) {
    for (int round = 0; round < 6; ++round) {
      std::vector<TestTransfer> transfers;
      for (int t = 0; t < 24; ++t) {
        TestTransfer transfer{.schedule = {.phases = {}, .last_phase = {}, .algorithm = "", .protocol = ""},
                              .endpoints = {},
                              .start = uniform(random) * 3};
        std::vector<int> all(static_cast<size_t>(topology->endpoints()));
        for (size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int>(i);
        std::shuffle(all.begin(), all.end(), random);
        const int ranks = 2 + static_cast<int>(random() % 4);
        transfer.endpoints.assign(all.begin(), all.begin() + ranks);
        const int phases = 1 + static_cast<int>(random() % 3);
        for (int p = 0; p < phases; ++p) {
          Phase& phase = transfer.schedule.phases.emplace_back();
          for (int r = 0; r < ranks; ++r) {
            phase.flows.push_back({.from = r,
                                   .to = (r + 1) % ranks,
                                   .bytes = 1e8 + uniform(random) * 1e9,
                                   .rate = r % 2 == 0 ? Fluid::kNoLimit : 0.4e9 + uniform(random) * 1e9});
          }
        }
        transfer.schedule.last_phase.assign(static_cast<size_t>(ranks), phases - 1);
        transfers.push_back(std::move(transfer));
      }
      const std::vector<double> solved = Simulated(*topology, {}, transfers, true),
                                simulated = Simulated(*topology, {}, transfers);
      ASSERT_EQ(solved.size(), simulated.size());
      for (size_t i = 0; i < solved.size(); ++i)
        EXPECT_NEAR(solved[i], simulated[i], 1e-9 * simulated[i]) << topology->kind() << " " << round << " " << i;
    }
  }
}

}  // namespace flows_simgrid_test
}  // namespace twofold::sim
