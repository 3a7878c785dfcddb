// The cluster that a spec simulates.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/proto/cluster.pb.h"
#include "core/proto/spec.pb.h"

namespace twofold::host {

// fabric.simulated.cluster, grown to fabric.simulated.nodes and with the oversubscriptions that the spec asks for
// (topologies/grow.h). `notes` receives what readers must know of that; may be null.
absl::StatusOr<cluster::Cluster> FindSimulatedCluster(const spec::Simulated& simulated,
                                                      std::vector<std::string>* notes = nullptr);

}  // namespace twofold::host
