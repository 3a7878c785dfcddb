#include "topologies/grow.h"

#include "core/base/format.h"
#include "core/base/status.h"
#include "core/base/strings.h"
#include "topologies/build.h"

namespace twofold {
namespace {

constexpr int64_t kMostGrown = 1 << 20;

bool IsFatTree(const cluster::Cluster& c) { return c.has_machines() && c.machines().network().has_fat_tree(); }

// The cluster with so many nodes, and with 3 levels if these need them.
cluster::Cluster WithNodes(const cluster::Cluster& c, int64_t nodes) {
  cluster::Cluster grown = c;
  grown.mutable_machines()->set_nodes(nodes);
  if (!CheckCluster(grown).ok()) grown.mutable_machines()->mutable_network()->mutable_fat_tree()->set_levels(3);
  return grown;
}

std::string Describe(const cluster::Cluster& c) {
  const cluster::FatTree& tree = c.machines().network().fat_tree();
  return StrCat("a fat tree of ", tree.levels(), " levels of switches with ", tree.radix(),
                " ports, with an oversubscription of ", tree.oversubscription(), " at the leaves",
                tree.levels() == 3 ? StrCat(" and of ", tree.top_oversubscription(), " between pods") : "");
}

}  // namespace

absl::Status Grow(int64_t nodes, std::string_view field, cluster::Cluster& c, std::string& note) {
  const int64_t has = MostNodes(c);
  if ((nodes >= 1 && nodes <= has) || nodes < 1 || !IsFatTree(c)) return CheckNodes(c, nodes, field);
  cluster::Cluster grown = WithNodes(c, nodes);
  if (CheckCluster(grown).ok()) {
    c = std::move(grown);
    note = StrCat("cluster ", c.name(), " of ", CountText(has), " nodes is grown to ", CountText(nodes), ": ",
                  Describe(c));
    return absl::OkStatus();
  }
  int64_t fits = has, none = kMostGrown + 1;
  while (none - fits > 1) {
    const int64_t middle = fits + (none - fits) / 2;
    (CheckCluster(WithNodes(c, middle)).ok() ? fits : none) = middle;
  }
  return InvalidArgument(field, nodes, ": cluster ", c.name(), " can have ", CountText(fits), " nodes at most, as ",
                         Describe(WithNodes(c, fits)), "; use 1 to ", fits,
                         ", or a larger oversubscription, which leaves more ports for nodes and pods");
}

absl::Status Oversubscribe(double leaves, double top, std::string_view prefix, cluster::Cluster& c, std::string& note) {
  if (leaves == 0 && top == 0) return absl::OkStatus();
  const std::string_view field = leaves != 0 ? "oversubscription" : "top_oversubscription";
  const double value = leaves != 0 ? leaves : top;
  if (!IsFatTree(c)) {
    return InvalidArgument(prefix, field, ": ", value, ": the network of cluster ", c.name(),
                           " is not a fat tree; leave it out");
  }
  cluster::Cluster other = c;
  cluster::FatTree& tree = *other.mutable_machines()->mutable_network()->mutable_fat_tree();
  if (leaves != 0) tree.set_oversubscription(leaves);
  if (top != 0) tree.set_levels(3), tree.set_top_oversubscription(top);
  absl::Status status = CheckCluster(other);
  if (!status.ok() && tree.levels() == 2) {
    tree.set_levels(3);
    status = CheckCluster(other);
  }
  if (!status.ok()) {
    return InvalidArgument(prefix, field, ": ", value, ": cluster ", c.name(),
                           " cannot be built with it: ", status.message());
  }
  c = std::move(other);
  note = StrCat("cluster ", c.name(), " has another oversubscription than its description: ", Describe(c));
  return absl::OkStatus();
}

}  // namespace twofold
