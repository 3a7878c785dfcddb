#include "sim/collectives/nccl.h"

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <utility>

#include "core/base/status.h"
#include "core/base/strings.h"
#include "sim/collectives/builder.h"
#include "sim/collectives/nccl_costs.h"
#include "sim/collectives/nccl_routes.h"

namespace twofold::sim {
namespace {

constexpr double kNvlsChunk = 128 << 10;  // bytes
constexpr double kBarrierBytes = 4;       // a barrier is an all-reduce of one element

bool Serves(NcclAlgorithm a, NcclProtocol p) {
  switch (a) {
    case NcclAlgorithm::kNvls:
    case NcclAlgorithm::kNvlsTree:
    case NcclAlgorithm::kDirect: return p == NcclProtocol::kSimple;
    default: return true;
  }
}

// The largest share of the data that a device sends or receives within its node, and that a NIC sends or receives. If
// pairs have different links, `device` is the load of one link, scaled as if it were as wide as Places::node_bandwidth.
struct Load {
  double device = 0, nic = 0;
};

Load BusiestOf(const std::vector<NcclHop>& hops, const Places& places) {
  const auto ranks = static_cast<size_t>(places.ranks()), rails = static_cast<size_t>(std::max(1, places.rails));
  std::vector<double> devices(2 * ranks), nics(2 * rails * static_cast<size_t>(places.nodes));
  auto nic = [&](int r) {
    return static_cast<size_t>(places.node[static_cast<size_t>(r)]) * rails +
           static_cast<size_t>(places.rail[static_cast<size_t>(r)]) % rails;
  };
  Load most;
  for (const NcclHop& h : hops) {
    if (h.between) {
      most.nic = std::max({most.nic, nics[2 * nic(h.from)] += h.share, nics[2 * nic(h.to) + 1] += h.share});
    } else if (!places.joints.empty()) {
      const auto local = [&](int r) { return static_cast<size_t>(places.local[static_cast<size_t>(r)]); };
      most.device =
          std::max(most.device, h.share * places.node_bandwidth / places.joints[local(h.from)][local(h.to)].bandwidth);
    } else {
      most.device = std::max({most.device, devices[2 * static_cast<size_t>(h.from)] += h.share,
                              devices[2 * static_cast<size_t>(h.to) + 1] += h.share});
    }
  }
  return most;
}

class NcclLibrary : public Library {
 public:
  explicit NcclLibrary(const NcclCosts& costs) : costs_(costs) {}
  std::string_view name() const override { return "nccl"; }
  std::vector<std::string_view> algorithms() const override { return {kNcclAlgorithms.begin(), kNcclAlgorithms.end()}; }
  std::vector<std::string_view> protocols() const override { return {kNcclProtocols.begin(), kNcclProtocols.end()}; }
  absl::StatusOr<Schedule> Plan(const CollectiveShape& shape, const Places& places,
                                const Choice& choice) const override;
  Schedule Message(double bytes, const Places& places) const override;

 private:
  struct Way {
    NcclAlgorithm algorithm;
    NcclProtocol protocol;
  };
  double HopSeconds(const Way& way, bool between) const;
  // The visible part of HopSeconds: between nodes, the transfer of a ring's step hides as much of the next hop as it
  // takes itself, except for the wire.
  double SeenSeconds(const Way& way, bool between, const NcclRoute& route, double bytes, const Places& places) const;
  // The costs that no flow shows: a call's base, and a message's cost for every peer.
  double CallSeconds(const Way& way, const NcclRoute& route, double bytes, const Places& places) const;
  double Payload(const Way& way, double bytes, const Places& places) const;
  double Estimate(const Way& way, const NcclRoute& route, const std::vector<Load>& loads, double bytes,
                  const Places& places) const;
  Schedule Make(const Way& way, NcclRoute&& route, double bytes, const Places& places) const;

  const NcclCosts costs_;
};

double NcclLibrary::HopSeconds(const Way& way, bool between) const {
  const NcclHops& hops = costs_.Latency(way.algorithm, way.protocol);
  return between ? hops.network : hops.node;
}

double NcclLibrary::SeenSeconds(const Way& way, bool between, const NcclRoute& route, double bytes,
                                const Places& places) const {
  const double hop = HopSeconds(way, between);
  if (!between) return hop;
  const double step =
      bytes * route.step_share / (places.bandwidth * costs_.Share(way.algorithm, way.protocol, places.nodes, true));
  return std::max(std::min(hop, places.alpha), hop - step);
}

double NcclLibrary::CallSeconds(const Way& way, const NcclRoute& route, double bytes, const Places& places) const {
  const double more = bytes / places.ranks() < costs_.short_message_bytes ? costs_.short_message : 0;
  return costs_.call + costs_.Latency(way.algorithm, way.protocol).base + route.node_peers * HopSeconds(way, false) +
         route.network_peers * (HopSeconds(way, true) + more);
}

double NcclLibrary::Payload(const Way& way, double bytes, const Places& places) const {
  if (way.algorithm != NcclAlgorithm::kNvls && way.algorithm != NcclAlgorithm::kNvlsTree) return bytes;
  return bytes + std::min(bytes, costs_.channels * kNvlsChunk * places.ranks() / places.nodes);
}

double NcclLibrary::Estimate(const Way& way, const NcclRoute& route, const std::vector<Load>& loads, double bytes,
                             const Places& places) const {
  const auto [a, p] = way;
  const double payload = Payload(way, bytes, places);
  const std::array seen = {SeenSeconds(way, false, route, bytes, places), SeenSeconds(way, true, route, bytes, places)};
  double seconds = CallSeconds(way, route, bytes, places);
  for (size_t k = 0; k < route.phases.size(); ++k) {
    for (const NcclHop& h : route.phases[k]) seconds += h.crossings * seen[h.between ? 1 : 0];
    seconds += payload * std::max(loads[k].device / (places.node_bandwidth * costs_.Share(a, p, places.nodes, false)),
                                  loads[k].nic / (places.bandwidth * costs_.Share(a, p, places.nodes, true)));
  }
  return std::max(seconds, payload * route.device_share / costs_.Most(a, p, places.nodes));
}

// Lets go of the hops, phase by phase: among thousands of ranks each phase has millions.
Schedule NcclLibrary::Make(const Way& way, NcclRoute&& route, double bytes, const Places& places) const {
  const auto [a, p] = way;
  const double payload = Payload(way, bytes, places), most = costs_.Most(a, p, places.nodes);
  struct PerHop {  // within a node, between nodes
    double on_wire, seconds;
  };
  std::array<PerHop, 2> per_hop{};
  for (const bool between : {false, true}) {
    per_hop[between ? 1 : 0] = {
        1 / costs_.Share(a, p, places.nodes, between),
        std::max(0.0, SeenSeconds(way, between, route, bytes, places) - (between ? places.alpha : places.node_alpha))};
  }
  std::vector<Phase> phases;
  for (std::vector<NcclHop>& hops : route.phases) {
    Phase& phase = phases.emplace_back();
    phase.rounds = a == NcclAlgorithm::kDirect ? 0 : 1;
    if (phases.size() == 1) phase.seconds = CallSeconds(way, route, bytes, places);
    phase.flows.reserve(hops.size());
    for (const NcclHop& h : hops) {
      const auto [on_wire, seconds] = per_hop[h.between ? 1 : 0];
      phase.flows.push_back({.from = h.from,
                             .to = h.to,
                             .bytes = payload * h.share * on_wire,
                             .crossings = h.crossings,
                             .hop_seconds = seconds,
                             .rate = most * h.share / route.device_share * on_wire});
    }
    hops = std::vector<NcclHop>();
  }
  Schedule schedule = Finished(std::move(phases), places.ranks());
  schedule.algorithm = kNcclAlgorithms[static_cast<size_t>(a)];
  schedule.protocol = kNcclProtocols[static_cast<size_t>(p)];
  return schedule;
}

absl::StatusOr<Schedule> NcclLibrary::Plan(const CollectiveShape& asked, const Places& places,
                                           const Choice& choice) const {
  CollectiveShape shape = asked;
  if (shape.kind == Communication::kBarrier) shape.kind = Communication::kAllReduce, shape.bytes = kBarrierBytes;
  const auto algorithm = NcclAlgorithmNamed(choice.algorithm);
  const auto protocol = NcclProtocolNamed(choice.protocol);
  if (!algorithm && choice.algorithm != "auto") {
    return InvalidArgument("algorithm ", choice.algorithm, ": unknown to library nccl; use one of auto, ",
                           Names(kNcclAlgorithms));
  }
  if (!protocol && choice.protocol != "auto") {
    return InvalidArgument("protocol ", choice.protocol, ": unknown to library nccl; use one of auto, ",
                           Names(kNcclProtocols));
  }
  if (shape.ranks == 1) return Finished({}, 1);
  // A barrier always uses the library's own choice.
  if (asked.kind == Communication::kBarrier && (algorithm || protocol)) return Plan(asked, places, {});
  std::optional<std::pair<Way, std::shared_ptr<NcclRoute>>> best;
  double least = std::numeric_limits<double>::infinity();
  absl::Status why_not;
  for (size_t i = 0; i < kNcclAlgorithms.size(); ++i) {
    const auto a = static_cast<NcclAlgorithm>(i);
    if (algorithm && a != *algorithm) continue;
    absl::StatusOr<NcclRoute> made = MakeNcclRoute(a, shape, places);
    if (!made.ok()) {
      why_not = made.status();
      continue;
    }
    const auto route = std::make_shared<NcclRoute>(*std::move(made));
    std::vector<Load> loads;
    for (const auto& hops : route->phases) loads.push_back(BusiestOf(hops, places));
    for (size_t k = 0; k < kNcclProtocols.size(); ++k) {
      const Way way{a, static_cast<NcclProtocol>(k)};
      if ((protocol && way.protocol != *protocol) || !Serves(a, way.protocol)) continue;
      const double seconds = Estimate(way, *route, loads, shape.bytes, places);
      if (seconds < least) least = seconds, best.emplace(way, route);
    }
  }
  if (best) {
    Schedule schedule = Make(best->first, std::move(*best->second), shape.bytes, places);
    schedule.estimate = least;
    return schedule;
  }
  if (!why_not.ok() && algorithm) return why_not;
  return NoForm(choice.algorithm, shape, StrCat("protocol ", choice.protocol, " does not support it"));
}

// As between two neighbours of a ring, in LL or Simple, whichever is faster.
Schedule NcclLibrary::Message(double bytes, const Places& places) const {
  NcclRoute route{.phases = {{{0, 1, places.nodes > 1, 1, 1}}}};
  const std::vector<Load> loads = {BusiestOf(route.phases[0], places)};
  const Way ll{NcclAlgorithm::kRing, NcclProtocol::kLL}, simple{NcclAlgorithm::kRing, NcclProtocol::kSimple};
  const bool small = Estimate(ll, route, loads, bytes, places) < Estimate(simple, route, loads, bytes, places);
  Schedule schedule = Make(small ? ll : simple, std::move(route), bytes, places);
  schedule.algorithm = "direct";
  return schedule;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Library>> MakeNcclLibrary(const cluster::Library& library) {
  const absl::StatusOr<NcclCosts> costs = ReadNcclCosts(library.nccl());
  if (!costs.ok()) return costs.status();
  return std::make_unique<NcclLibrary>(*costs);
}

}  // namespace twofold::sim
