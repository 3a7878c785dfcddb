#include "backends/simulated/plan_network.h"

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>

#include "absl/strings/str_join.h"
#include "core/base/status.h"
#include "core/base/strings.h"
#include "core/comm/device_mesh.h"
#include "topologies/build.h"
#include "topologies/degraded.h"
#include "topologies/placement.h"
#include "topologies/sites.h"

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

// The axes of the mesh along which ranks of one group are in different sites.
std::string AxesAcrossSites(const spec::Parallel& p, const SimulationPlan& plan) {
  const auto order = ParseMeshOrder(p.order());
  if (!order.ok()) return "";  // refused elsewhere
  const MeshShape mesh{.pp = static_cast<int>(p.pp()),
                       .dp = static_cast<int>(p.dp()),
                       .cp = static_cast<int>(p.cp()),
                       .tp = static_cast<int>(p.tp()),
                       .order = *order};
  bool pp = false, dp = false, cp = false, tp = false;
  for (int rank = 0; rank < plan.world_size; ++rank) {
    const MeshPlace at = PlaceOf(mesh, rank);
    const auto far = [&](const MeshPlace& first) {
      return rank / plan.ranks_per_site != RankAt(mesh, first) / plan.ranks_per_site;
    };
    pp = pp || far({.pp = 0, .dp = at.dp, .cp = at.cp, .tp = at.tp});
    dp = dp || far({.pp = at.pp, .dp = 0, .cp = at.cp, .tp = at.tp});
    cp = cp || far({.pp = at.pp, .dp = at.dp, .cp = 0, .tp = at.tp});
    tp = tp || far({.pp = at.pp, .dp = at.dp, .cp = at.cp, .tp = 0});
  }
  std::vector<std::string> axes;
  for (const auto& [crosses, name] :
       {std::pair(pp, "pp"), std::pair(dp, "dp"), std::pair(cp, "cp"), std::pair(tp, "tp")}) {
    if (crosses) axes.emplace_back(name);
  }
  return absl::StrJoin(axes, ", ");
}

// Topologies that were built before: a process that predicts many jobs needs few different ones. They are forgotten
// when they would take much memory; what was made from files, which may change, is not kept.
absl::StatusOr<std::shared_ptr<const Topology>> BuiltTopology(const cluster::Cluster& c, int nodes) {
  constexpr size_t kMostKept = 64,
                   kMostLinks = 500'000;  // of all of them; about 150 bytes a link, once they are listed
  static std::mutex mutex;
  static auto& known = *new std::map<std::pair<std::string, int>, std::shared_ptr<const Topology>>;
  const std::pair key(c.SerializeAsString(), NodesBuilt(c, nodes));
  {
    const std::lock_guard lock(mutex);
    if (const auto it = known.find(key); it != known.end()) return it->second;
  }
  absl::StatusOr<std::unique_ptr<Topology>> built = BuildTopology(c, nodes);
  if (!built.ok()) return built.status();
  std::shared_ptr<const Topology> topology = *std::move(built);
  const std::lock_guard lock(mutex);
  if (c.has_machines() && !c.machines().node().file().empty()) return topology;
  size_t links = topology->link_count();
  for (const auto& [unused, kept] : known) links += kept->link_count();
  if (links > kMostLinks || known.size() == kMostKept) known.clear();
  if (topology->link_count() <= kMostLinks) known[key] = topology;
  return topology;
}

}  // namespace

absl::Status SetClusterTopology(const spec::Simulated& simulated, const cluster::Cluster& c, SimulationPlan& plan) {
  const absl::StatusOr<int> devices = DevicesPerNode(c);
  if (!devices.ok())
    return absl::Status(devices.status().code(), StrCat("cluster ", c.name(), ": ", devices.status().message()));
  const int64_t per_node = simulated.placement().ranks_per_node();
  const int64_t each = per_node > 0 ? std::min<int64_t>(per_node, *devices) : *devices;
  const int64_t most = simulated.has_nodes() ? simulated.nodes() : MostNodes(c);
  // Two nodes at least if there are several sites: only then do nodes have NICs, which traffic between sites leaves by.
  const int64_t sites_need = simulated.has_sites() ? std::min<int64_t>(2, most) : 1;
  const int64_t needed = std::max<int64_t>(sites_need, (plan.ranks_per_site + each - 1) / each);
  if (needed > most) {
    return InvalidArgument("parallel: ", plan.ranks_per_site, simulated.has_sites() ? " ranks per site" : " ranks",
                           " do not fit cluster ", c.name(), " with ", most, c.has_star() ? " hosts" : " nodes", " of ",
                           each == 1 ? "one device" : StrCat(each, " devices"), "; use fewer ranks or more nodes",
                           c.machines().network().has_fat_tree()
                               ? StrCat(" (a fat tree grows: fabric.simulated.nodes: ", needed, ")")
                               : "");
  }
  const bool in_order = simulated.placement().policy() == spec::Placement::LINEAR;
  auto topology = BuiltTopology(c, static_cast<int>(in_order ? needed : most));
  if (!topology.ok())
    return absl::Status(topology.status().code(), StrCat("cluster ", c.name(), ": ", topology.status().message()));
  plan.topology = *std::move(topology);
  if (plan.world_size > 1) plan.link_spread = plan.library->spread(needed > 1);
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
    plan.notes.push_back(StrCat(
        "routing is ", name,
        *policy == RoutingPolicy::kEcmp ? "" : StrCat(", over at most ", c.routing_paths(), " paths per flow"),
        *policy == RoutingPolicy::kSpray || *policy == RoutingPolicy::kValiant ? ""
                                                                               : StrCat(", seed ", plan.routing.seed)));
  }
  return absl::OkStatus();
}

absl::Status DivideIntoSites(const spec::Simulated& simulated, SimulationPlan& plan) {
  plan.ranks_per_site = plan.world_size;
  if (!simulated.has_sites()) return absl::OkStatus();
  const int64_t count = simulated.sites().count();
  if (plan.world_size % count != 0) {
    return InvalidArgument("fabric.simulated.sites.count: ", count, " does not divide the ", plan.world_size,
                           " ranks; use a divisor of their number");
  }
  plan.ranks_per_site = static_cast<int>(plan.world_size / count);
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
  return network.faults().empty() ? absl::OkStatus() : CheckRoutes(*plan.topology, plan.endpoints);
}

absl::Status Place(const spec::Simulated& simulated, SimulationPlan& plan) {
  const spec::Placement& placement = simulated.placement();
  PlacementOptions options = {.seed = static_cast<uint64_t>(placement.seed()),
                              .hosts = {placement.hosts().begin(), placement.hosts().end()},
                              .ranks_per_node = static_cast<int>(placement.ranks_per_node())};
  switch (placement.policy()) {
    case spec::Placement::LINEAR: options.policy = PlacementOptions::kLinear; break;
    case spec::Placement::BY_GROUP: options.policy = PlacementOptions::kByGroup; break;
    case spec::Placement::RANDOM: options.policy = PlacementOptions::kRandom; break;
    case spec::Placement::HOSTS: options.policy = PlacementOptions::kHosts; break;
  }
  absl::StatusOr<std::vector<int>> endpoints = PlaceRanks(*plan.topology, plan.ranks_per_site, options);
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
  return absl::OkStatus();
}

void Join(const spec::Spec& spec, SimulationPlan& plan) {
  const spec::Sites& sites = spec.fabric().simulated().sites();
  const int each = plan.topology->endpoints(), count = static_cast<int>(sites.count());
  const bool reduced = plan.topology->reduction_in_network();
  plan.topology = JoinSites(std::move(plan.topology), {.count = count,
                                                       .bandwidth = BytesPerSecond(sites.between_gbps() * 1e9 / 8),
                                                       .latency = Seconds(sites.latency_ms() * 1e-3)});
  const std::vector<int> first = std::move(plan.endpoints);
  plan.endpoints.clear();
  for (int s = 0; s < count; ++s) {
    for (int e : first) plan.endpoints.push_back(s * each + e);
  }
  const std::string across = AxesAcrossSites(spec.parallel(), plan);
  plan.notes.push_back(
      StrCat("ranks are divided among ", count, " sites of ", plan.ranks_per_site, ", joined by ", sites.between_gbps(),
             " Gb/s per site and ", sites.latency_ms(), " ms; ",
             across.empty() ? "no group of ranks crosses" : StrCat("groups that cross sites: ", across)));
  plan.notes.push_back(
      StrCat("the switches between a site's NICs and its wide-area link are not modelled",
             reduced ? "; no switch between nodes reduces (SHARP), not even for groups within one site" : ""));
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
