// The routes of dragonfly, Slingshot, torus, HammingMesh and full mesh.
#include <memory>
#include <set>
#include <string>

#include "gtest/gtest.h"
#include "tests/unit/topologies/route_checks.h"
#include "topologies/networks/dragonfly.h"
#include "topologies/networks/fat_tree.h"
#include "topologies/networks/full_mesh_network.h"
#include "topologies/networks/hamming_mesh.h"
#include "topologies/networks/slingshot.h"
#include "topologies/networks/torus.h"

namespace twofold {
namespace networks_test {

TEST(DragonflyTest, RoutesArePaths) {
  // Minimal is what has one global hop; two can be shorter in all (dragonfly.h).
  ExpectGoodRoutes(*MakeDragonfly({.p = 2, .a = 4, .h = 2}), 400, false);
  ExpectGoodRoutes(*MakeDragonfly({.p = 3, .a = 4, .h = 3, .groups = 5}), 400, false);
  ExpectGoodRoutes(*MakeDragonfly({.p = 2, .a = 5, .h = 2, .groups = 4, .cables_between_groups = 2}), 400, false);
  ExpectGoodRoutes(*MakeDragonfly({.p = 2, .a = 3, .h = 1, .groups = 1}), 400, false);
  ExpectGoodRoutes(*MakeDragonfly({.p = 2, .a = 1, .h = 3, .ports = 7}), 400, false);
  ExpectGoodRoutes(*MakeSlingshot({.groups = 4, .switches_per_group = 16, .links_between_groups = 24}), 60, false);
}

TEST(TorusTest, RoutesAreShortestPaths) {
  ExpectGoodRoutes(*MakeTorus({.dims = {4, 4}}), 300);
  ExpectGoodRoutes(*MakeTorus({.dims = {4, 4}, .wrap = false}), 300);
  ExpectGoodRoutes(*MakeTorus({.dims = {5, 2, 3}}), 1000);
  ExpectGoodRoutes(*MakeTorus({.dims = {6, 1, 4}}), 1000);
  ExpectGoodRoutes(*MakeTorus({.dims = {2, 3, 2, 4, 2}}), 500);
  ExpectGoodRoutes(*MakeTorus({.dims = {16}}), 300);
}

TEST(HammingMeshTest, RoutesAreShortestPaths) {
  ExpectGoodRoutes(*MakeHammingMesh({.a = 2, .b = 2, .x = 2, .y = 2}), 300);
  ExpectGoodRoutes(*MakeHammingMesh({.a = 4, .b = 2, .x = 3, .y = 2}), 300);
  ExpectGoodRoutes(*MakeHammingMesh({.a = 1, .b = 3, .x = 3, .y = 4}), 300);
  ExpectGoodRoutes(*MakeHammingMesh({.a = 5, .b = 4, .x = 1, .y = 3}), 300);
  ExpectGoodRoutes(*MakeHammingMesh({.a = 2, .b = 2, .x = 9, .y = 5, .radix = 8}), 300);
  ExpectGoodRoutes(*MakeHammingMesh({.a = 3, .b = 2, .x = 4, .y = 3, .radix = 6}), 300);
}

TEST(FullMeshNetworkTest, RoutesAreShortestPaths) {
  ExpectGoodRoutes(*MakeFullMeshNetwork({.ports = 2}), 100);
  ExpectGoodRoutes(*MakeFullMeshNetwork({.ports = 7}), 100);
}

// Faults are of links by name: parallel cables are numbered.
TEST(NetworksTest, EveryLinkHasANameOfItsOwn) {
  const std::unique_ptr<Topology> topologies[] = {
      MakeFatTree({.ports = 16, .radix = 8}),
      MakeFatTree({.ports = 8, .radix = 8}),
      MakeFatTree({.ports = 40, .levels = 3, .radix = 8}),
      MakeDragonfly({.p = 2, .a = 4, .h = 4, .groups = 4}),
      MakeDragonfly({}),
      MakeSlingshot({.groups = 3, .switches_per_group = 4}),
      MakeTorus({.dims = {4, 2, 3}}),
      MakeHammingMesh({.a = 1, .b = 2, .x = 9, .y = 5, .radix = 8}),
      MakeHammingMesh({.a = 2, .b = 2, .x = 2, .y = 9, .radix = 16}),
      MakeFullMeshNetwork({.ports = 5}),
  };
  for (const auto& t : topologies) {
    std::set<std::string> names;
    for (const Link& link : t->links()) EXPECT_TRUE(names.insert(link.name).second) << t->kind() << ": " << link.name;
    names.clear();
    for (const Vertex& vertex : t->vertices())
      EXPECT_TRUE(names.insert(vertex.name).second) << t->kind() << ": " << vertex.name;
  }
}

}  // namespace networks_test
}  // namespace twofold
