#include "topologies/network_kinds.h"

#include <initializer_list>
#include <utility>

#include "core/base/strings.h"
#include "topologies/check_fields.h"
#include "topologies/networks/dragonfly.h"
#include "topologies/networks/fat_tree.h"
#include "topologies/networks/full_mesh_network.h"
#include "topologies/networks/hamming_mesh.h"
#include "topologies/networks/network.h"
#include "topologies/networks/slingshot.h"
#include "topologies/networks/star.h"
#include "topologies/networks/torus.h"

namespace twofold {
namespace {

Wiring WiringOf(const cluster::Network& n) {
  return {.bandwidth = GigabytesPerSecond(n.link_gbytes_per_second()),
          .cable = Microseconds(n.cable_us()),
          .switching = Microseconds(n.switch_us()),
          .nic = Microseconds(n.nic_us())};
}

// Checks that counts fit an int, and so their products an int64_t. Builders check everything else.
absl::Status CheckCounts(std::initializer_list<std::pair<std::string_view, int64_t>> counts) {
  Checks checks;
  for (const auto& [field, value] : counts) checks << CheckRange(field, value, 0, 1 << 20);
  return checks;
}

// ---- star ----
absl::Status CheckStar(const cluster::Network&, int, int) { return absl::OkStatus(); }
std::unique_ptr<Topology> Star(const cluster::Network& n, int ports, int) {
  const Wiring w = WiringOf(n);
  return MakeStar({.hosts = ports, .bandwidth = w.bandwidth, .latency = 2 * w.cable + w.switching + 2 * w.nic});
}

// ---- fat_tree ----
FatTreeOptions FatTreeOf(const cluster::Network& n, int ports, int rails) {
  const cluster::FatTree& tree = n.fat_tree();
  return {.ports = ports,
          .levels = static_cast<int>(tree.levels()),
          .radix = static_cast<int>(tree.radix()),
          .oversubscription = tree.oversubscription(),
          .top_oversubscription = tree.top_oversubscription(),
          .rails = tree.rail_optimised() ? rails : 1,
          .wiring = WiringOf(n)};
}
absl::Status CheckFatTree(const cluster::Network& n, int ports, int rails) {
  const absl::Status counts = CheckCounts({{"levels", n.fat_tree().levels()}, {"radix", n.fat_tree().radix()}});
  return counts.ok() ? Check(FatTreeOf(n, ports, rails)) : counts;
}
std::unique_ptr<Topology> FatTree(const cluster::Network& n, int ports, int rails) {
  return MakeFatTree(FatTreeOf(n, ports, rails));
}

// ---- dragonfly ----
DragonflyOptions DragonflyOf(const cluster::Network& n, int ports) {
  const cluster::Dragonfly& fly = n.dragonfly();
  return {.p = static_cast<int>(fly.p()),
          .a = static_cast<int>(fly.a()),
          .h = static_cast<int>(fly.h()),
          .groups = static_cast<int>(fly.groups()),
          .ports = ports,
          .local_bandwidth = GigabytesPerSecond(fly.local_gbytes_per_second()),
          .global_bandwidth = GigabytesPerSecond(fly.global_gbytes_per_second()),
          .wiring = WiringOf(n)};
}
absl::Status CheckDragonfly(const cluster::Network& n, int ports, int) {
  const cluster::Dragonfly& fly = n.dragonfly();
  const absl::Status counts = CheckCounts({{"p", fly.p()}, {"a", fly.a()}, {"h", fly.h()}, {"groups", fly.groups()}});
  return counts.ok() ? Check(DragonflyOf(n, ports)) : counts;
}
std::unique_ptr<Topology> Dragonfly(const cluster::Network& n, int ports, int) {
  return MakeDragonfly(DragonflyOf(n, ports));
}

// ---- slingshot ----
SlingshotOptions SlingshotOf(const cluster::Network& n, int ports) {
  const cluster::Slingshot& s = n.slingshot();
  return {.groups = static_cast<int>(s.groups()),
          .switches_per_group = static_cast<int>(s.switches_per_group()),
          .ports_per_switch = static_cast<int>(s.ports_per_switch()),
          .links_between_groups = static_cast<int>(s.links_between_groups()),
          .ports = ports,
          .global_cable = s.has_global_us() ? Microseconds(s.global_us()) : Seconds(-1),
          .wiring = WiringOf(n)};
}
absl::Status CheckSlingshot(const cluster::Network& n, int ports, int) {
  const cluster::Slingshot& s = n.slingshot();
  const absl::Status counts = CheckCounts({{"groups", s.groups()},
                                           {"switches_per_group", s.switches_per_group()},
                                           {"ports_per_switch", s.ports_per_switch()},
                                           {"links_between_groups", s.links_between_groups()}});
  return Checks() << counts << CheckNotNegative("global_us", s.global_us())
                  << (counts.ok() ? Check(SlingshotOf(n, ports)) : counts);
}
std::unique_ptr<Topology> Slingshot(const cluster::Network& n, int ports, int) {
  return MakeSlingshot(SlingshotOf(n, ports));
}

// For networks whose shape fixes the number of ports.
absl::Status CheckFull(int64_t have, int ports) {
  if (ports == have) return absl::OkStatus();
  return Refuse("ports", ports, StrCat("its shape has ", have, " ports; both numbers must be equal"));
}

// ---- torus ----
TorusOptions TorusOf(const cluster::Network& n) {
  return {.dims = {n.torus().dims().begin(), n.torus().dims().end()}, .wrap = n.torus().wrap(), .wiring = WiringOf(n)};
}
absl::Status CheckTorus(const cluster::Network& n, int ports, int) {
  Checks checks;
  for (int d = 0; d < n.torus().dims_size(); ++d) checks << CheckCounts({{StrCat("dims[", d, "]"), n.torus().dims(d)}});
  if (checks.ok()) checks << Check(TorusOf(n));
  if (checks.ok()) checks << CheckFull(MostPorts(TorusOf(n)), ports);
  return checks;
}
std::unique_ptr<Topology> Torus(const cluster::Network& n, int, int) { return MakeTorus(TorusOf(n)); }

// ---- hamming_mesh ----
HammingMeshOptions HammingMeshOf(const cluster::Network& n) {
  const cluster::HammingMesh& mesh = n.hamming_mesh();
  return {.a = static_cast<int>(mesh.a()),
          .b = static_cast<int>(mesh.b()),
          .x = static_cast<int>(mesh.x()),
          .y = static_cast<int>(mesh.y()),
          .radix = static_cast<int>(mesh.radix()),
          .wiring = WiringOf(n)};
}
absl::Status CheckHammingMesh(const cluster::Network& n, int ports, int) {
  const cluster::HammingMesh& mesh = n.hamming_mesh();
  Checks checks;
  checks << CheckCounts({{"a", mesh.a()}, {"b", mesh.b()}, {"x", mesh.x()}, {"y", mesh.y()}, {"radix", mesh.radix()}});
  if (checks.ok()) checks << Check(HammingMeshOf(n));
  if (checks.ok()) checks << CheckFull(MostPorts(HammingMeshOf(n)), ports);
  return checks;
}
std::unique_ptr<Topology> HammingMesh(const cluster::Network& n, int, int) { return MakeHammingMesh(HammingMeshOf(n)); }

// ---- full_mesh ----
absl::Status CheckFullMesh(const cluster::Network& n, int ports, int) {
  return Check(FullMeshNetworkOptions{ports, WiringOf(n)});
}
std::unique_ptr<Topology> FullMesh(const cluster::Network& n, int ports, int) {
  return MakeFullMeshNetwork({ports, WiringOf(n)});
}

}  // namespace

const std::vector<NetworkKind>& NetworkKinds() {
  static const std::vector<NetworkKind> kinds = {
      {cluster::Network::kStar, "star", true, CheckStar, Star},
      {cluster::Network::kFatTree, "fat_tree", false, CheckFatTree, FatTree},
      {cluster::Network::kDragonfly, "dragonfly", false, CheckDragonfly, Dragonfly},
      {cluster::Network::kSlingshot, "slingshot", false, CheckSlingshot, Slingshot},
      {cluster::Network::kTorus, "torus", false, CheckTorus, Torus},
      {cluster::Network::kHammingMesh, "hamming_mesh", false, CheckHammingMesh, HammingMesh},
      {cluster::Network::kFullMesh, "full_mesh", true, CheckFullMesh, FullMesh},
  };
  return kinds;
}

const NetworkKind* FindNetworkKind(cluster::Network::KindCase kind) {
  for (const NetworkKind& row : NetworkKinds()) {
    if (row.kind == kind) return &row;
  }
  return nullptr;
}

}  // namespace twofold
