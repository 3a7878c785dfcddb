#include "topologies/network_kinds.h"

#include <initializer_list>
#include <utility>

#include "topologies/check_fields.h"
#include "topologies/fat_tree.h"
#include "topologies/network.h"
#include "topologies/star.h"

namespace twofold {
namespace {

BytesPerSecond Rate(double gbytes_per_second) { return BytesPerSecond(gbytes_per_second * 1e9); }

Wiring WiringOf(const cluster::Network& n) {
  return {.bandwidth = Rate(n.link_gbytes_per_second()),
          .cable = Microseconds(n.cable_us()),
          .switching = Microseconds(n.switch_us()),
          .nic = Microseconds(n.nic_us())};
}

// Counts fit an int, and so do their products an int64_t; builders say what else is wrong.
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
std::unique_ptr<Topology> FatTree(const cluster::Network& n, int ports, int rails) { return MakeFatTree(FatTreeOf(n, ports, rails)); }

}  // namespace

const std::vector<NetworkKind>& NetworkKinds() {
  static const std::vector<NetworkKind> kinds = {
      {cluster::Network::kStar, "star", true, CheckStar, Star},
      {cluster::Network::kFatTree, "fat_tree", false, CheckFatTree, FatTree},
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
