#include "topologies/node_kinds.h"

#include <set>
#include <utility>

#include "core/base/status.h"
#include "core/base/strings.h"
#include "topologies/check_fields.h"
#include "topologies/nodes/cube_mesh.h"
#include "topologies/nodes/full_mesh.h"
#include "topologies/nodes/nvlink_pairs.h"
#include "topologies/nodes/nvswitch.h"
#include "topologies/nodes/pcie_tree.h"
#include "topologies/nodes/single.h"
#include "topologies/nodes/wired.h"

namespace twofold {
namespace {

constexpr int64_t kMostSockets = 16;

absl::Status CheckLink(const cluster::Node& n, int devices) {
  return devices > 1 ? CheckPositive("link_us", n.link_us()) : CheckNotNegative("link_us", n.link_us());
}

// ---- single ----
absl::Status CheckSingle(const cluster::Node&, int) { return absl::OkStatus(); }
NodeType Single(const cluster::Node&, int, const NodeNics& nics) { return MakeSingleNode(nics); }

// ---- nvswitch ----
absl::Status CheckNvSwitch(const cluster::Node& n, int devices) {
  return Checks() << CheckPositive("nvswitch.gbytes_per_second", n.nvswitch().gbytes_per_second())
                  << CheckLink(n, devices);
}
NodeType NvSwitch(const cluster::Node& n, int devices, const NodeNics& nics) {
  return MakeNvSwitchNode({.devices = devices,
                           .bandwidth = GigabytesPerSecond(n.nvswitch().gbytes_per_second()),
                           .latency = Microseconds(n.link_us()),
                           .multicast = n.nvswitch().multicast(),
                           .nics = nics});
}

// ---- cube_mesh ----
absl::Status CheckCubeMesh(const cluster::Node& n, int devices) {
  return Checks() << CheckPositive("cube_mesh.link_gbytes_per_second", n.cube_mesh().link_gbytes_per_second())
                  << CheckPositive("cube_mesh.socket_gbytes_per_second", n.cube_mesh().socket_gbytes_per_second())
                  << CheckPositive("pcie_gbytes_per_second", n.pcie_gbytes_per_second()) << CheckLink(n, devices);
}
NodeType CubeMesh(const cluster::Node& n, int, const NodeNics& nics) {
  return MakeCubeMeshNode({.link_bandwidth = GigabytesPerSecond(n.cube_mesh().link_gbytes_per_second()),
                           .latency = Microseconds(n.link_us()),
                           .pcie_bandwidth = GigabytesPerSecond(n.pcie_gbytes_per_second()),
                           .pcie_latency = Microseconds(n.pcie_us()),
                           .socket_bandwidth = GigabytesPerSecond(n.cube_mesh().socket_gbytes_per_second()),
                           .nics = nics});
}

// ---- nvlink_pairs ----
absl::Status CheckNvlinkPairs(const cluster::Node& n, int devices) {
  Checks checks;
  checks << CheckPositive("nvlink_pairs.gbytes_per_second", n.nvlink_pairs().gbytes_per_second())
         << CheckPositive("nvlink_pairs.host_gbytes_per_second", n.nvlink_pairs().host_gbytes_per_second())
         << CheckLink(n, devices);
  if (devices % 2 != 0) checks << Refuse("devices", devices, "must be even: the devices form pairs");
  return checks;
}
NodeType NvlinkPairs(const cluster::Node& n, int devices, const NodeNics& nics) {
  return MakeNvlinkPairsNode({.devices = devices,
                              .bandwidth = GigabytesPerSecond(n.nvlink_pairs().gbytes_per_second()),
                              .latency = Microseconds(n.link_us()),
                              .pcie_bandwidth = GigabytesPerSecond(n.nvlink_pairs().host_gbytes_per_second()),
                              .pcie_latency = Microseconds(n.pcie_us()),
                              .nics = nics});
}

// ---- full_mesh ----
absl::Status CheckFullMesh(const cluster::Node& n, int devices) {
  return Checks() << CheckPositive("full_mesh.pair_gbytes_per_second", n.full_mesh().pair_gbytes_per_second())
                  << CheckRange("devices", devices, 1, 64) << CheckLink(n, devices);
}
NodeType FullMesh(const cluster::Node& n, int devices, const NodeNics& nics) {
  return MakeFullMeshNode({.devices = devices,
                           .bandwidth = GigabytesPerSecond(n.full_mesh().pair_gbytes_per_second()),
                           .latency = Microseconds(n.link_us()),
                           .nics = nics});
}

// ---- pcie_tree ----
absl::Status CheckPcieTree(const cluster::Node& n, int devices) {
  const cluster::PcieTreeNode& tree = n.pcie_tree();
  Checks checks;
  checks << CheckRange("pcie_tree.devices_per_switch", tree.devices_per_switch(), 1, 1024)
         << CheckRange("pcie_tree.switches_per_socket", tree.switches_per_socket(), 1, 1024)
         << CheckPositive("pcie_gbytes_per_second", n.pcie_gbytes_per_second());
  if (!checks.ok()) return checks;
  const int64_t below = tree.devices_per_switch() * tree.switches_per_socket(), sockets = (devices + below - 1) / below;
  if (sockets > 1) checks << CheckPositive("pcie_tree.socket_gbytes_per_second", tree.socket_gbytes_per_second());
  if (sockets > kMostSockets) {
    checks << Refuse("devices", devices, "with ", below, " devices per socket there are ", sockets,
                     " sockets; at most ", kMostSockets, " are supported");
  }
  return checks;
}
NodeType PcieTree(const cluster::Node& n, int devices, const NodeNics& nics) {
  return MakePcieTreeNode({.devices = devices,
                           .devices_per_switch = static_cast<int>(n.pcie_tree().devices_per_switch()),
                           .switches_per_socket = static_cast<int>(n.pcie_tree().switches_per_socket()),
                           .pcie_bandwidth = GigabytesPerSecond(n.pcie_gbytes_per_second()),
                           .pcie_latency = Microseconds(n.pcie_us()),
                           .socket_bandwidth = GigabytesPerSecond(n.pcie_tree().socket_gbytes_per_second()),
                           .nics = nics});
}

// ---- wired ----
int DevicesPerSocket(const cluster::Node& n, int devices) {
  return n.wired().has_devices_per_socket() ? static_cast<int>(n.wired().devices_per_socket()) : devices;
}
absl::Status CheckCables(const cluster::Node& n, int devices) {
  std::set<std::pair<int64_t, int64_t>> joined;
  for (int i = 0; i < n.wired().cable_size(); ++i) {
    const cluster::WiredNode::Cable& cable = n.wired().cable(i);
    const std::string field = StrCat("wired.cable[", i, "]");
    Checks checks;
    checks << CheckRange(field + ".a", cable.a(), 0, devices - 1) << CheckRange(field + ".b", cable.b(), 0, devices - 1)
           << CheckPositive(field + ".gbytes_per_second", cable.gbytes_per_second());
    if (cable.a() == cable.b()) checks << Refuse(field + ".b", cable.b(), "connects a device to itself");
    if (!joined.insert(std::minmax(cable.a(), cable.b())).second) {
      checks << InvalidArgument(field, ": ", cable.a(), " and ", cable.b(),
                                " are already connected; give one cable the total rate");
    }
    if (!checks.ok()) return checks;
  }
  return absl::OkStatus();
}
absl::Status CheckWired(const cluster::Node& n, int devices) {
  const cluster::WiredNode& wired = n.wired();
  Checks checks;
  if (wired.has_devices_per_socket())
    checks << CheckRange("wired.devices_per_socket", wired.devices_per_socket(), 1, devices);
  checks << CheckPositive("wired.host_gbytes_per_second", wired.host_gbytes_per_second()) << CheckCables(n, devices)
         << (wired.cable_size() > 0 ? CheckPositive("link_us", n.link_us()) : CheckNotNegative("link_us", n.link_us()));
  if (!checks.ok()) return checks;
  const int per = DevicesPerSocket(n, devices), sockets = (devices + per - 1) / per;
  if (sockets > 1) checks << CheckPositive("wired.socket_gbytes_per_second", wired.socket_gbytes_per_second());
  if (sockets > kMostSockets) {
    checks << Refuse("wired.devices_per_socket", per, "gives ", sockets, " sockets for ", devices, " devices; at most ",
                     kMostSockets, " are supported");
  }
  for (int k = 0; k < wired.nic_at_size(); ++k) {
    checks << CheckRange(StrCat("wired.nic_at[", k, "]"), wired.nic_at(k), 0, devices - 1);
  }
  const int64_t nics = n.has_nics() ? n.nics() : devices;
  if (wired.nic_at_size() > 0 && wired.nic_at_size() != nics) {
    checks << InvalidArgument("wired.nic_at: lists ", wired.nic_at_size(), " devices for nics = ", nics,
                              "; list one device per NIC");
  }
  return checks;
}
NodeType Wired(const cluster::Node& n, int devices, const NodeNics& nics) {
  WiredNodeOptions options{.devices = devices,
                           .cables = {},
                           .latency = Microseconds(n.link_us()),
                           .devices_per_socket = DevicesPerSocket(n, devices),
                           .host_bandwidth = GigabytesPerSecond(n.wired().host_gbytes_per_second()),
                           .host_latency = Microseconds(n.pcie_us()),
                           .socket_bandwidth = GigabytesPerSecond(n.wired().socket_gbytes_per_second()),
                           .nics = nics,
                           .nic_at = {}};
  for (const cluster::WiredNode::Cable& c : n.wired().cable()) {
    options.cables.push_back(
        {static_cast<int>(c.a()), static_cast<int>(c.b()), GigabytesPerSecond(c.gbytes_per_second())});
  }
  if (nics.count > 0) options.nic_at.assign(n.wired().nic_at().begin(), n.wired().nic_at().end());
  return MakeWiredNode(options);
}

}  // namespace

const std::vector<NodeKind>& NodeKinds() {
  static const std::vector<NodeKind> kinds = {
      {cluster::Node::kSingle, "single", 1, CheckSingle, Single},
      {cluster::Node::kNvswitch, "nvswitch", 0, CheckNvSwitch, NvSwitch},
      {cluster::Node::kCubeMesh, "cube_mesh", 8, CheckCubeMesh, CubeMesh},
      {cluster::Node::kNvlinkPairs, "nvlink_pairs", 0, CheckNvlinkPairs, NvlinkPairs},
      {cluster::Node::kFullMesh, "full_mesh", 0, CheckFullMesh, FullMesh},
      {cluster::Node::kPcieTree, "pcie_tree", 0, CheckPcieTree, PcieTree},
      {cluster::Node::kWired, "wired", 0, CheckWired, Wired},
  };
  return kinds;
}

const NodeKind* FindNodeKind(cluster::Node::KindCase kind) {
  for (const NodeKind& row : NodeKinds()) {
    if (row.kind == kind) return &row;
  }
  return nullptr;
}

}  // namespace twofold
