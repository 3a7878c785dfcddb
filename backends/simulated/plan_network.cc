#include "backends/simulated/plan_network.h"

#include <algorithm>
#include <string>
#include <utility>

#include "absl/strings/str_join.h"
#include "core/base/status.h"
#include "core/base/strings.h"
#include "topologies/build.h"
#include "topologies/degraded.h"
#include "topologies/placement.h"

namespace twofold {
namespace {

absl::Status CheckName(std::string_view field, const std::string& name, std::string_view library,
                       const std::vector<std::string_view>& names) {
  if (name == "auto" || std::find(names.begin(), names.end(), name) != names.end()) return absl::OkStatus();
  std::string known = "auto";
  for (std::string_view n : names) StrAppend(&known, ", ", n);
  return InvalidArgument(
      "fabric.simulated.", field, ": \"", name, "\": library ", library,
      names.empty() ? StrCat(" has no ", field, "s; use auto") : StrCat(" does not have it; use one of ", known));
}

}  // namespace

absl::Status SetClusterTopology(const spec::Simulated& simulated, const cluster::Cluster& c, SimulationPlan& plan) {
  const absl::StatusOr<int> devices = DevicesPerNode(c);
  if (!devices.ok())
    return absl::Status(devices.status().code(), StrCat("cluster ", c.name(), ": ", devices.status().message()));
  const int64_t most = simulated.has_nodes() ? simulated.nodes() : MostNodes(c);
  if (absl::Status s = CheckNodes(c, most, "fabric.simulated.nodes: "); !s.ok()) return s;
  const int64_t needed = (plan.world_size + *devices - 1) / *devices;
  if (needed > most) {
    return InvalidArgument("parallel: ", plan.world_size, " ranks do not fit cluster ", c.name(), " with ", most,
                           c.has_star() ? " hosts" : " nodes", " of ",
                           *devices == 1 ? "one device" : StrCat(*devices, " devices"),
                           "; use fewer ranks or more nodes");
  }
  const bool in_order = simulated.placement().policy() == spec::Placement::LINEAR;
  absl::StatusOr<std::unique_ptr<Topology>> topology = BuildTopology(c, static_cast<int>(in_order ? needed : most));
  if (!topology.ok())
    return absl::Status(topology.status().code(), StrCat("cluster ", c.name(), ": ", topology.status().message()));
  plan.topology = *std::move(topology);
  return absl::OkStatus();
}

absl::Status SetLibrary(const spec::Simulated& simulated, const cluster::Cluster& c, SimulationPlan& plan) {
  absl::StatusOr<std::unique_ptr<sim::Library>> library = sim::MakeLibrary(c.library());
  if (!library.ok())
    return absl::Status(library.status().code(), StrCat("cluster ", c.name(), ": ", library.status().message()));
  plan.library = *std::move(library);
  plan.choice = {simulated.algorithm(), simulated.protocol()};
  for (absl::Status s :
       {CheckName("algorithm", simulated.algorithm(), plan.library->name(), plan.library->algorithms()),
        CheckName("protocol", simulated.protocol(), plan.library->name(), plan.library->protocols())}) {
    if (!s.ok()) return s;
  }
  const std::string& name = simulated.has_routing() ? simulated.routing() : c.routing();
  const absl::StatusOr<RoutingPolicy> policy = RoutingNamed(name);
  if (!policy.ok()) {
    return InvalidArgument(
        simulated.has_routing() ? "fabric.simulated.routing" : StrCat("cluster ", c.name(), ": routing"), ": ",
        policy.status().message());
  }
  if (c.routing_paths() < 1 || c.routing_paths() > 4096) {
    return InvalidArgument("cluster ", c.name(), ": routing_paths must be 1 to 4096 (got ", c.routing_paths(), ")");
  }
  plan.routing = {.policy = *policy,
                  .seed = static_cast<uint64_t>(simulated.network().seed()),
                  .most_paths = static_cast<int>(c.routing_paths())};
  if (*policy != RoutingPolicy::kDeterministic) {
    plan.notes.push_back(
        StrCat("routing is ", name,
               *policy == RoutingPolicy::kEcmp ? "" : StrCat(", over at most ", c.routing_paths(), " paths per flow"),
               *policy == RoutingPolicy::kSpray ? "" : StrCat(", seed ", plan.routing.seed)));
  }
  return absl::OkStatus();
}

absl::Status Degrade(const spec::Network& network, SimulationPlan& plan) {
  Degradation degradation = {
      .background = network.background(), .jitter = network.jitter(), .seed = static_cast<uint64_t>(network.seed())};
  for (const spec::LinkFault& f : network.faults()) {
    degradation.faults.push_back(
        {.link = f.link(), .failed = f.failed(), .bandwidth = f.bandwidth(), .latency = Microseconds(f.latency_us())});
  }
  if (degradation.nothing()) return absl::OkStatus();
  absl::StatusOr<Degraded> degraded = MakeDegraded(std::move(plan.topology), degradation);
  if (!degraded.ok()) return degraded.status();
  plan.topology = std::move(degraded->topology);
  for (const std::string& note : degraded->notes) plan.notes.push_back(StrCat("the network is degraded: ", note));
  if (!plan.collectives.empty()) {
    plan.collectives = {};
    plan.notes.push_back(
        "measured collectives are not used, because the network was not degraded when they were measured");
  }
  return absl::OkStatus();
}

absl::Status Place(const spec::Simulated& simulated, SimulationPlan& plan) {
  const spec::Placement& placement = simulated.placement();
  PlacementOptions options = {.seed = static_cast<uint64_t>(placement.seed()),
                              .hosts = {placement.hosts().begin(), placement.hosts().end()}};
  switch (placement.policy()) {
    case spec::Placement::LINEAR: options.policy = PlacementOptions::kLinear; break;
    case spec::Placement::BY_GROUP: options.policy = PlacementOptions::kByGroup; break;
    case spec::Placement::RANDOM: options.policy = PlacementOptions::kRandom; break;
    case spec::Placement::HOSTS: options.policy = PlacementOptions::kHosts; break;
  }
  absl::StatusOr<std::vector<int>> endpoints = PlaceRanks(*plan.topology, plan.world_size, options);
  if (!endpoints.ok()) return endpoints.status();
  plan.endpoints = *std::move(endpoints);
  switch (placement.policy()) {
    case spec::Placement::LINEAR: break;
    case spec::Placement::BY_GROUP:
      plan.notes.push_back("ranks are placed node by node, taking the groups in turn");
      break;
    case spec::Placement::RANDOM:
      plan.notes.push_back(StrCat("ranks are placed on shuffled nodes, seed ", placement.seed()));
      break;
    case spec::Placement::HOSTS:
      plan.notes.push_back(StrCat("ranks are placed on nodes ", absl::StrJoin(placement.hosts(), ", ")));
      break;
  }
  if (simulated.network().faults().empty()) return absl::OkStatus();
  return CheckRoutes(*plan.topology, plan.endpoints);
}

absl::Status SetStragglers(const spec::Simulated& simulated, SimulationPlan& plan) {
  for (int i = 0; i < simulated.stragglers_size(); ++i) {
    const spec::Straggler& s = simulated.stragglers(i);
    if (s.rank() >= plan.world_size) {
      return InvalidArgument("fabric.simulated.stragglers[", i, "].rank must be 0 to ", plan.world_size - 1, " (got ",
                             s.rank(), "); there are ", plan.world_size, " ranks");
    }
    plan.compute_factors.resize(static_cast<size_t>(plan.world_size), 1);
    plan.compute_factors[static_cast<size_t>(s.rank())] = s.factor();
    plan.notes.push_back(StrCat("rank ", s.rank(), "'s operations take ", s.factor(), " times as long"));
  }
  return absl::OkStatus();
}

}  // namespace twofold
