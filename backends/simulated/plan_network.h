// The network part of a plan: topology, its faults, placement of ranks, routing and the communication library.
#pragma once

#include "absl/status/status.h"
#include "backends/simulated/plan.h"
#include "core/proto/cluster.pb.h"
#include "core/proto/spec.pb.h"

namespace twofold {

// The topology of a cluster with links of its own. Ranks fill nodes in order, so only as many nodes are built as they
// need; if placement says otherwise, all nodes that the job may use.
absl::Status SetClusterTopology(const spec::Simulated& simulated, const cluster::Cluster& c, SimulationPlan& plan);

// Sets library, algorithm, protocol and routing.
absl::Status SetLibrary(const spec::Simulated& simulated, const cluster::Cluster& c, SimulationPlan& plan);

// Sets ranks_per_site. Refuses ranks that sites cannot share evenly.
absl::Status DivideIntoSites(const spec::Simulated& simulated, SimulationPlan& plan);

// Sets the ranks' endpoints, in each site if there are several.
absl::Status Place(const spec::Simulated& simulated, SimulationPlan& plan);

// Joins copies of the topology, with its ranks, to the sites that the spec asks for. Notes which groups of ranks cross
// sites.
void Join(const spec::Spec& spec, SimulationPlan& plan);

// Applies faults, background traffic and jitter. Collectives that were measured on healthy links are then no longer
// used. Every pair of ranks has a route afterwards.
absl::Status Degrade(const spec::Network& network, SimulationPlan& plan);

absl::Status SetStragglers(const spec::Simulated& simulated, SimulationPlan& plan);

}  // namespace twofold
