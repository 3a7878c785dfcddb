// The network's part of a plan: topology, what is wrong with it, where ranks sit, routing and the communication library.
#pragma once

#include "absl/status/status.h"
#include "backends/simulated/plan.h"
#include "core/proto/cluster.pb.h"
#include "core/proto/spec.pb.h"

namespace twofold {

// The topology of a cluster that has links of its own. Ranks fill nodes in order, so as many are built as they need; where
// placement says otherwise, all that the job may use.
absl::Status SetClusterTopology(const spec::Simulated& simulated, const cluster::Cluster& c, SimulationPlan& plan);

// Library, algorithm, protocol and routing.
absl::Status SetLibrary(const spec::Simulated& simulated, const cluster::Cluster& c, SimulationPlan& plan);

// Faults, background and jitter; collectives that were measured on links as they should be count no more.
absl::Status Degrade(const spec::Network& network, SimulationPlan& plan);

// Endpoints by rank, every two of which have a route.
absl::Status Place(const spec::Simulated& simulated, SimulationPlan& plan);

absl::Status SetStragglers(const spec::Simulated& simulated, SimulationPlan& plan);

}  // namespace twofold
