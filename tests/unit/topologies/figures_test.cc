// Hosts, switches, cables, diameter and bisection of every builder against published formulas, over a range of sizes.
#include "topologies/figures.h"

#include <algorithm>
#include <array>
#include <ctime>
#include <memory>
#include <string>
#include <vector>

#include "core/base/strings.h"
#include "gtest/gtest.h"
#include "tests/unit/topologies/route_checks.h"
#include "topologies/build.h"
#include "topologies/catalogue.h"
#include "topologies/graph/cluster_topology.h"
#include "topologies/max_flow.h"
#include "topologies/networks/dragonfly.h"
#include "topologies/networks/fat_tree.h"
#include "topologies/networks/full_mesh_network.h"
#include "topologies/networks/hamming_mesh.h"
#include "topologies/networks/shared_memory_host.h"
#include "topologies/networks/slingshot.h"
#include "topologies/networks/star.h"
#include "topologies/networks/torus.h"

namespace twofold {
namespace figures_test {

const Wiring kUnit{.bandwidth = BytesPerSecond(1000)};

// Bisection in cables.
double Cables(const Figures& f) { return f.bisection.value() / 1000; }

// The longest of the shortest ways, by a search from every endpoint.
int PlainDiameter(const Topology& t) {
  int most = 0;
  for (int e = 0; e < t.endpoints(); ++e) {
    const std::vector<int> distance = Distances(t, e);
    most = std::max(most, *std::max_element(distance.begin(), distance.begin() + t.endpoints()));
  }
  return most;
}

void ExpectPlainDiameter(const Topology& t, const Figures& f, const std::string& what) {
  EXPECT_EQ(f.diameter, PlainDiameter(t)) << what;
  EXPECT_EQ(f.links, static_cast<int64_t>(t.links().size())) << what;
  EXPECT_EQ(f.links, 2 * f.cables) << what;
}

TEST(MaxFlowTest, TextbookGraph) {  // Cormen, Leiserson, Rivest and Stein, figure 26.1: 23
  MaxFlow flow(6);
  const int arcs[][3] = {{0, 1, 16}, {0, 2, 13}, {1, 3, 12}, {2, 1, 4}, {3, 2, 9},
                         {2, 4, 14}, {4, 3, 7},  {3, 5, 20}, {4, 5, 4}};
  for (const auto& [from, to, capacity] : arcs) flow.AddArc(from, to, capacity);
  EXPECT_EQ(flow.Run(0, 5), 23);
}

TEST(FiguresTest, Star) {
  for (int n : {2, 3, 8, 100}) {
    const auto star = MakeStar({.hosts = n, .bandwidth = BytesPerSecond(1000)});
    const Figures f = FiguresOf(*star);
    EXPECT_EQ(f.endpoints, n);
    EXPECT_EQ(f.switches, std::vector<int>{1});
    EXPECT_EQ(f.cables, n);
    EXPECT_EQ(Cables(f), n / 2);
    ExpectPlainDiameter(*star, f, StrCat(n));
    EXPECT_EQ(f.diameter, 2);
  }
}

// Al-Fares, Loukissas and Vahdat 2008, section 2.2: k^3/4 hosts, k pods of k/2 edge and k/2 aggregation switches,
// (k/2)^2 cores, full bisection.
TEST(FiguresTest, KaryFatTreeOfThreeLevels) {
  for (int k : {2, 4, 6, 8, 12}) {
    const int hosts = k * k * k / 4;
    EXPECT_EQ(MostPorts(FatTreeOptions{.levels = 3, .radix = k}), hosts);
    const auto tree = MakeFatTree({.ports = hosts, .levels = 3, .radix = k, .wiring = kUnit});
    const Figures f = FiguresOf(*tree);
    EXPECT_EQ(f.switches, (std::vector<int>{k * k / 2, k * k / 2, k * k / 4})) << k;  // 5 k^2 / 4
    EXPECT_EQ(f.cables, 3 * hosts) << k;
    EXPECT_EQ(f.diameter, 6) << k;
    EXPECT_EQ(Cables(f), hosts / 2) << k;
    if (k <= 8) ExpectPlainDiameter(*tree, f, StrCat(k));
  }
}

// A folded Clos of two levels: k leaves, k/2 spines, k^2/2 hosts.
TEST(FiguresTest, FatTreeOfTwoLevels) {
  for (int k : {2, 4, 8, 20, 40}) {
    const int hosts = k * k / 2;
    const auto tree = MakeFatTree({.ports = hosts, .radix = k, .wiring = kUnit});
    const Figures f = FiguresOf(*tree);
    EXPECT_EQ(f.switches, (std::vector<int>{k, k / 2})) << k;
    EXPECT_EQ(f.cables, 2 * hosts) << k;
    EXPECT_EQ(f.diameter, 4) << k;
    EXPECT_EQ(Cables(f), hosts / 2) << k;
    if (k <= 20) ExpectPlainDiameter(*tree, f, StrCat(k));
  }
}

// Oversubscription s of leaves: bisection hosts / (2 s); of the middle switches too: / (s t).
TEST(FiguresTest, SlimFatTrees) {
  for (int s : {1, 3, 4, 7}) {
    const int radix = 40, up = radix / (1 + s), down = s * up;
    const int hosts = down * 40;
    const auto tree = MakeFatTree({.ports = hosts, .radix = radix, .oversubscription = double(s), .wiring = kUnit});
    const Figures f = FiguresOf(*tree);
    EXPECT_EQ(f.switches, (std::vector<int>{40, up})) << s;
    EXPECT_EQ(f.cables, hosts + 40 * up) << s;
    EXPECT_EQ(Cables(f), hosts / 2 / s) << s;
    for (int t : {1, 2, 5}) {
      const FatTreeOptions o{.ports = 1,
                             .levels = 3,
                             .radix = 12,
                             .oversubscription = double(std::min(s, 3)),
                             .top_oversubscription = double(t),
                             .wiring = kUnit};
      FatTreeOptions full = o;
      full.ports = static_cast<int>(MostPorts(o));
      EXPECT_EQ(full.ports, 12 / (1 + std::min(s, 3)) * std::min(s, 3) * (12 / (1 + t) * t) * 12);
      EXPECT_EQ(Cables(FiguresOf(*MakeFatTree(full))), full.ports / 2 / std::min(s, 3) / t) << s << " " << t;
    }
  }
}

// NVIDIA DGX SuperPOD H100 reference architecture (RA-11333): a scalable unit is 32 nodes on 8 leaves of 64 ports, one
// for each rail; 4 of them (127 nodes and a spare place) have 32 leaves and 16 spines.
TEST(FiguresTest, RailOptimisedSuperPod) {
  const auto tree = MakeFatTree({.ports = 1024, .radix = 64, .rails = 8, .wiring = kUnit});
  const Figures f = FiguresOf(*tree);
  EXPECT_EQ(f.switches, (std::vector<int>{32, 16}));
  EXPECT_EQ(f.cables, 2048);
  EXPECT_EQ(Cables(f), 512);
  std::vector<int> route;
  for (int n = 0; n < 31; ++n) {  // nodes of a unit meet on the rail's leaf
    tree->Route({8 * n + 5, 8 * (n + 1) + 5}, 0, route);
    EXPECT_EQ(route.size(), 2u);
    EXPECT_EQ(tree->GroupOf(8 * n + 5), 0);
  }
  EXPECT_EQ(tree->MinimalRoutes({5, 4}), 32);
  EXPECT_EQ(tree->GroupOf(8 * 32), 1);
}

// Kim, Dally, Scott and Abts 2008, section 3.1: N = a p (a h + 1) ports; a h + 1 groups; 3 hops between switches.
TEST(FiguresTest, CanonicalDragonfly) {
  for (const auto& [p, a, h] :
       {std::array{1, 2, 1}, std::array{2, 4, 2}, std::array{3, 6, 3}, std::array{2, 3, 4}, std::array{4, 8, 4}}) {
    const std::string what = StrCat("p ", p, " a ", a, " h ", h);
    const auto dragonfly = MakeDragonfly({.p = p, .a = a, .h = h, .wiring = kUnit});
    const int g = a * h + 1, n = a * p * g;
    const Figures f = FiguresOf(*dragonfly);
    EXPECT_EQ(f.endpoints, n) << what;
    EXPECT_EQ(f.switches, std::vector<int>{a * g}) << what;
    EXPECT_EQ(f.cables, n + g * a * (a - 1) / 2 + g * (g - 1) / 2) << what;
    EXPECT_EQ(f.diameter, 5) << what;
    if (n < 1000) ExpectPlainDiameter(*dragonfly, f, what);
    std::vector<int> global_of(static_cast<size_t>(a * g));  // every switch has h
    for (const Link& l : dragonfly->links()) {
      if (l.from >= n && l.to >= n &&
          dragonfly->vertices()[static_cast<size_t>(l.from)].group !=
              dragonfly->vertices()[static_cast<size_t>(l.to)].group) {
        ++global_of[static_cast<size_t>(l.from - n)];
      }
    }
    for (int of : global_of) EXPECT_EQ(of, h) << what;
  }
}

// Cables between the halves of the groups: (g/2)^2 n, where no ports (a p g / 2) or local cables limit.
TEST(FiguresTest, BisectionOfDragonflies) {
  for (const auto& [p, a, h, g, cables] :
       {std::array{2, 4, 2, 8, 1}, std::array{4, 4, 2, 4, 2}, std::array{4, 8, 4, 16, 2}, std::array{8, 4, 4, 2, 16}}) {
    const auto dragonfly = MakeDragonfly({.p = p, .a = a, .h = h, .groups = g, .wiring = kUnit});
    const Figures f = FiguresOf(*dragonfly);
    ASSERT_LE(g / 2 * (g / 2) * cables, a * p * g / 2);
    EXPECT_EQ(Cables(f), g / 2 * (g / 2) * cables) << g;
    EXPECT_EQ(f.cables, a * p * g + g * a * (a - 1) / 2 + g * (g - 1) / 2 * cables) << g;
  }
  // Twice as fast global cables.
  const auto fast =
      MakeDragonfly({.p = 4, .a = 4, .h = 2, .groups = 4, .global_bandwidth = BytesPerSecond(2000), .wiring = kUnit});
  EXPECT_EQ(Cables(FiguresOf(*fast)), 16);
}

// De Sensi et al. 2020, section II: 545 groups of 32 switches with 16 ports each, 279,040 ports.
TEST(FiguresTest, Slingshot) {
  EXPECT_EQ(MostPorts(SlingshotOptions{.groups = 545}), 279040);
  EXPECT_TRUE(Check(SlingshotOptions{.groups = 545, .links_between_groups = 1}).ok());
  EXPECT_FALSE(Check(SlingshotOptions{.groups = 546, .links_between_groups = 1}).ok());
  const auto slingshot = MakeSlingshot({.groups = 4, .links_between_groups = 24, .wiring = kUnit});
  const Figures f = FiguresOf(*slingshot);
  EXPECT_EQ(slingshot->kind(), "slingshot");
  EXPECT_EQ(f.switches, std::vector<int>{128});
  EXPECT_EQ(f.cables, 2048 + 4 * 32 * 31 / 2 + 6 * 24);
  EXPECT_EQ(f.diameter, 5);
  EXPECT_EQ(Cables(f), 4 * 24);
}

// Dally and Towles 2004, chapter 5 (k-ary n-cubes): diameter n floor(k/2), of a mesh n (k-1); bisection 2 k^(n-1)
// cables (4 k^(n-1) channels, both ways), of a mesh half that.
TEST(FiguresTest, ToriAndMeshes) {
  for (const auto& [k, n] : {std::array{4, 1}, std::array{8, 1}, std::array{4, 2}, std::array{5, 2}, std::array{6, 3},
                             std::array{3, 4}, std::array{4, 4}}) {
    int ports = 1;
    for (int i = 0; i < n; ++i) ports *= k;
    for (const bool wrap : {true, false}) {
      const std::string what = StrCat(k, "-ary ", n, wrap ? "-cube" : "-mesh");
      const auto torus =
          MakeTorus({.dims = std::vector<int>(static_cast<size_t>(n), k), .wrap = wrap, .wiring = kUnit});
      const Figures f = FiguresOf(*torus);
      EXPECT_EQ(f.endpoints, ports) << what;
      EXPECT_TRUE(f.switches.empty()) << what;
      EXPECT_EQ(f.cables, wrap ? n * ports : n * ports / k * (k - 1)) << what;
      EXPECT_EQ(f.diameter, wrap ? n * (k / 2) : n * (k - 1)) << what;
      if (k % 2 == 0) {
        EXPECT_EQ(Cables(f), ports / k * (wrap ? 2 : 1)) << what;
      }
      ExpectPlainDiameter(*torus, f, what);
    }
  }
  // Hypercubes: a dimension of 2 has one cable. 2^n ports, n 2^(n-1) cables, diameter n, bisection 2^(n-1).
  for (int n : {1, 3, 6}) {
    const Figures f = FiguresOf(*MakeTorus({.dims = std::vector<int>(static_cast<size_t>(n), 2), .wiring = kUnit}));
    EXPECT_EQ(f.cables, n << (n - 1));
    EXPECT_EQ(f.diameter, n);
    EXPECT_EQ(Cables(f), 1 << (n - 1));
  }
  // TPU v4 (Jouppi et al. 2023): a 16 x 16 x 16 torus of 4,096.
  const Figures v4 = FiguresOf(*MakeTorus({.dims = {16, 16, 16}, .wiring = kUnit}));
  EXPECT_EQ(v4.cables, 3 * 4096);
  EXPECT_EQ(v4.diameter, 24);
  EXPECT_EQ(Cables(v4), 512);
}

// Hoefler et al. 2022: table II's diameters of clusters of about 1,000 and 16,384 accelerators with 64-port switches;
// section III: the bisection is 1 / (2 a) of what the 4 ports of every accelerator could send.
TEST(FiguresTest, HammingMeshOfThePaper) {
  struct Case {
    int a, x, diameter;
  };
  for (const auto& [a, x, diameter] : {Case{2, 16, 4}, Case{4, 8, 8}, Case{2, 64, 8}, Case{4, 32, 8}}) {
    const std::string what = StrCat("Hx", a, "Mesh of ", x, " x ", x, " boards");
    const Figures f = FiguresOf(*MakeHammingMesh({.a = a, .b = a, .x = x, .y = x, .wiring = kUnit}));
    const int n = a * a * x * x;
    EXPECT_EQ(f.endpoints, n) << what;
    EXPECT_EQ(f.diameter, diameter) << what;
    EXPECT_EQ(Cables(f), n / 2 * 4 / (2 * a)) << what;
  }
  // 2-D torus of the same table: 32 x 32 has diameter 32.
  EXPECT_EQ(FiguresOf(*MakeTorus({.dims = {32, 32}})).diameter, 32);
}

TEST(FiguresTest, HammingMeshes) {
  for (const auto& [a, b, x, y, radix] :
       {std::array{2, 2, 3, 4, 64}, std::array{1, 1, 4, 4, 8}, std::array{3, 5, 4, 2, 16}, std::array{2, 4, 2, 8, 16},
        std::array{2, 2, 8, 6, 8}}) {
    const std::string what = StrCat(a, " x ", b, " boards, ", x, " x ", y, " of them, radix ", radix);
    const auto mesh = MakeHammingMesh({.a = a, .b = b, .x = x, .y = y, .radix = radix, .wiring = kUnit});
    const Figures f = FiguresOf(*mesh);
    // A line of 2 m ports is a switch, or a tree of ceil(2 m / (radix/2)) leaves.
    const auto leaves = [&](int m) { return 2 * m <= radix ? 1 : (2 * m + radix / 2 - 1) / (radix / 2); };
    const auto cables = [&](int m) { return 2 * m + (2 * m <= radix ? 0 : leaves(m) * radix / 2); };
    EXPECT_EQ(f.switches[0], b * y * leaves(x) + a * x * leaves(y)) << what;
    EXPECT_EQ(f.cables, x * y * (b * (a - 1) + a * (b - 1)) + b * y * cables(x) + a * x * cables(y)) << what;
    const int more = (leaves(x) > 1 ? 2 : 0) + (leaves(y) > 1 ? 2 : 0);
    EXPECT_EQ(f.diameter, 4 + more + 2 * ((a - 1) / 2) + 2 * ((b - 1) / 2)) << what;
    if (y % 2 == 0) {
      EXPECT_EQ(Cables(f), a * x * y) << what;
    }
    ExpectPlainDiameter(*mesh, f, what);
  }
}

TEST(FiguresTest, FullMesh) {
  for (int n : {2, 3, 8, 33}) {
    const auto mesh = MakeFullMeshNetwork({.ports = n, .wiring = kUnit});
    const Figures f = FiguresOf(*mesh);
    EXPECT_EQ(f.cables, n * (n - 1) / 2) << n;
    EXPECT_EQ(f.diameter, 1) << n;
    // Through the middle one of an odd number goes one cable's worth from each of a half.
    EXPECT_EQ(Cables(f), n / 2 * (n / 2) + (n % 2 == 1 ? n / 2 : 0)) << n;
    ExpectPlainDiameter(*mesh, f, StrCat(n));
  }
}

// Nodes like MI250X: every second device has a NIC, and the others' traffic passes through it.
TEST(FiguresTest, DevicesForwardWhereNothingElseJoins) {
  NodeType node{.kind = "pair", .devices = {0, 1}, .nics = {2}, .nic_of = {0, 0}};
  node.graph.AddVertex({Vertex::kDevice, "d0"});
  node.graph.AddVertex({Vertex::kDevice, "d1"});
  node.graph.AddVertex({Vertex::kNic, "nic"});
  node.graph.AddCable(0, 1, BytesPerSecond(3000), Seconds(0), Medium::kNvlink);
  node.graph.AddCable(1, 2, BytesPerSecond(2000), Seconds(0), Medium::kPcie);
  const auto cluster = MakeClusterTopology(node, 2, MakeStar({.hosts = 2, .bandwidth = BytesPerSecond(1000)}));
  const Figures f = FiguresOf(*cluster);
  EXPECT_EQ(f.endpoints, 4);
  EXPECT_EQ(f.nodes, 2);
  EXPECT_EQ(f.nics, 2);
  EXPECT_EQ(f.switches, std::vector<int>{1});
  EXPECT_EQ(f.cables, 2);
  EXPECT_EQ(f.node_cables, 4);
  EXPECT_EQ(f.diameter, 6);  // device, device, NIC, switch and back down
  EXPECT_EQ(f.bisection, BytesPerSecond(1000));
}

// Nodes of the catalogue have devices, switches and NICs inside, which stand for each other where they are joined
// alike.
TEST(FiguresTest, NodesThatStandForOthersChangeNoDiameter) {
  int built = 0;
  for (const ClusterInfo& info : ListClusters()) {
    const absl::StatusOr<cluster::Cluster> cluster = FindCluster(info.name, "test");
    ASSERT_TRUE(cluster.ok()) << cluster.status();
    if (cluster->has_shared_memory_host()) continue;
    for (const int64_t nodes : {3, 40}) {
      const absl::StatusOr<std::unique_ptr<Topology>> topology =
          BuildTopology(*cluster, static_cast<int>(std::min(nodes, MostNodes(*cluster))));
      ASSERT_TRUE(topology.ok()) << info.name << topology.status();
      if ((*topology)->endpoints() < 2 || (*topology)->endpoints() > 400) continue;
      EXPECT_EQ(FiguresOf(**topology).diameter, PlainDiameter(**topology)) << info.name << ", " << nodes;
      ++built;
    }
  }
  EXPECT_GE(built, 12);
}

TEST(FiguresTest, WhatHasNoGraphHasNoDiameter) {
  const Figures f = FiguresOf(*MakeSharedMemoryHost({.ranks = 4}));
  EXPECT_EQ(f.diameter, 0);
  EXPECT_EQ(f.bisection, BytesPerSecond(0));
  EXPECT_EQ(f.links, 5);
}

TEST(FiguresTest, RatesOfAnySizeAreCut) {
  const auto star = MakeStar({.hosts = 4, .bandwidth = BytesPerSecond(1e30), .latency = Seconds(1e-6)});
  EXPECT_NEAR(FiguresOf(*star).bisection.value() / 2e30, 1, 1e-6);
}

TEST(FiguresTest, TextForPeople) {
  const auto tree = MakeFatTree(
      {.ports = 16, .levels = 3, .radix = 4, .wiring = {.bandwidth = BytesPerSecond(25e9), .cable = Seconds(1e-6)}});
  EXPECT_EQ(FiguresText(*tree, FiguresOf(*tree)),
            "kind        fat_tree\n"
            "devices     16\n"
            "switches    20 (by level, from the devices up: 8, 8, 4)\n"
            "cables      48\n"
            "links       96\n"
            "diameter    6 links\n"
            "bisection   200 GB/s each way, 25 GB/s per device in each half\n"
            "latency     6 µs between the first and the last device\n"
            "bandwidth   25 GB/s between the first and the last device\n");
}

// 16,384 ports: built in under a second of processor time, figures in a few.
TEST(FiguresTest, LargeOnesAreQuick) {
  const auto seconds = [] { return static_cast<double>(std::clock()) / CLOCKS_PER_SEC; };
  const double scale = [] {
#ifdef TWOFOLD_SANITIZED
    return 30.0;
#else
    return 3.0;
#endif
  }();
  double start = seconds();
  const auto tree = MakeFatTree({.ports = 16384, .levels = 3, .radix = 64});
  const auto dragonfly = MakeDragonfly({.p = 8, .a = 16, .h = 8});
  const auto torus = MakeTorus({.dims = {32, 32, 16}});
  const auto mesh = MakeHammingMesh({.a = 2, .b = 2, .x = 64, .y = 64});
  EXPECT_LT(seconds() - start, 1 * scale);
  EXPECT_EQ(dragonfly->endpoints(), 16512);
  start = seconds();
  EXPECT_EQ(FiguresOf(*tree).diameter, 6);
  EXPECT_EQ(FiguresOf(*dragonfly).diameter, 5);
  EXPECT_EQ(FiguresOf(*torus).diameter, 40);
  EXPECT_EQ(FiguresOf(*mesh).diameter, 8);
  EXPECT_LT(seconds() - start, 8 * scale);
}

}  // namespace figures_test
}  // namespace twofold
