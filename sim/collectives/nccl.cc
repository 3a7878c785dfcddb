#include "sim/collectives/nccl.h"

#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#include <utility>

#include "core/base/status.h"
#include "core/base/strings.h"
#include "sim/collectives/builder.h"
#include "sim/collectives/nccl_call_costs.h"
#include "sim/collectives/nccl_call_routes.h"
#include "sim/collectives/nccl_costs.h"
#include "sim/collectives/nccl_routes.h"
#include "sim/collectives/nccl_tuner.h"

namespace twofold::sim {
namespace {

// A barrier is an all-reduce of one element, whose bytes take no time beside the latencies.
constexpr double kBarrierBytes = 4;
constexpr double kNone = std::numeric_limits<double>::infinity();

bool Serves(NcclAlgorithm a, NcclProtocol p) {
  switch (a) {
    case NcclAlgorithm::kNvls:
    case NcclAlgorithm::kNvlsTree:
    case NcclAlgorithm::kPat: return p == NcclProtocol::kSimple;
    case NcclAlgorithm::kDirect: return p != NcclProtocol::kLL128;
    default: return true;
  }
}

class NcclLibrary : public Library {
 public:
  NcclLibrary(std::string_view name, const NcclCosts& costs) : name_(name), costs_(costs) {}
  std::string_view name() const override { return name_; }
  std::vector<std::string_view> algorithms() const override { return {kNcclAlgorithms.begin(), kNcclAlgorithms.end()}; }
  std::vector<std::string_view> protocols() const override { return {kNcclProtocols.begin(), kNcclProtocols.end()}; }
  absl::StatusOr<Schedule> Plan(const CollectiveShape& shape, const Places& places,
                                const Choice& choice) const override;
  Schedule Message(double bytes, const Places& places) const override;
  Range spread(bool between_nodes) const override { return between_nodes ? kSpreadBetweenNodes : kSpreadWithinNode; }

 private:
  struct Candidate {
    NcclWay way;
    double seconds;
  };
  // What can be chosen, the best first. Some may turn out to have no route.
  std::vector<Candidate> Candidates(const NcclCall& call, NcclCallRoutes& routes,
                                    std::optional<NcclAlgorithm> algorithm, std::optional<NcclProtocol> protocol) const;
  // RCCL's all_reduce in which all devices send to each other at once (tools/msccl-algorithms/allreduce-allpairs-8n-*).
  bool TakesAllPairs(const CollectiveShape& shape) const {
    return costs_.generation().rccl && shape.ranks == 8 && shape.bytes <= (16 << 20);
  }
  Schedule Make(const NcclCall& call, const NcclWay& way, NcclCallRoutes::Made& made, const NcclCallCosts& c) const;

  const std::string_view name_;
  const NcclCosts costs_;
};

// Lets go of hops that are not kept, phase by phase: among thousands of ranks each phase has millions.
Schedule NcclLibrary::Make(const NcclCall& call, const NcclWay& way, NcclCallRoutes::Made& made,
                           const NcclCallCosts& c) const {
  const Places& places = call.places();
  const auto [a, p] = way;
  NcclRoute& route = made.route;
  struct PerHop {  // within a node, between nodes
    double on_wire, seconds;
  };
  std::array<PerHop, 2> per_hop{};
  for (const bool between : {false, true}) {
    const size_t at = between ? 1 : 0;
    per_hop[at] = {1 / costs_.Share(a, p, between),
                   std::max(0.0, c.hop[at] - (between ? places.alpha : places.node_alpha))};
  }
  const double missing = c.at_least > 0 ? std::max(0.0, c.at_least - call.Estimate(way, made, c)) : 0;
  std::vector<Phase> phases;
  for (std::vector<NcclHop>& hops : route.phases) {
    Phase& phase = phases.emplace_back();
    phase.rounds = a == NcclAlgorithm::kDirect || c.hidden[0] ? 0 : 1;
    if (phases.size() == 1) phase.seconds = c.seconds + missing;
    // Of all messages of a collective, what their NIC loses limits their rates: links behind it carry the payload
    // alone.
    const double busiest = c.all_messages ? made.SumsOf(places)[phases.size() - 1].busiest.nic : 0;
    const double nic = busiest > 0 ? places.bandwidth * costs_.Share(a, p, true) / busiest : kNone;
    const auto flow_of = [&](const NcclHop& h) {
      const size_t at = h.between ? 1 : 0;
      const bool limited = h.between && nic < kNone;
      const double on_wire = limited ? 1 : per_hop[at].on_wire;
      const double most = limited ? std::min(c.message_rate[at], nic * h.share)
                                  : std::min(c.most * h.share / route.device_share, c.message_rate[at]);
      return Flow{.from = h.from,
                  .to = h.to,
                  .bytes = c.payload * h.share * on_wire,
                  .crossings = c.hidden[at] ? 0 : h.crossings,
                  .hop_seconds = per_hop[at].seconds,
                  .rate = most * on_wire};
    };
    const NcclHopKinds* own = made.kinds.empty() ? nullptr : &made.kinds[phases.size() - 1];
    if (own != nullptr && own->pattern != nullptr) {
      std::vector<Flow> flows;
      for (const NcclHop& h : own->hops) flows.push_back(flow_of(h));
      phase.flows = FlowList(own->pattern, std::move(flows));
    } else {
      phase.flows.reserve(hops.size());
      for (const NcclHop& h : hops) phase.flows.push_back(flow_of(h));
    }
    if (!made.kept) hops = std::vector<NcclHop>();
  }
  Schedule schedule =
      made.kept ? Schedule{std::move(phases), made.last_phase} : Finished(std::move(phases), places.ranks());
  schedule.algorithm = kNcclAlgorithms[static_cast<size_t>(a)];
  schedule.protocol = kNcclProtocols[static_cast<size_t>(p)];
  return schedule;
}

// NCCL's tuner knows no routes. Only where it says nothing, or RCCL takes what costs least, are they needed to choose.
std::vector<NcclLibrary::Candidate> NcclLibrary::Candidates(const NcclCall& call, NcclCallRoutes& routes,
                                                            std::optional<NcclAlgorithm> algorithm,
                                                            std::optional<NcclProtocol> protocol) const {
  const CollectiveShape& shape = call.shape();
  const NcclTuner& tuner = call.tuner();
  std::vector<Candidate> candidates;
  const bool all_reduce = shape.kind == Communication::kAllReduce, tuned = !costs_.generation().rccl;
  for (size_t i = 0; i < kNcclAlgorithms.size(); ++i) {
    const auto a = static_cast<NcclAlgorithm>(i);
    if (algorithm && a != *algorithm) continue;
    const bool messages = a == NcclAlgorithm::kDirect;
    if (messages && all_reduce && !TakesAllPairs(shape)) continue;
    for (size_t k = 0; k < kNcclProtocols.size(); ++k) {
      const NcclWay way{a, static_cast<NcclProtocol>(k)};
      if ((protocol && way.protocol != *protocol) || !Serves(a, way.protocol)) continue;
      const bool of_messages = messages && !all_reduce;
      if (of_messages && !protocol &&
          way.protocol != tuner.Message(shape.bytes / shape.ranks, call.places().nodes > 1).protocol)
        continue;
      double seconds = of_messages || !tuned ? -1 : tuner.Seconds(a, way.protocol, shape.kind, shape.bytes);
      // What NCCL leaves out runs only if it is asked for.
      if (!of_messages && tuned && seconds < 0 && !(algorithm && protocol)) continue;
      if (seconds < 0) {
        NcclCallRoutes::Made* const made = routes.Of(a);
        if (made == nullptr) continue;
        const NcclCallCosts costs = call.Costs(way, made->route);
        seconds = std::max(costs.at_least, call.Estimate(way, *made, costs));
      }
      if (seconds < kNone) candidates.push_back({way, seconds});
    }
  }
  std::stable_sort(candidates.begin(), candidates.end(),
                   [](const Candidate& x, const Candidate& y) { return x.seconds < y.seconds; });
  return candidates;
}

absl::StatusOr<Schedule> NcclLibrary::Plan(const CollectiveShape& asked, const Places& places,
                                           const Choice& choice) const {
  CollectiveShape shape = asked;
  if (shape.kind == Communication::kBarrier) shape.kind = Communication::kAllReduce, shape.bytes = kBarrierBytes;
  const auto algorithm = NcclAlgorithmNamed(choice.algorithm);
  const auto protocol = NcclProtocolNamed(choice.protocol);
  if (!algorithm && choice.algorithm != "auto") {
    return InvalidArgument("algorithm ", choice.algorithm, ": unknown to library ", name_, "; use one of auto, ",
                           Names(kNcclAlgorithms));
  }
  if (!protocol && choice.protocol != "auto") {
    return InvalidArgument("protocol ", choice.protocol, ": unknown to library ", name_, "; use one of auto, ",
                           Names(kNcclProtocols));
  }
  if (shape.ranks == 1) return Finished({}, 1);
  // A barrier always uses the library's own choice.
  if (asked.kind == Communication::kBarrier && (algorithm || protocol)) return Plan(asked, places, {});
  const NcclTuner tuner(costs_, places);
  const NcclCall call(costs_, tuner, shape, places);
  NcclCallRoutes routes(shape, places);
  const std::vector<Candidate> candidates = Candidates(call, routes, algorithm, protocol);
  for (const auto& [way, seconds] : candidates) {  // the best first
    NcclCallRoutes::Made* const made = routes.Of(way.algorithm);
    if (made == nullptr) continue;
    NcclCallCosts costs = call.Costs(way, made->route);
    if (asked.kind == Communication::kBarrier) costs.payload = 0;
    Schedule schedule = Make(call, way, *made, costs);
    schedule.estimate = seconds;
    schedule.multiprocessors = call.Multiprocessors(way);
    return schedule;
  }
  absl::Status why_not = algorithm ? routes.WhyNot(*algorithm) : absl::OkStatus();
  if (algorithm == NcclAlgorithm::kDirect && shape.kind == Communication::kAllReduce && !TakesAllPairs(shape)) {
    why_not =
        NoForm(choice.algorithm, shape,
               costs_.generation().rccl ? "RCCL uses it up to 16 MiB" : "NCCL uses messages for other operations");
  }
  if (!why_not.ok() && algorithm) return why_not;
  return NoForm(choice.algorithm, shape, StrCat("protocol ", choice.protocol, " does not support it"));
}

// As in direct: NCCL takes LL for short messages within a node.
Schedule NcclLibrary::Message(double bytes, const Places& places) const {
  const bool between = places.nodes > 1;
  NcclCallRoutes::Made made{
      .route = {.phases = {{{0, 1, between, 1, 0}}}, .node_peers = between ? 0 : 1, .network_peers = between ? 1 : 0},
      .kept = false};
  const NcclTuner tuner(costs_, places.group != nullptr ? *places.group : places);
  const NcclWay way{NcclAlgorithm::kDirect, tuner.Message(bytes, between).protocol};
  const CollectiveShape shape{Communication::kSend, 2, bytes, 0, {{0, bytes}, {0, 0}}};
  const NcclCall call(costs_, tuner, shape, places);
  const NcclCallCosts costs = call.Costs(way, made.route);
  Schedule schedule = Make(call, way, made, costs);
  schedule.algorithm = "direct";
  schedule.multiprocessors = call.Multiprocessors(way);
  return schedule;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Library>> MakeNcclLibrary(const cluster::Library& library) {
  const absl::StatusOr<NcclCosts> costs = ReadNcclCosts(library.nccl(), false);
  if (!costs.ok()) return costs.status();
  return std::make_unique<NcclLibrary>("nccl", *costs);
}

absl::StatusOr<std::unique_ptr<Library>> MakeRcclLibrary(const cluster::Library& library) {
  const absl::StatusOr<NcclCosts> costs = ReadNcclCosts(library.nccl(), true);
  if (!costs.ok()) return costs.status();
  return std::make_unique<NcclLibrary>("rccl", *costs);
}

}  // namespace twofold::sim
