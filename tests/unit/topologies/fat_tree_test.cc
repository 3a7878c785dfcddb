#include "topologies/networks/fat_tree.h"

#include <map>
#include <string>

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

}  // namespace fat_tree_test
}  // namespace twofold
