#include "backends/host/simulated_cluster.h"

#include "topologies/catalogue.h"
#include "topologies/grow.h"

namespace twofold::host {

absl::StatusOr<cluster::Cluster> FindSimulatedCluster(const spec::Simulated& simulated,
                                                      std::vector<std::string>* notes) {
  absl::StatusOr<cluster::Cluster> c = FindCluster(simulated.cluster());
  if (!c.ok()) return c;
  std::string oversubscribed, grown;
  if (absl::Status s = Oversubscribe(simulated.oversubscription(), simulated.top_oversubscription(),
                                     "fabric.simulated.", *c, oversubscribed);
      !s.ok())
    return s;
  if (simulated.has_nodes()) {
    if (absl::Status s = Grow(simulated.nodes(), "fabric.simulated.nodes: ", *c, grown); !s.ok()) return s;
  }
  for (const std::string& note : {oversubscribed, grown}) {
    if (notes != nullptr && !note.empty()) notes->push_back(note);
  }
  return c;
}

}  // namespace twofold::host
