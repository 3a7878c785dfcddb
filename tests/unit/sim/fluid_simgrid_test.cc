// What is computed for flows that are alone on the network is what SimGrid's flow model gives them.
#include <cstdio>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "backends/simulated/child.h"
#include "gtest/gtest.h"
#include "sim/engine.h"
#include "sim/sharing/fluid.h"
#include "tests/seed.h"

namespace twofold::sim {
namespace fluid_simgrid_test {

// Links of random bandwidth; the route between two endpoints is any of them.
class AnyLinks : public Topology {
 public:
  AnyLinks(int endpoints, int links, std::mt19937& random) : endpoints_(endpoints) {
    std::uniform_real_distribution<double> bandwidth(1e9, 50e9);
    for (int l = 0; l < links; ++l)
      links_.push_back({"l" + std::to_string(l), BytesPerSecond(l % 3 == 0 ? 25e9 : bandwidth(random))});
    for (int pair = 0; pair < endpoints * endpoints; ++pair) {
      std::set<int> route;
      for (int hops = 1 + static_cast<int>(random() % 4); hops > 0; --hops)
        route.insert(static_cast<int>(random() % static_cast<unsigned>(links)));
      routes_.emplace_back(route.begin(), route.end());
    }
  }
  std::string_view kind() const override { return "any_links"; }
  int endpoints() const override { return endpoints_; }
  const std::vector<Vertex>& vertices() const override { return vertices_; }
  const std::vector<Link>& links() const override { return links_; }
  void Route(Pair pair, int64_t, std::vector<int>& route) const override {
    route = routes_[static_cast<size_t>(pair.from * endpoints_ + pair.to)];
  }

 private:
  const int endpoints_;
  std::vector<Vertex> vertices_;
  std::vector<Link> links_;
  std::vector<std::vector<int>> routes_;
};

struct Given {
  int from, to;
  double bytes, rate;
};

std::vector<double> OfSimGrid(const Topology& topology, const std::vector<Given>& flows) {
  absl::StatusOr<outcome::Outcome> outcome = RunInChild([&] {
    Engine engine(topology, {});
    outcome::Outcome result;
    for (size_t i = 0; i < flows.size(); ++i) result.add_results();
    for (size_t i = 0; i < flows.size(); ++i) {
      auto schedule = std::make_shared<Schedule>();
      const Given& f = flows[i];
      schedule->phases.push_back({.rounds = 1, .flows = {{.from = 0, .to = 1, .bytes = f.bytes, .rate = f.rate}}});
      schedule->last_phase = {0, 0};
      engine.Transfer(schedule, {f.from, f.to}, 0, [&result, i](const std::vector<double>& finish) {
        result.set_results(static_cast<int>(i), absl::StrFormat("%.17g", finish[0]));
      });
    }
    const absl::Status status = engine.Run();
    if (!status.ok()) result.set_message(std::string(status.message()));
    return result;
  });
  EXPECT_TRUE(outcome.ok() && outcome->message().empty()) << outcome.status();
  std::vector<double> ends;
  if (outcome.ok())
    for (const std::string& r : outcome->results()) ends.push_back(std::stod(r));
  return ends;
}

TEST(FluidTest, IsSimGridsAnswer) {
  std::mt19937 random(TestSeed());
  int compared = 0;
  for (int trial = 0; trial < 40; ++trial) {
    const int endpoints = 4 + trial % 13, links = 3 + trial;
    const AnyLinks topology(endpoints, links, random);
    Fluid fluid(topology);
    std::vector<Given> flows;
    const int count = 1 + trial * 3;
    for (int i = 0; i < count; ++i) {
      const int from = static_cast<int>(random() % static_cast<unsigned>(endpoints));
      const int to = (from + 1 + static_cast<int>(random() % static_cast<unsigned>(endpoints - 1))) % endpoints;
      const double bytes = trial % 2 == 0 ? 1e6 : std::uniform_real_distribution<double>(1e3, 1e8)(random);
      const double rate =
          random() % 4 == 0 ? std::uniform_real_distribution<double>(0.2e9, 20e9)(random) : Fluid::kNoLimit;
      flows.push_back({from, to, bytes, rate});
      std::vector<int> route;
      topology.Route({from, to}, 0, route);
      fluid.Add(route, bytes, rate);
    }
    const std::vector<double> expected = OfSimGrid(topology, flows), ends = fluid.Solve();
    ASSERT_EQ(expected.size(), ends.size());
    for (size_t i = 0; i < ends.size(); ++i) {
      EXPECT_NEAR(ends[i], expected[i], 1e-9 * expected[i]) << "trial " << trial << " flow " << i << " of " << count;
      ++compared;
    }
  }
  std::printf("%d ends of flows equal SimGrid's to 1e-9\n", compared);
}

}  // namespace fluid_simgrid_test
}  // namespace twofold::sim
