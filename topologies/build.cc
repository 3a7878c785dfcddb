#include "topologies/build.h"

#include <algorithm>
#include <string>
#include <utility>

#include "core/base/format.h"
#include "core/base/status.h"
#include "core/base/strings.h"
#include "topologies/check_fields.h"
#include "topologies/import/node_file.h"
#include "topologies/network_kinds.h"
#include "topologies/networks/shared_memory_host.h"
#include "topologies/networks/star.h"
#include "topologies/node_kinds.h"
#include "topologies/routing.h"

namespace twofold {
namespace {

constexpr int64_t kMostNodes = 1 << 20, kMostInNode = 1024, kMostLinks = 1 << 24;
constexpr int64_t kMostSharing = 1 << 16;  // ranks that share the memory of one host

template <class Rows>
std::string Names(const Rows& rows) {
  std::string names;
  for (const auto& row : rows) StrAppend(&names, names.empty() ? "" : ", ", row.name, " {}");
  return names;
}

int DevicesOf(const cluster::Node& node, const NodeKind& kind) {
  return kind.devices > 0 ? kind.devices : static_cast<int>(node.devices());
}

// Without a network, the node has NICs only if the rate of their cables is known.
NodeNics NicsOf(const cluster::Machines& m, int devices) {
  const double rate =
      m.node().pcie_gbytes_per_second() > 0 ? m.node().pcie_gbytes_per_second() : m.network().link_gbytes_per_second();
  return {.count = rate > 0 ? static_cast<int>(m.node().has_nics() ? m.node().nics() : devices) : 0,
          .bandwidth = GigabytesPerSecond(rate),
          .latency = Microseconds(m.node().pcie_us())};
}

absl::Status CheckNode(const cluster::Node& node) {
  if (node.kind_case() == cluster::Node::kFile) {
    if (node.has_devices() || node.has_nics() || node.has_link_us() || node.has_pcie_us()) {
      return InvalidArgument(
          "file: the file determines devices, NICs and links; leave out devices, nics, link_us and pcie_us");
    }
    // The file is checked when it is read during building.
    return node.has_pcie_gbytes_per_second() ? CheckPositive("pcie_gbytes_per_second", node.pcie_gbytes_per_second())
                                             : absl::OkStatus();
  }
  const NodeKind* kind = FindNodeKind(node.kind_case());
  if (kind == nullptr) return InvalidArgument("kind: missing; use one of ", Names(NodeKinds()), ", file");
  Checks checks;
  checks << CheckRange("devices", node.devices(), 1, kMostInNode) << CheckRange("nics", node.nics(), 0, kMostInNode)
         << CheckNotNegative("pcie_gbytes_per_second", node.pcie_gbytes_per_second())
         << CheckNotNegative("pcie_us", node.pcie_us()) << CheckNotNegative("link_us", node.link_us());
  if (kind->devices > 0 && node.has_devices() && node.devices() != kind->devices) {
    checks << Refuse("devices", node.devices(), "a ", kind->name, " node has ", kind->devices);
  }
  if (!checks.ok()) return checks;
  return kind->check(node, DevicesOf(node, *kind));
}

absl::Status CheckWiring(const cluster::Network& n) {
  return Checks() << CheckPositive("link_gbytes_per_second", n.link_gbytes_per_second())
                  << CheckNotNegative("cable_us", n.cable_us()) << CheckNotNegative("switch_us", n.switch_us())
                  << CheckNotNegative("nic_us", n.nic_us());
}

absl::Status CheckNetwork(const cluster::Machines& m, int64_t nodes, const NodeType& node) {
  const cluster::Network& n = m.network();
  const NetworkKind* kind = FindNetworkKind(n.kind_case());
  if (kind == nullptr) {
    return InvalidArgument("machines.network: kind: missing; use one of ", Names(NetworkKinds()));
  }
  if (node.nics.empty() && node.devices.size() > 1) {
    return InvalidArgument("machines.node.nics = 0: a node of ", node.devices.size(),
                           " devices has no port for the network; use at least 1");
  }
  const int64_t rails = std::max<int64_t>(1, static_cast<int64_t>(node.nics.size()));
  Checks checks;
  checks << Within("machines.network.", CheckWiring(n));
  if (nodes * rails > kMostNodes) {
    checks << Refuse("machines.nodes", nodes, "with ", rails, " NICs per node there are ", nodes * rails,
                     " ports; at most ", kMostNodes, " are supported");
  }
  if (!checks.ok()) return checks;
  const absl::Status fits = kind->check(n, static_cast<int>(nodes * rails), static_cast<int>(rails));
  if (fits.message().substr(0, 8) == "ports = ") {  // not a field of the file
    return Within(StrCat("machines.nodes = ", nodes, ": ", Counted(rails, "port"), " per node, ", kind->name, ": "),
                  fits);
  }
  return Within(StrCat("machines.network.", kind->name, "."), fits);
}

absl::Status CheckMachines(const cluster::Machines& m) {
  const int64_t nodes = m.has_nodes() ? m.nodes() : 1;
  Checks checks;
  checks << CheckRange("machines.nodes", nodes, 1, kMostNodes) << Within("machines.node.", CheckNode(m.node()));
  if (nodes > 1 && !m.has_network()) {
    checks << InvalidArgument("machines.network: missing; ", nodes, " nodes need a network");
  }
  if (!checks.ok()) return checks;
  const absl::StatusOr<NodeType> node = BuildNode(m);
  if (!node.ok()) return node.status();
  const int64_t links = nodes * static_cast<int64_t>(node->graph.links.size());
  if (links > kMostLinks) {
    checks << Refuse("machines.nodes", nodes, "the nodes would have ", links, " links; at most ", kMostLinks,
                     " are supported");
  }
  if (checks.ok() && m.has_network()) checks << CheckNetwork(m, nodes, *node);
  return checks;
}

std::unique_ptr<Topology> BuildSharedMemoryHost(const cluster::SharedMemoryHost& host, int ranks) {
  SharedMemoryHostOptions options{.ranks = ranks};
  if (host.core_gbytes_per_second() > 0) options.core_bandwidth = GigabytesPerSecond(host.core_gbytes_per_second());
  if (host.total_gbytes_per_second() > 0) options.total_bandwidth = GigabytesPerSecond(host.total_gbytes_per_second());
  if (host.latency_us() > 0) options.latency = Microseconds(host.latency_us());
  return MakeSharedMemoryHost(options);
}

int NodesBuilt(const cluster::Machines& m, int nodes) {
  const NetworkKind* kind = FindNetworkKind(m.network().kind_case());
  return nodes == 1 || kind == nullptr || kind->grows ? nodes : static_cast<int>(m.nodes());
}

absl::StatusOr<std::unique_ptr<Topology>> BuildMachines(const cluster::Machines& m, int nodes) {
  absl::StatusOr<NodeType> node = BuildNode(m);
  if (!node.ok()) return node.status();
  if (nodes == 1) return MakeClusterTopology(*std::move(node), 1, nullptr);
  const NetworkKind* kind = FindNetworkKind(m.network().kind_case());
  if (kind == nullptr) return InvalidArgument("machines.network: kind: missing");
  const int built = NodesBuilt(m, nodes), rails = std::max(1, static_cast<int>(node->nics.size()));
  return MakeClusterTopology(*std::move(node), built, kind->make(m.network(), built * rails, rails),
                             m.network().reduction());
}

// Of the formats, nvidia-smi's matrix alone leaves the rate of PCIe to the cluster's file.
absl::Status StatesNoRates(const std::string& file) {
  const absl::StatusOr<std::string> text = ReadWholeFile(file);
  const absl::StatusOr<NodeFormat> format = text.ok() ? FormatOf(*text, file) : text.status();
  if (!format.ok()) return Within("machines.node.file: ", format.status());
  if (*format == NodeFormat::kSmi) return absl::OkStatus();
  return InvalidArgument("machines.node.pcie_gbytes_per_second: ", file,
                         " states the rates of its links; leave it out");
}

absl::StatusOr<NodeType> ReadNode(const cluster::Node& n) {
  ImportAssumptions assumptions;
  if (n.has_pcie_gbytes_per_second()) {
    if (absl::Status s = StatesNoRates(n.file()); !s.ok()) return s;
    assumptions.pcie = GigabytesPerSecond(n.pcie_gbytes_per_second());
  }
  absl::StatusOr<NodeType> node = ReadNodeFile(n.file(), assumptions);
  if (!node.ok()) return Within("machines.node.file: ", node.status());
  if (node->devices.size() > kMostInNode) {
    return Refuse("machines.node.file", n.file(), "the file has ", node->devices.size(), " devices; at most ",
                  kMostInNode, " are supported");
  }
  if (absl::Status s = CheckNodeType(*node); !s.ok()) return Within(StrCat("machines.node.file = ", n.file(), ": "), s);
  return node;
}

}  // namespace

absl::StatusOr<NodeType> BuildNode(const cluster::Machines& m) {
  if (m.node().kind_case() == cluster::Node::kFile) return ReadNode(m.node());
  const NodeKind* kind = FindNodeKind(m.node().kind_case());
  if (kind == nullptr) return InvalidArgument("machines.node: kind: missing");
  const int devices = DevicesOf(m.node(), *kind);
  return kind->make(m.node(), devices, NicsOf(m, devices));
}

int64_t MostNodes(const cluster::Cluster& c) {
  if (c.has_star()) return c.star().hosts();
  if (c.has_machines()) return c.machines().has_nodes() ? c.machines().nodes() : 1;
  return kMostSharing;
}

absl::Status CheckNodes(const cluster::Cluster& c, int64_t nodes, std::string_view field) {
  const int64_t most = MostNodes(c);
  if (nodes >= 1 && nodes <= most) return absl::OkStatus();
  return InvalidArgument(field, nodes, ": cluster ", c.name(), " has ", Counted(most, c.has_star() ? "host" : "node"),
                         "; use ", most == 1 ? "" : "1 to ", most);
}

absl::StatusOr<int> DevicesPerNode(const cluster::Cluster& c) {
  if (!c.has_machines()) return 1;
  absl::StatusOr<NodeType> node = BuildNode(c.machines());
  if (!node.ok()) return node.status();
  return static_cast<int>(node->devices.size());
}

absl::Status CheckCluster(const cluster::Cluster& c) {
  Checks checks;
  if (const absl::StatusOr<RoutingPolicy> routing = RoutingNamed(c.routing()); !routing.ok()) {
    checks << Within(StrCat("routing = ", c.routing(), ": "), routing.status());
  }
  checks << CheckRange("routing_paths", c.routing_paths(), 1, 4096);
  switch (c.topology_case()) {
    case cluster::Cluster::kStar:
      checks << CheckRange("star.hosts", c.star().hosts(), 1, kMostNodes)
             << CheckPositive("star.link_gbytes_per_second", c.star().link_gbytes_per_second())
             << CheckPositive("star.latency_us", c.star().latency_us());
      if (c.star().devices_per_host() != 1) {
        checks << Refuse("star.devices_per_host", c.star().devices_per_host(),
                         "a star has one device per host; use 1, or machines {} for more");
      }
      break;
    case cluster::Cluster::kMachines: checks << CheckMachines(c.machines()); break;
    case cluster::Cluster::kSharedMemoryHost:
      checks << CheckRange("shared_memory_host.cores", c.shared_memory_host().cores(), 0, kMostSharing)
             << CheckNotNegative("shared_memory_host.latency_us", c.shared_memory_host().latency_us())
             << CheckNotNegative("shared_memory_host.core_gbytes_per_second",
                                 c.shared_memory_host().core_gbytes_per_second())
             << CheckNotNegative("shared_memory_host.total_gbytes_per_second",
                                 c.shared_memory_host().total_gbytes_per_second());
      break;
    case cluster::Cluster::TOPOLOGY_NOT_SET:
      checks << InvalidArgument("topology: missing; use machines {}, star {} or shared_memory_host {}");
  }
  return checks;
}

int NodesBuilt(const cluster::Cluster& c, int nodes) {
  return c.has_machines() ? NodesBuilt(c.machines(), nodes) : nodes;
}

absl::StatusOr<std::unique_ptr<Topology>> BuildTopology(const cluster::Cluster& c, int nodes) {
  if (absl::Status s = CheckRange("nodes", nodes, 1, MostNodes(c)); !s.ok())
    return Within(StrCat("cluster ", c.name(), ": "), s);
  if (c.has_machines()) return BuildMachines(c.machines(), nodes);
  if (c.has_shared_memory_host()) return BuildSharedMemoryHost(c.shared_memory_host(), nodes);
  return MakeStar({.hosts = nodes,
                   .bandwidth = GigabytesPerSecond(c.star().link_gbytes_per_second()),
                   .latency = Microseconds(c.star().latency_us())});
}

}  // namespace twofold
