// Copies of one schedule that share no links end as if each were listed, though only one is.
#include "sim/twins.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "backends/simulated/child.h"
#include "gtest/gtest.h"
#include "sim/engine.h"
#include "topologies/networks/fat_tree.h"

namespace twofold::sim {
namespace twins_test {

Schedule Uneven(int ranks) {
  Phase phase;
  for (int i = 0; i < ranks; ++i)
    for (int j = 0; j < ranks; ++j)
      if (i != j) phase.flows.push_back({i, j, 1e6 * (1 + (3 * i + j) % 5)});
  return {.phases = {phase, phase}, .last_phase = std::vector<int>(static_cast<size_t>(ranks), 1)};
}

struct Charted {
  std::string ends;
  int64_t compared;  // lists of endpoints
};
// Copies of an uneven schedule among consecutive endpoints, while another flow crosses one of them.
Charted Chart(const Topology& topology, int copies, size_t twins_from, bool other) {
  const absl::StatusOr<outcome::Outcome> outcome = RunInChild([&] {
    Engine engine(topology, {.routing = {}, .solve_flows = true, .twins_from = twins_from});
    const auto schedule = std::make_shared<Schedule>(Uneven(4));
    std::vector<std::vector<int>> endpoints;
    for (int c = 0; c < copies; ++c) endpoints.push_back({4 * c, 4 * c + 1, 4 * c + 2, 4 * c + 3});
    std::vector<Engine::Copy> all;
    for (const std::vector<int>& e : endpoints) all.push_back({schedule, e});
    outcome::Outcome result;
    result.add_results(), result.add_results();
    engine.Run(engine.Chart(all), 0, [&](const std::vector<double>& finish, double) {
      for (const double end : finish) result.mutable_results(0)->append(absl::StrFormat("%.12g ", end));
    });
    const auto single =
        std::make_shared<Schedule>(Schedule{.phases = {{.rounds = 1, .flows = {{0, 1, 5e6}}}}, .last_phase = {0, 0}});
    if (other)
      engine.Transfer(single, {5, 6}, 1e-3, [&](const std::vector<double>& finish) {
        result.set_results(1, absl::StrFormat("%.12g", finish[0]));
      });
    const absl::Status status = engine.Run();
    result.set_message(std::string(status.message()));
    result.set_code(static_cast<int>(engine.twins()));
    return result;
  });
  EXPECT_TRUE(outcome.ok() && outcome->message().empty()) << outcome.status();
  if (!outcome.ok()) return {"", 0};
  return {outcome->results(0) + outcome->results(1), outcome->code()};
}

TEST(TwinsOfTheEngine, EndAsCopiesListedOneByOneDo) {
  const auto tree = MakeFatTree({.ports = 24,
                                 .radix = 8,  // leaves of 4: what copies send stays there
                                 .wiring = {.bandwidth = BytesPerSecond(1e9), .cable = Seconds(1e-6)}});
  for (const bool other : {false, true}) {
    const Charted one = Chart(*tree, 6, 0, other), each = Chart(*tree, 6, 1 << 20, other);
    EXPECT_EQ(one.ends, each.ends) << other;
    EXPECT_FALSE(one.ends.empty());
    EXPECT_EQ(one.compared, 1);
    EXPECT_EQ(each.compared, 0);
  }
}

TEST(TwinsOfTheEngine, CopiesThatShareLinksAreNone) {
  const auto tree = MakeFatTree({.ports = 24,
                                 .radix = 12,  // leaves of 6: copies share the ways up
                                 .wiring = {.bandwidth = BytesPerSecond(1e9), .cable = Seconds(1e-6)}});
  EXPECT_EQ(Chart(*tree, 6, 0, false).ends, Chart(*tree, 6, 1 << 20, false).ends);
  Router router(*tree, {});
  const auto covers = [&](std::vector<std::vector<int>> endpoints) {
    return Twins(*tree, router, std::move(endpoints), 0).Cover(Uneven(4));
  };
  EXPECT_TRUE(covers({{0, 1, 2, 3}, {6, 7, 8, 9}, {12, 13, 14, 15}}));
  EXPECT_FALSE(covers({{0, 1, 2, 3}, {3, 6, 7, 8}})) << "of another shape";
  EXPECT_FALSE(covers({{0, 1, 2, 3}, {3, 4, 5, 2}})) << "with links in common";
}

}  // namespace twins_test
}  // namespace twofold::sim
