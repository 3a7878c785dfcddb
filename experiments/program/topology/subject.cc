#include "experiments/program/topology/subject.h"

#include <filesystem>
#include <utility>

#include "core/base/strings.h"
#include "topologies/catalogue.h"
#include "topologies/check_fields.h"
#include "topologies/grow.h"

namespace twofold::topology {

absl::StatusOr<cluster::Cluster> Find(const std::string& name) {
  std::error_code none;
  if (name.ends_with(".textproto") || !std::filesystem::is_regular_file(name, none))
    return FindCluster(name, "topology");
  cluster::Cluster c;
  c.set_name(std::filesystem::path(name).filename().string());
  c.set_summary(StrCat("imported from ", name));
  c.mutable_machines()->set_nodes(1);
  c.mutable_machines()->mutable_node()->set_file(name);
  return c;
}

absl::StatusOr<int> NodesOf(cluster::Cluster& c, std::optional<int64_t> asked) {
  if (asked) {
    std::string note;  // the figures say it
    if (absl::Status s = Grow(*asked, "--nodes=", c, note); !s.ok()) return s;
    return static_cast<int>(*asked);
  }
  if (!c.has_shared_memory_host()) return static_cast<int>(MostNodes(c));
  return static_cast<int>(c.shared_memory_host().cores() > 0 ? c.shared_memory_host().cores() : 4);
}

absl::StatusOr<Subject> Load(const std::string& name, std::optional<int64_t> asked) {
  absl::StatusOr<cluster::Cluster> c = Find(name);
  if (!c.ok()) return c.status();
  const absl::StatusOr<int> nodes = NodesOf(*c, asked);  // may grow it
  if (!nodes.ok()) return nodes.status();
  Subject subject{.cluster = *std::move(c), .nodes = *nodes};
  absl::StatusOr<std::unique_ptr<Topology>> topology = BuildTopology(subject.cluster, subject.nodes);
  if (!topology.ok()) return Within(StrCat(name, ": "), topology.status());
  subject.topology = *std::move(topology);
  if (!subject.cluster.has_machines()) return subject;
  absl::StatusOr<NodeType> node = BuildNode(subject.cluster.machines());
  if (!node.ok()) return Within(StrCat(name, ": "), node.status());
  if (node->graph.vertices.size() > 1) subject.node = *std::move(node);
  return subject;
}

}  // namespace twofold::topology
