// From a spec to what is simulated: cluster, topology, costs and how the ranks share the machine.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "backends/host/costs.h"
#include "backends/simulated/rank.h"
#include "core/base/units.h"
#include "core/device/cost_model.h"
#include "core/proto/spec.pb.h"
#include "sim/collectives/library.h"
#include "sim/collectives/measured.h"
#include "topologies/routing.h"
#include "topologies/graph/topology.h"

namespace twofold {

// What fabric.simulated.links says of a cluster of GPUs whose ranks communicate through the host's memory.
inline constexpr std::string_view kStagedLinks = "staged";

struct SimulationPlan {
  int world_size = 1;
  std::unique_ptr<Topology> topology;
  std::unique_ptr<CostModel> costs;
  SimulatedMachine machine;
  Bytes device_memory;           // of each rank; zero: not bounded
  Bytes host_memory;             // likewise, the host's, for what is offloaded
  Bytes shared_memory;           // of all ranks together, for both; zero: not bounded
  host::HostLink host_link;      // between the two
  int threads = 1;               // per rank
  std::unique_ptr<sim::Library> library;  // whose collectives run
  sim::Choice choice;            // of its algorithm and protocol
  RoutingOptions routing;
  std::vector<int> endpoints;    // where each rank sits
  std::vector<double> compute_factors;  // of each rank's operations' time; empty: 1
  sim::MeasuredCollectives collectives;  // those of the links that join the ranks, where the profile has them
  Range link_spread;             // of communication's times
  std::vector<int> stand_ins;    // where ranks that do the same may run as one: for each rank, which; else empty
  std::string why_not_fold;
  std::vector<std::string> notes;
};

absl::StatusOr<SimulationPlan> MakePlan(const spec::Spec& spec);

}  // namespace twofold
