// Turns a spec into a simulation plan: cluster, topology, costs and how the ranks share the machine.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "backends/host/costs.h"
#include "backends/simulated/costs.h"
#include "backends/simulated/rank.h"
#include "backends/simulated/rank_classes.h"
#include "core/base/units.h"
#include "core/device/cost_model.h"
#include "core/proto/framework.pb.h"
#include "core/proto/spec.pb.h"
#include "core/run/file_costs.h"
#include "sim/collectives/library.h"
#include "sim/collectives/measured.h"
#include "topologies/graph/topology.h"
#include "topologies/routing.h"

namespace twofold {

// The value of fabric.simulated.links for a cluster of GPUs whose ranks communicate through host memory.
inline constexpr std::string_view kStagedLinks = "staged";

struct SimulationPlan {
  int world_size = 1;
  bool elastic = false;    // world_size is the most members that there can ever be
  int ranks_per_site = 1;  // world_size unless fabric.simulated.sites divides the ranks
  std::shared_ptr<const Topology> topology;
  std::unique_ptr<CostModel> costs;
  SimulatedMachine machine;
  Bytes device_memory;       // per rank; zero: not bounded
  bool assume_fits = false;  // ranks may exceed these bounds
  Bytes host_memory;         // host memory per rank, for offloaded data; zero: not bounded
  FileCosts files;
  Bytes shared_memory;                    // for all ranks together, for both kinds; zero: not bounded
  host::HostLink host_link;               // between device and host memory
  int threads = 1;                        // per rank
  std::unique_ptr<sim::Library> library;  // the communication library that is modelled
  sim::Choice choice;                     // choice of the library's algorithm and protocol
  RoutingOptions routing;
  bool simgrid = false;                  // SimGrid divides bandwidth, flow by flow
  bool counts_steps = false;             // steps that repeat are counted (steady_state.h)
  bool may_differ_briefly = false;       // ranks of a class (ProcessGroup::RanksDifferBriefly)
  std::vector<int> endpoints;            // the endpoint of each rank
  std::vector<double> compute_factors;   // factor on each rank's operation times; empty: 1
  sim::MeasuredCollectives collectives;  // measured on the links that join the ranks, if the profile has them
  Range link_spread;                     // uncertainty of communication times
  // If ranks of one class may be simulated as one (rank_classes.h): for each rank, the one that stands for it; else
  // empty.
  std::vector<int> stand_ins;
  std::string why_not_fold;
  std::vector<Meetings> meetings;   // by which classes were found
  framework::TpOverlap tp_overlap;  // of the framework, whether or not the spec has tp_overlap
  std::vector<std::string> notes;
  Moment building;  // what it took
};

absl::StatusOr<SimulationPlan> MakePlan(const spec::Spec& spec);

}  // namespace twofold
