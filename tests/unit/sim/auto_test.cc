// Library ideal on the catalogue's networks and on an imported node: no algorithm that `auto` may take is sooner done
// than what it takes.
#include <algorithm>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "backends/simulated/child.h"
#include "core/base/strings.h"
#include "gtest/gtest.h"
#include "sim/engine.h"
#include "sim/network.h"
#include "topologies/build.h"
#include "topologies/catalogue.h"

namespace twofold::sim {
namespace auto_test {

constexpr double kAutoSizes[] = {8, 65536, 1 << 20, 1 << 28};

// Of each size of `kind` over the first `ranks`, the seconds by that algorithm; infinite where it has no form.
std::vector<double> SecondsBy(const cluster::Cluster& c, int ranks, Communication::Kind kind,
                              const std::string& algorithm) {
  const absl::StatusOr<outcome::Outcome> outcome = RunInChild([&] {
    const int each = *DevicesPerNode(c);
    const auto topology = *BuildTopology(c, (ranks + each - 1) / each);
    Engine engine(*topology, {});
    const auto library = *MakeLibrary({});
    Network network(engine, *library, {.choice = {.algorithm = algorithm}});
    std::vector<int> all(static_cast<size_t>(ranks));
    std::iota(all.begin(), all.end(), 0);
    const int group = network.AddGroups(std::make_shared<const Network::Ranks>(Network::Ranks{all}));
    outcome::Outcome result;
    engine.AddRank(0, [&] {
      double clock = 0;
      for (const double bytes : kAutoSizes) {
        auto done = std::make_shared<TimePoint>();
        network.Collective(group, {kind, ranks, bytes, 0, {}}, clock, [&](const std::vector<double>& finish, double) {
          done->Resolve(*std::max_element(finish.begin(), finish.end()));
        });
        engine.Block(0, done, [] { return std::string("the collective"); });
        result.add_results(absl::StrFormat("%.17g", done->time() - clock));
        clock = done->time();
      }
    });
    if (const absl::Status status = engine.Run(); !status.ok()) result.clear_results();
    return result;
  });
  std::vector<double> seconds(std::size(kAutoSizes), std::numeric_limits<double>::infinity());
  for (int i = 0; outcome.ok() && i < outcome->results_size(); ++i)
    seconds[static_cast<size_t>(i)] = std::stod(outcome->results(i));
  return seconds;
}

cluster::Cluster Imported(int nodes) {
  cluster::Cluster c = *FindCluster("dgx-1v");
  c.mutable_machines()->clear_node();
  c.mutable_machines()->mutable_node()->set_file("tests/data/topologies/dgx-1v.nccl.xml");
  c.mutable_machines()->set_nodes(nodes);
  return c;
}

TEST(AutoTest, NothingThatIdealMayTakeIsSoonerDone) {
  const struct {
    cluster::Cluster cluster;
    int ranks;
  } cases[] = {{Imported(8), 8},
               {Imported(8), 32},
               {*FindCluster("summit"), 12},
               {*FindCluster("frontier"), 16},
               {*FindCluster("perlmutter"), 12},
               {*FindCluster("star-a100"), 16},
               {*FindCluster("hammingmesh-1k"), 24}};
  int held = 0;
  for (const auto& [c, ranks] : cases) {
    for (const Communication::Kind kind :
         {Communication::kAllReduce, Communication::kAllGather, Communication::kBroadcast, Communication::kAllToAll}) {
      const std::vector<double> taken = SecondsBy(c, ranks, kind, "auto");
      for (const Algorithm& algorithm : Algorithms()) {
        if (algorithm.name == "pairwise" || (algorithm.name == "direct" && kind != Communication::kAllToAll)) continue;
        const std::vector<double> forced = SecondsBy(c, ranks, kind, std::string(algorithm.name));
        for (size_t i = 0; i < taken.size(); ++i) {
          held += forced[i] < 1e9;
          EXPECT_LE(taken[i], forced[i] * (1 + 1e-9)) << c.name() << ", " << ranks << " ranks, " << KindName(kind)
                                                      << " of " << kAutoSizes[i] << " B: " << algorithm.name;
        }
      }
    }
  }
  EXPECT_GT(held, 300);
}

}  // namespace auto_test
}  // namespace twofold::sim
