// What cannot be built is refused, by the field's name; what a wiring costs is on every route.
#include <limits>
#include <string>

#include "core/base/strings.h"
#include "gtest/gtest.h"
#include "tests/unit/topologies/route_checks.h"
#include "topologies/networks/dragonfly.h"
#include "topologies/networks/fat_tree.h"
#include "topologies/networks/full_mesh_network.h"
#include "topologies/networks/hamming_mesh.h"
#include "topologies/networks/slingshot.h"
#include "topologies/networks/torus.h"

namespace twofold {
namespace network_checks_test {

template <class Options>
void ExpectRefused(const Options& options, const std::string& beginning) {
  const absl::Status status = Check(options);
  ASSERT_FALSE(status.ok()) << beginning;
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(std::string(status.message()).substr(0, beginning.size()), beginning);
}

constexpr int kHuge = std::numeric_limits<int>::max();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

TEST(NetworkChecksTest, Wirings) {
  ExpectRefused(Wiring{.bandwidth = BytesPerSecond(0)}, "link_gbytes_per_second = 0: must be greater than 0");
  ExpectRefused(Wiring{.bandwidth = BytesPerSecond(kNan)}, "link_gbytes_per_second = nan");
  ExpectRefused(Wiring{.cable = Seconds(-1e-6)}, "cable_us = -1: must not be negative");
  ExpectRefused(Wiring{.switching = Seconds(kNan)}, "switch_us = nan");
  ExpectRefused(Wiring{.nic = Seconds(-2e-6)}, "nic_us = -2");
  const Wiring bad{.cable = Seconds(-1e-6)}, nic{.nic = Seconds(1e-6)};
  ExpectRefused(FatTreeOptions{.wiring = bad}, "cable_us");
  ExpectRefused(DragonflyOptions{.wiring = bad}, "cable_us");
  ExpectRefused(SlingshotOptions{.wiring = bad}, "cable_us");
  ExpectRefused(TorusOptions{.wiring = bad}, "cable_us");
  ExpectRefused(HammingMeshOptions{.wiring = bad}, "cable_us");
  ExpectRefused(FullMeshNetworkOptions{.wiring = bad}, "cable_us");
  ExpectRefused(TorusOptions{.wiring = nic}, "nic_us = 1: the ports of this network are routers");
  ExpectRefused(HammingMeshOptions{.wiring = nic}, "nic_us = 1: the ports of this network are routers");
}

TEST(NetworkChecksTest, FatTrees) {
  ExpectRefused(FatTreeOptions{.ports = 0}, "ports = 0: must be at least 1");
  ExpectRefused(FatTreeOptions{.levels = 1}, "levels = 1: must be 2 or 3");
  ExpectRefused(FatTreeOptions{.levels = 4}, "levels = 4");
  ExpectRefused(FatTreeOptions{.radix = 1}, "radix = 1: must be between 2 and 65536");
  ExpectRefused(FatTreeOptions{.radix = kHuge}, "radix = ");
  ExpectRefused(FatTreeOptions{.oversubscription = 0}, "oversubscription = 0");
  ExpectRefused(FatTreeOptions{.oversubscription = -3}, "oversubscription = -3");
  ExpectRefused(FatTreeOptions{.oversubscription = kNan}, "oversubscription = nan");
  ExpectRefused(FatTreeOptions{.oversubscription = 40},
                "oversubscription = 40: a switch of radix = 40 has no ports left");
  ExpectRefused(FatTreeOptions{.levels = 3, .top_oversubscription = 1e9}, "top_oversubscription = 1");
  ExpectRefused(FatTreeOptions{.levels = 2, .top_oversubscription = 2},
                "top_oversubscription = 2: 2 levels have no middle switches");
  ExpectRefused(FatTreeOptions{.ports = 801}, "ports = 801: 2 levels of switches of radix = 40 join at most 800");
  ExpectRefused(FatTreeOptions{.ports = 16001, .levels = 3},
                "ports = 16001: 3 levels of switches of radix = 40 join at most 16000");
  ExpectRefused(FatTreeOptions{.ports = kHuge, .levels = 3, .radix = 65536}, "ports = 2147483647");
  ExpectRefused(FatTreeOptions{.ports = 1 << 20, .levels = 3, .radix = 40000, .oversubscription = 1.0 / 50000},
                "oversubscription = 2e-05");
  ExpectRefused(FatTreeOptions{.ports = 1 << 20, .levels = 3, .radix = 20000, .oversubscription = 0.001},
                "ports = 1048576: the network would have ");
  ExpectRefused(FatTreeOptions{.rails = 0}, "rails = 0");
  ExpectRefused(FatTreeOptions{.rails = 41}, "rail_optimised: 41 rails need as many leaves");
  EXPECT_TRUE(Check(FatTreeOptions{.ports = 16000, .levels = 3}).ok());
  EXPECT_TRUE(Check(FatTreeOptions{.ports = 800, .rails = 40}).ok());
}

TEST(NetworkChecksTest, RadixIsSplitAsHeaderSays) {
  const auto split = [](int radix, double s) {
    const FatTreeSplit of = SplitRadix(radix, s);
    return std::pair(of.down, of.up);
  };
  EXPECT_EQ(split(40, 1), std::pair(20, 20));
  EXPECT_EQ(split(40, 4), std::pair(32, 8));
  EXPECT_EQ(split(64, 3), std::pair(48, 16));
  EXPECT_EQ(split(40, 2), std::pair(26, 13));
  EXPECT_EQ(split(36, 0.5), std::pair(12, 24));
  EXPECT_EQ(split(40, 7.0 / 3), std::pair(28, 12));
  EXPECT_EQ(split(2, 1), std::pair(1, 1));
  EXPECT_EQ(split(3, 1), std::pair(1, 1));
}

TEST(NetworkChecksTest, Dragonflies) {
  ExpectRefused(DragonflyOptions{.p = 0}, "p = 0: must be at least 1");
  ExpectRefused(DragonflyOptions{.a = 0}, "a = 0");
  ExpectRefused(DragonflyOptions{.h = -1}, "h = -1");
  ExpectRefused(DragonflyOptions{.p = kHuge, .a = kHuge, .h = kHuge}, "p = 2147483647: must be at most");
  ExpectRefused(DragonflyOptions{.p = 1 << 20, .a = 1 << 20, .h = 1 << 20}, "p = 1048576: ");
  ExpectRefused(DragonflyOptions{.groups = 10},
                "groups = 10: a group has a * h = 8 global cables, enough for 9 groups");
  ExpectRefused(DragonflyOptions{.groups = 5, .cables_between_groups = 3},
                "cables_between_groups = 3: a group would need 12 global cables, but it has a * h = 8, enough for 2");
  ExpectRefused(DragonflyOptions{.ports = 73}, "ports = 73: p * a * groups = 2 * 4 * 9 joins at most 72");
  ExpectRefused(DragonflyOptions{.local_bandwidth = BytesPerSecond(-1e9)}, "local_gbytes_per_second = -1");
  ExpectRefused(DragonflyOptions{.global_bandwidth = BytesPerSecond(kNan)}, "global_gbytes_per_second = nan");
  ExpectRefused(DragonflyOptions{.p = 1, .a = 1 << 19, .h = 0, .groups = 1}, "a = 524288: the network would have ");
  EXPECT_TRUE(Check(DragonflyOptions{.ports = 72}).ok());
}

TEST(NetworkChecksTest, Slingshots) {
  ExpectRefused(SlingshotOptions{.groups = 0}, "groups = 0");
  ExpectRefused(SlingshotOptions{.switches_per_group = 0}, "switches_per_group = 0");
  ExpectRefused(SlingshotOptions{.switches_per_group = 49},
                "switches_per_group = 49: with ports_per_switch = 16 a switch of 64 ports has none left");
  ExpectRefused(SlingshotOptions{.switches_per_group = kHuge}, "switches_per_group = ");
  ExpectRefused(SlingshotOptions{.ports_per_switch = 64}, "switches_per_group = 32: with ports_per_switch = 64");
  ExpectRefused(SlingshotOptions{.groups = 546},
                "groups = 546: a group would need 545 optical cables, but its 32 switches have 17 ports each left for "
                "them, 544 in total");
  ExpectRefused(SlingshotOptions{.groups = 9, .links_between_groups = 69},
                "links_between_groups = 69: a group would need 552 optical cables");
  ExpectRefused(SlingshotOptions{.ports = 1025}, "ports = 1025");
  EXPECT_TRUE(Check(SlingshotOptions{.groups = 9, .links_between_groups = 68}).ok());
  EXPECT_TRUE(Check(SlingshotOptions{.groups = 1, .switches_per_group = 33, .ports_per_switch = 32}).ok());
}

TEST(NetworkChecksTest, ToriAndMeshes) {
  ExpectRefused(TorusOptions{.dims = {}}, "dims = []: must be 1 to 6 sizes");
  ExpectRefused(TorusOptions{.dims = {2, 2, 2, 2, 2, 2, 2}}, "dims = [2, 2, 2, 2, 2, 2, 2]: must be 1 to 6 sizes");
  ExpectRefused(TorusOptions{.dims = {4, 0}}, "dims = [4, 0]: 0: must be at least 1");
  ExpectRefused(TorusOptions{.dims = {kHuge, kHuge}},
                "dims = [2147483647, 2147483647]: the product of the sizes must be at most");
  ExpectRefused(HammingMeshOptions{.a = 0}, "a = 0: must be at least 1");
  ExpectRefused(HammingMeshOptions{.y = -1}, "y = -1");
  ExpectRefused(HammingMeshOptions{.x = kHuge}, "x = 2147483647: a * b * x * y must be at most");
  ExpectRefused(HammingMeshOptions{.radix = 1}, "radix = 1");
  ExpectRefused(HammingMeshOptions{.x = 17, .radix = 8},
                "x = 17: a tree of 2 levels of switches of radix = 8 joins at most 16 boards");
  ExpectRefused(FullMeshNetworkOptions{.ports = 0}, "ports = 0");
  ExpectRefused(FullMeshNetworkOptions{.ports = 4097}, "ports = 4097: a full mesh has at most 4096");
  EXPECT_TRUE(Check(HammingMeshOptions{.x = 16, .radix = 8}).ok());
  EXPECT_TRUE(Check(TorusOptions{.dims = {1}}).ok());
}

// Microseconds: 1 a cable, 10 a switch, 100 a NIC.
TEST(NetworkChecksTest, LatencyIsThatOfWhatAMessagePasses) {
  const Wiring wiring{.cable = Seconds(1), .switching = Seconds(10), .nic = Seconds(100)};
  const auto tree = MakeFatTree({.ports = 16, .levels = 3, .radix = 4, .wiring = wiring});
  EXPECT_EQ(tree->Latency({0, 1}), Seconds(2 + 10 + 200));   // leaf
  EXPECT_EQ(tree->Latency({0, 2}), Seconds(4 + 30 + 200));   // pod
  EXPECT_EQ(tree->Latency({0, 15}), Seconds(6 + 50 + 200));  // core
  EXPECT_EQ(tree->alpha(), Seconds(256));
  const auto fly = MakeDragonfly({.global_cable = Seconds(1000), .wiring = wiring});
  EXPECT_EQ(fly->Latency({0, 2}), Seconds(3 + 20 + 200));
  double most = 0;
  for (int to = 8; to < 72; ++to) most = std::max(most, fly->Latency({0, to}).value());
  EXPECT_EQ(most, 4 + 1000 + 40 + 200);
  const Wiring routers{.cable = Seconds(1), .switching = Seconds(10)};
  EXPECT_EQ(MakeTorus({.dims = {4, 4}, .wiring = routers})->Latency({0, 10}), Seconds(4 * 11));
  EXPECT_EQ(MakeHammingMesh({.wiring = routers})->Latency({0, 63}), Seconds(4 * 11));
  EXPECT_EQ(MakeFullMeshNetwork({.ports = 4, .wiring = wiring})->Latency({0, 3}), Seconds(201));
}

TEST(NetworkChecksTest, CablesHaveTheirBandwidths) {
  const auto fly = MakeDragonfly({.local_bandwidth = BytesPerSecond(2),
                                  .global_bandwidth = BytesPerSecond(3),
                                  .wiring = {.bandwidth = BytesPerSecond(1)}});
  for (const Link& l : fly->links()) {
    const Vertex &a = fly->vertices()[static_cast<size_t>(l.from)], &b = fly->vertices()[static_cast<size_t>(l.to)];
    const double expected = a.kind != b.kind ? 1 : a.group == b.group ? 2 : 3;
    EXPECT_EQ(l.bandwidth.value(), expected) << l.name;
  }
  const auto as_ports = MakeDragonfly({.wiring = {.bandwidth = BytesPerSecond(5)}});
  for (const Link& l : as_ports->links()) EXPECT_EQ(l.bandwidth.value(), 5);
}

}  // namespace network_checks_test
}  // namespace twofold
