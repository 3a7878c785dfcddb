#include "topologies/networks/fat_tree.h"

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "core/base/strings.h"

#include "gtest/gtest.h"
#include "tests/unit/topologies/route_checks.h"

namespace twofold {
namespace fat_tree_test {

TEST(FatTreeTest, RoutesAreShortestPaths) {
  ExpectGoodRoutes(*MakeFatTree({.ports = 8, .radix = 4}), 100);
  ExpectGoodRoutes(*MakeFatTree({.ports = 7, .radix = 4}), 100);
  ExpectGoodRoutes(*MakeFatTree({.ports = 100, .radix = 20, .oversubscription = 4}), 200);
  ExpectGoodRoutes(*MakeFatTree({.ports = 128, .levels = 3, .radix = 8}), 300);
  ExpectGoodRoutes(*MakeFatTree({.ports = 50, .levels = 3, .radix = 8}), 300);
  ExpectGoodRoutes(
      *MakeFatTree({.ports = 300, .levels = 3, .radix = 12, .oversubscription = 2, .top_oversubscription = 3}), 300);
  ExpectGoodRoutes(*MakeFatTree({.ports = 32, .radix = 8, .rails = 4}), 300);
  ExpectGoodRoutes(*MakeFatTree({.ports = 256, .levels = 3, .radix = 16, .rails = 3}), 300);
}

// Traffic k goes from rail senders[k] to rail receivers[k], between any two nodes. Whether its links outside of nodes
// are those of k = 0 by a one-to-one map, with equal rates, and whether no link is of two k.
bool AreTwins(const Topology& tree, int rails, const std::vector<int>& senders, const std::vector<int>& receivers) {
  const int nodes = tree.endpoints() / rails;
  std::map<int, size_t> used_by;             // by link: k
  std::map<std::pair<size_t, int>, int> to;  // k, link of k = 0: link of k
  std::map<int, int> back;                   // by link of k: link of k = 0
  std::vector<int> first, own;
  for (int a = 0; a < nodes; ++a) {
    for (int b = 0; b < nodes; ++b) {
      for (size_t k = 0; a != b && k < senders.size(); ++k) {
        const Pair pair{a * rails + senders[k], b * rails + receivers[k]};
        tree.Route(pair, tree.DefaultRoute(pair), own);
        if (k == 0) first = own;
        if (own.size() != first.size()) return false;
        for (size_t l = 0; l < own.size(); ++l) {
          const LinkRates rates = tree.RatesOf(own[l]), those = tree.RatesOf(first[l]);
          if (used_by.try_emplace(own[l], k).first->second != k ||
              to.try_emplace({k, first[l]}, own[l]).first->second != own[l] ||
              back.try_emplace(own[l], first[l]).first->second != first[l] || rates.bandwidth != those.bandwidth ||
              rates.latency != those.latency)
            return false;
        }
      }
    }
  }
  return true;
}

// What a tree says of its rails, against all default routes between nodes.
TEST(FatTreeTest, RailsAreTwinsWhereNoneHasLinksOfAnother) {
  int twins = 0, others = 0;
  for (const FatTreeOptions& o :
       {FatTreeOptions{.ports = 60, .radix = 16, .rails = 4},
        FatTreeOptions{.ports = 33, .radix = 12, .oversubscription = 2, .rails = 3},
        FatTreeOptions{.ports = 54, .levels = 3, .radix = 8, .rails = 2},
        FatTreeOptions{.ports = 100, .levels = 3, .radix = 8, .rails = 4},
        FatTreeOptions{.ports = 56, .levels = 3, .radix = 8, .top_oversubscription = 3, .rails = 2},
        FatTreeOptions{.ports = 120, .levels = 3, .radix = 12, .oversubscription = 0.5, .rails = 2},
        FatTreeOptions{
            .ports = 144, .levels = 3, .radix = 12, .oversubscription = 2, .top_oversubscription = 3, .rails = 3},
        FatTreeOptions{.ports = 120, .levels = 3, .radix = 12, .rails = 4},
        FatTreeOptions{.ports = 128, .levels = 3, .radix = 8, .rails = 1}}) {
    const auto tree = MakeFatTree(o);
    SCOPED_TRACE(StrCat(o.levels, " levels of radix ", o.radix, ", ", o.rails, " rails"));
    std::vector<int> straight, next;
    for (int r = 0; r < o.rails; ++r) straight.push_back(r), next.push_back((r + 1) % o.rails);
    const bool hold = AreTwins(*tree, o.rails, straight, straight) && AreTwins(*tree, o.rails, next, straight);
    EXPECT_EQ(tree->TwinPorts(o.rails), hold);
    EXPECT_FALSE(tree->TwinPorts(o.rails + 1)) << "ports of other nodes";
    ++(hold ? twins : others);
  }
  EXPECT_GE(twins, 4);
  EXPECT_GE(others, 2);
}

}  // namespace fat_tree_test
}  // namespace twofold
