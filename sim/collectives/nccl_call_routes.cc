#include "sim/collectives/nccl_call_routes.h"

#include <utility>

#include "sim/collectives/builder.h"
#include "sim/collectives/kind_loads.h"

namespace twofold::sim {
namespace {

bool HavePairsLinks(const Places& places) { return places.pair_cables || !places.joints.empty(); }

// Of a hop within a node whose pairs have different links.
double LoadOfPair(int from, int to, double share, const Places& places) {
  if (places.pair_cables) return share;
  const auto local = [&](int r) { return static_cast<size_t>(places.local[static_cast<size_t>(r)]); };
  return share * places.node_bandwidth / places.joints[local(from)][local(to)].bandwidth;
}

NcclPhaseSums::Load BusiestOf(const std::vector<NcclHop>& hops, const Places& places) {
  const auto ranks = static_cast<size_t>(places.ranks()), rails = static_cast<size_t>(std::max(1, places.rails));
  std::vector<double> devices(2 * ranks), nics(2 * rails * static_cast<size_t>(places.nodes));
  auto nic = [&](int r) {
    return static_cast<size_t>(places.node[static_cast<size_t>(r)]) * rails +
           static_cast<size_t>(places.rail[static_cast<size_t>(r)]) % rails;
  };
  NcclPhaseSums::Load most;
  for (const NcclHop& h : hops) {
    if (h.between) {
      most.nic = std::max({most.nic, nics[2 * nic(h.from)] += h.share, nics[2 * nic(h.to) + 1] += h.share});
    } else if (HavePairsLinks(places)) {
      most.device = std::max(most.device, LoadOfPair(h.from, h.to, h.share, places));
    } else {
      most.device = std::max({most.device, devices[2 * static_cast<size_t>(h.from)] += h.share,
                              devices[2 * static_cast<size_t>(h.to) + 1] += h.share});
    }
  }
  return most;
}

NcclHopKinds KindsOf(const std::vector<NcclHop>& hops) {
  std::vector<FlowPattern::Ends> flows;
  std::vector<NcclHop> kinds;
  flows.reserve(hops.size());
  size_t kind = 0;
  for (const NcclHop& h : hops) {
    const auto alike = [&h](const NcclHop& k) {
      return k.between == h.between && k.share == h.share && k.crossings == h.crossings;
    };
    if (kind == kinds.size() || !alike(kinds[kind]))  // neighbours are often alike
      kind = static_cast<size_t>(std::find_if(kinds.begin(), kinds.end(), alike) - kinds.begin());
    if (kind == kMostNcclKinds) return {};
    if (kind == kinds.size()) kinds.push_back(h);
    flows.push_back({h.from, h.to, static_cast<int>(kind)});
  }
  return {std::make_shared<const FlowPattern>(std::move(flows)), std::move(kinds)};
}

double BusiestPair(const NcclHopKinds& kinds, const Places& places) {
  const auto within = [](const NcclHop& kind) { return !kind.between; };
  if (std::none_of(kinds.hops.begin(), kinds.hops.end(), within)) return 0;
  double most = 0;
  kinds.pattern->ForEach([&](const FlowPattern::Ends& flow) {
    const NcclHop& kind = kinds.hops[static_cast<size_t>(flow.kind)];
    if (!kind.between) most = std::max(most, LoadOfPair(flow.from, flow.to, kind.share, places));
  });
  return most;
}

}  // namespace

NcclPhaseSums::NcclPhaseSums(const std::vector<NcclHop>& hops, const Places& places)
    : busiest(BusiestOf(hops, places)) {
  for (const NcclHop& h : hops) {
    const size_t at = h.between ? 1 : 0;
    crossings[at] += h.crossings, most_share[at] = std::max(most_share[at], h.share);
  }
}

NcclPhaseSums::NcclPhaseSums(const NcclHopKinds& kinds, const Places& places) {
  const KindLoads& loads = KindLoadsOf(*kinds.pattern, kinds.hops.size(), places);
  for (size_t k = 0; k < kinds.hops.size(); ++k) {
    const NcclHop& h = kinds.hops[k];
    const size_t at = h.between ? 1 : 0;
    crossings[at] += loads.kinds[k].flows * h.crossings, most_share[at] = std::max(most_share[at], h.share);
  }
  const auto largest = [&kinds](const std::vector<KindLoads::Load>& all) {
    double most = 0;
    for (const KindLoads::Load& load : all) {
      double share = 0;
      for (const auto& [kind, hops] : load) share += hops * kinds.hops[static_cast<size_t>(kind)].share;
      most = std::max(most, share);
    }
    return most;
  };
  busiest = {HavePairsLinks(places) ? BusiestPair(kinds, places) : largest(loads.within), largest(loads.between)};
}

bool NcclCallRoutes::Made::by_kind() const {
  const auto few = [](const NcclHopKinds& k) { return k.pattern != nullptr; };
  return !kinds.empty() && std::all_of(kinds.begin(), kinds.end(), few);
}

const std::vector<NcclPhaseSums>& NcclCallRoutes::Made::SumsOf(const Places& places) {
  for (size_t p = 0; p < route.phases.size() && sums.size() < route.phases.size(); ++p)
    sums.push_back(by_kind() ? NcclPhaseSums(kinds[p], places) : NcclPhaseSums(route.phases[p], places));
  return sums;
}

absl::StatusOr<std::shared_ptr<NcclCallRoutes::Made>> NcclCallRoutes::Make(NcclAlgorithm a) const {
  // Of uneven messages, each pair of ranks has its own.
  const bool keep = a != NcclAlgorithm::kDirect || shape_.kind == Communication::kAllToAll;
  // A ring goes the same way in both.
  const bool gathers = a == NcclAlgorithm::kRing && shape_.kind == Communication::kReduceScatter;
  const Key key(a, gathers ? Communication::kAllGather : shape_.kind, shape_.root);
  if (keep && places_.routes.kept == nullptr) places_.routes.kept = std::make_shared<Kept>();
  auto* const kept = static_cast<Kept*>(places_.routes.kept.get());
  if (keep) {
    if (const auto known = kept->routes.find(key); known != kept->routes.end()) return known->second;
  }
  absl::StatusOr<NcclRoute> route = MakeNcclRoute(
      a, shape_, places_, a != NcclAlgorithm::kDirect ? std::move(kept->storage) : std::vector<NcclHop>());
  if (!route.ok()) return route.status();
  auto made = std::make_shared<Made>(Made{.route = *std::move(route), .kept = keep});
  if (!keep) return made;
  if (made->route.by_node != nullptr) {
    made->kinds.push_back({std::make_shared<const FlowPattern>(made->route.by_node), made->route.kinds});
    made->last_phase = made->route.by_node->LastPhase();
    return Keep(key, std::move(made));
  }
  if (!made->route.pairs.empty()) {
    for (const auto& [flows, kinds] : made->route.pairs)
      made->kinds.push_back({std::make_shared<const FlowPattern>(flows), kinds});
    made->last_phase.assign(static_cast<size_t>(places_.ranks()), static_cast<int>(made->kinds.size()) - 1);
    return Keep(key, std::move(made));
  }
  for (const auto& hops : made->route.phases) made->kinds.push_back(KindsOf(hops));
  made->last_phase = LastPhases(
      made->route.phases, places_.ranks(), [](const auto& hops) -> auto& { return hops; });
  if (made->by_kind() && made->kinds.size() == 1) kept->storage = std::exchange(made->route.phases[0], {});
  return Keep(key, std::move(made));
}

std::shared_ptr<NcclCallRoutes::Made> NcclCallRoutes::Keep(const Key& key, std::shared_ptr<Made> made) const {
  auto& routes = static_cast<Kept*>(places_.routes.kept.get())->routes;
  if (routes.size() >= kMostKept) routes.clear();
  return routes.emplace(key, std::move(made)).first->second;
}

}  // namespace twofold::sim
