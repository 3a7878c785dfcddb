#include "sim/collectives/nccl.h"

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>

#include "core/base/status.h"
#include "core/base/strings.h"
#include "sim/collectives/builder.h"
#include "sim/collectives/kind_loads.h"
#include "sim/collectives/nccl_costs.h"
#include "sim/collectives/nccl_routes.h"
#include "sim/collectives/nccl_tuner.h"

namespace twofold::sim {
namespace {

// A barrier is an all-reduce of one element, whose bytes take no time beside the latencies.
constexpr double kBarrierBytes = 4;
constexpr double kNone = std::numeric_limits<double>::infinity();
// Bytes of payload of one chunk, by protocol: NCCL's buffers over its 8 steps (src/include/device.h, src/init.cc).
constexpr double kChunk[3] = {32 << 10, 576000, 512 << 10};
// More steps of a ring than this make a NIC's messages queue up, where they do at all: four times NCCL's credits.
constexpr int kMostStepsAtOnce = 4 * NcclTuner::kSteps;

bool Serves(NcclAlgorithm a, NcclProtocol p) {
  switch (a) {
    case NcclAlgorithm::kNvls:
    case NcclAlgorithm::kNvlsTree:
    case NcclAlgorithm::kPat: return p == NcclProtocol::kSimple;
    case NcclAlgorithm::kDirect: return p != NcclProtocol::kLL128;
    default: return true;
  }
}

// The largest share of the data that a device sends or receives within its node, and that a NIC sends or receives. If
// pairs have different links, `device` is the load of one link, scaled as if it were as wide as Places::node_bandwidth.
struct Load {
  double device = 0, nic = 0;
};

bool HavePairsLinks(const Places& places) { return places.pair_cables || !places.joints.empty(); }

// Of a hop within a node whose pairs have different links.
double LoadOfPair(int from, int to, double share, const Places& places) {
  if (places.pair_cables) return share;
  const auto local = [&](int r) { return static_cast<size_t>(places.local[static_cast<size_t>(r)]); };
  return share * places.node_bandwidth / places.joints[local(from)][local(to)].bandwidth;
}

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
    } else if (HavePairsLinks(places)) {
      most.device = std::max(most.device, LoadOfPair(h.from, h.to, h.share, places));
    } else {
      most.device = std::max({most.device, devices[2 * static_cast<size_t>(h.from)] += h.share,
                              devices[2 * static_cast<size_t>(h.to) + 1] += h.share});
    }
  }
  return most;
}

struct Way {
  NcclAlgorithm algorithm;
  NcclProtocol protocol;
};

// What one call costs by one way, apart from what its links take.
struct CallCosts {
  double seconds = 0;                                   // at the beginning of the call
  std::array<double, 2> hop;                            // of a hop in a node, between nodes; includes the wire
  double payload = 0;                                   // bytes, instead of the call's
  double most = kNone;                                  // payload per second that a device's channels carry
  std::array<double, 2> message_rate = {kNone, kNone};  // direct: of a message, in a node and between nodes
  bool all_messages = false;                            // direct: the hops are all the messages of their NICs
  double at_least = 0;                                  // seconds of the whole call
  std::array<bool, 2> hidden = {false, false};          // such hops of the path cost nothing
};

// The kinds of hops of a phase, if these are few.
struct HopKinds {
  std::shared_ptr<const FlowPattern> pattern = nullptr;  // null: they are many
  std::vector<NcclHop> hops = {};                        // one of each kind
};

HopKinds KindsOf(const std::vector<NcclHop>& hops) {
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

// What a phase's hops take together.
struct PhaseSums {
  PhaseSums(const std::vector<NcclHop>& hops, const Places& places) : busiest(BusiestOf(hops, places)) {
    for (const NcclHop& h : hops) {
      const size_t at = h.between ? 1 : 0;
      crossings[at] += h.crossings, most_share[at] = std::max(most_share[at], h.share);
    }
  }
  // The same, by kind.
  PhaseSums(const HopKinds& kinds, const Places& places) {
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
  static double BusiestPair(const HopKinds& kinds, const Places& places) {
    const auto within = [](const NcclHop& kind) { return !kind.between; };
    if (std::none_of(kinds.hops.begin(), kinds.hops.end(), within)) return 0;
    double most = 0;
    kinds.pattern->ForEach([&](const FlowPattern::Ends& flow) {
      const NcclHop& kind = kinds.hops[static_cast<size_t>(flow.kind)];
      if (!kind.between) most = std::max(most, LoadOfPair(flow.from, flow.to, kind.share, places));
    });
    return most;
  }

  Load busiest;
  std::array<double, 2> crossings = {}, most_share = {};  // in a node, between nodes
};

// The routes of one call, made when they are first asked for: among thousands of ranks each is large. Those of
// collectives depend on neither bytes nor protocol; they are kept with the places, for the next call.
class Routes {
 public:
  Routes(const CollectiveShape& shape, const Places& places) : shape_(shape), places_(places) {}
  struct Made {
    NcclRoute route;
    std::vector<HopKinds> kinds = {};  // by phase; none: hops are not told apart by kind
    std::vector<int> last_phase = {};  // as Schedule::last_phase; only if kept
    bool kept = true;                  // else the call may take the hops out of it
    std::vector<PhaseSums> sums = {};  // empty: nobody has asked
    bool by_kind() const {
      const auto few = [](const HopKinds& k) { return k.pattern != nullptr; };
      return !kinds.empty() && std::all_of(kinds.begin(), kinds.end(), few);
    }

    // By phase. Few calls ask for it.
    const std::vector<PhaseSums>& SumsOf(const Places& places) {
      for (size_t p = 0; p < route.phases.size() && sums.size() < route.phases.size(); ++p)
        sums.push_back(by_kind() ? PhaseSums(kinds[p], places) : PhaseSums(route.phases[p], places));
      return sums;
    }
  };
  // Null: the algorithm has none for this call.
  Made* Of(NcclAlgorithm a) {
    absl::StatusOr<std::shared_ptr<Made>>& made = made_[static_cast<size_t>(a)];
    if (made.status() == NotYet()) made = Make(a);
    return made.ok() ? made->get() : nullptr;
  }
  absl::Status WhyNot(NcclAlgorithm a) {
    return Of(a) != nullptr ? absl::OkStatus() : made_[static_cast<size_t>(a)].status();
  }

 private:
  using Key = std::tuple<NcclAlgorithm, Communication::Kind, int>;  // and root
  struct Kept {
    std::map<Key, std::shared_ptr<Made>> routes;
    std::vector<NcclHop> storage;  // of hops that are no longer needed
  };
  static constexpr size_t kMostKept = 8;
  static absl::Status NotYet() { return absl::UnknownError(""); }

  absl::StatusOr<std::shared_ptr<Made>> Make(NcclAlgorithm a) const {
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
  std::shared_ptr<Made> Keep(const Key& key, std::shared_ptr<Made> made) const {
    auto& routes = static_cast<Kept*>(places_.routes.kept.get())->routes;
    if (routes.size() >= kMostKept) routes.clear();
    return routes.emplace(key, std::move(made)).first->second;
  }

  const CollectiveShape& shape_;
  const Places& places_;
  std::array<absl::StatusOr<std::shared_ptr<Made>>, kNcclAlgorithms.size()> made_;  // unknown: not yet
};

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
    Way way;
    double seconds;
  };
  // What can be chosen, the best first. Some may turn out to have no route.
  std::vector<Candidate> Candidates(const CollectiveShape& shape, const Places& places, const NcclTuner& tuner,
                                    Routes& routes, std::optional<NcclAlgorithm> algorithm,
                                    std::optional<NcclProtocol> protocol) const;
  CallCosts Costs(const Way& way, const NcclRoute& route, const NcclTuner& tuner, const CollectiveShape& shape,
                  const Places& places) const;
  int Multiprocessors(const Way& way, const NcclTuner& tuner, const CollectiveShape& shape, const Places& places) const;
  void AddRing(const Way& way, const NcclRoute& route, int channels, const CollectiveShape& shape, const Places& places,
               CallCosts& c) const;
  void AddMessages(const Way& way, const NcclRoute& route, const NcclTuner& tuner, const CollectiveShape& shape,
                   CallCosts& c) const;
  double Estimate(const Way& way, Routes::Made& made, const CallCosts& c, const Places& places) const;
  // RCCL's all_reduce in which all devices send to each other at once (tools/msccl-algorithms/allreduce-allpairs-8n-*).
  bool TakesAllPairs(const CollectiveShape& shape) const {
    return costs_.generation().rccl && shape.ranks == 8 && shape.bytes <= (16 << 20);
  }
  Schedule Make(const Way& way, Routes::Made& made, const CallCosts& c, const Places& places) const;

  const std::string_view name_;
  const NcclCosts costs_;
};

// Of each device, one for each channel of the call.
int NcclLibrary::Multiprocessors(const Way& way, const NcclTuner& tuner, const CollectiveShape& shape,
                                 const Places& places) const {
  if (way.algorithm != NcclAlgorithm::kDirect) return tuner.Channels(way.algorithm, way.protocol, shape.bytes);
  if (shape.kind == Communication::kSend) return tuner.Message(shape.bytes, places.nodes > 1).channels;
  return std::min(tuner.message_channels(),
                  (shape.ranks - 1) * tuner.Message(shape.bytes / shape.ranks, places.nodes > 1).channels);
}

// Between nodes, a hop within a node is no shorter than the host takes to post a message (three in Simple), and the
// transfer of a step hides as much of the next hop between nodes as it takes itself, except for the wire.
void NcclLibrary::AddRing(const Way& way, const NcclRoute& route, int channels, const CollectiveShape& shape,
                          const Places& places, CallCosts& c) const {
  const auto [a, p] = way;
  const double part = shape.bytes / shape.ranks, carried = channels * costs_.Channel(a, p);
  if (route.step_share > 0) c.seconds += part / (p == NcclProtocol::kSimple ? costs_.local : carried);
  if (places.nodes == 1 || route.step_share == 0) return;
  if (p != NcclProtocol::kLL128) c.hop[0] = std::max(c.hop[0], costs_.post * (p == NcclProtocol::kLL ? 1 : 3));
  const double step = shape.bytes * route.step_share / (places.bandwidth * costs_.Share(a, p, true));
  c.hop[1] = std::max(std::min(c.hop[1], places.alpha), c.hop[1] - step);
  const int steps = shape.kind == Communication::kAllReduce ? 2 * (shape.ranks - 1) : shape.ranks - 1;
  if (!costs_.serial_posts || steps <= kMostStepsAtOnce) return;
  const int far = steps / (shape.ranks - 1) * (places.nodes - 1);
  c.at_least = c.seconds + channels * ((steps - far) * 3 * costs_.post + far * 14e-6);
}

void NcclLibrary::AddMessages(const Way& way, const NcclRoute& route, const NcclTuner& tuner,
                              const CollectiveShape& shape, CallCosts& c) const {
  double message = shape.bytes / shape.ranks;
  for (const std::vector<double>& row : shape.matrix) {
    for (const double bytes : row) message = std::max(message, bytes);
  }
  c.all_messages = shape.kind != Communication::kSend;
  const double more = message < costs_.short_message_bytes ? costs_.short_message : 0;
  c.seconds += route.node_peers * c.hop[0] + route.network_peers * (std::max(c.hop[1], 3 * costs_.post) + more);
  const int channels = tuner.Message(message, false).channels;
  const double carried = costs_.Channel(way.algorithm, way.protocol);
  if (route.node_peers > 0 && way.protocol == NcclProtocol::kSimple) {
    c.seconds += std::min(message / channels, kChunk[2]) / carried;  // copied out of the buffer at last
  }
  const bool keeps = shape.kind == Communication::kAllToAll || shape.kind == Communication::kAllToAllV;
  if (keeps) c.seconds += message / (costs_.generation().message_local * 1e9);
  c.message_rate = {channels * carried, tuner.Message(message, true).channels * NcclTuner::kNetworkChannel};
}

CallCosts NcclLibrary::Costs(const Way& way, const NcclRoute& route, const NcclTuner& tuner,
                             const CollectiveShape& shape, const Places& places) const {
  const auto [a, p] = way;
  const NcclHops& hops = costs_.Latency(a, p);
  const int channels = tuner.Channels(a, p, shape.bytes);
  CallCosts c{.seconds = costs_.call + hops.base, .hop = {hops.node, hops.network}, .payload = shape.bytes};
  if (const int all = Multiprocessors(way, tuner, shape, places); all > 1)
    c.seconds += costs_.version->several_channels + (all - 1) * costs_.version->each_channel;
  switch (a) {
    case NcclAlgorithm::kNvls:
    case NcclAlgorithm::kNvlsTree:
      c.payload +=
          costs_.generation().nvls_fills *
          std::min(shape.bytes, tuner.Channels(a, p, shape.bytes) * tuner.nvls_heads() * tuner.NvlsChunk(shape.bytes));
      break;
    case NcclAlgorithm::kDirect: AddMessages(way, route, tuner, shape, c); break;
    case NcclAlgorithm::kPat: c.seconds += shape.ranks * 2.8e-6; break;  // NCCL: "still a linear part"
    case NcclAlgorithm::kRing:
    case NcclAlgorithm::kTree: {
      c.most = channels * costs_.Channel(a, p);
      if (route.step_share == 0) {  // trees and chains hand on a whole chunk at a time
        const double chunk = a == NcclAlgorithm::kTree
                                 ? tuner.TreeChunk(p, shape.bytes)
                                 : std::min(shape.bytes / channels, kChunk[static_cast<size_t>(p)]);
        if (shape.follows && a == NcclAlgorithm::kRing) c.hidden = {true, p == NcclProtocol::kLL};
        c.hop[0] += chunk / costs_.Channel(a, p);
        // Between nodes the channels of a NIC hand on theirs one after the other.
        const double nic = places.bandwidth * costs_.Share(NcclAlgorithm::kRing, p, true);
        c.hop[1] += std::max(chunk / costs_.Channel(a, p), channels * chunk / (tuner.heads() * nic));
      }
      AddRing(way, route, channels, shape, places, c);
      break;
    }
  }
  return c;
}

double NcclLibrary::Estimate(const Way& way, Routes::Made& made, const CallCosts& c, const Places& places) const {
  const auto [a, p] = way;
  double seconds = c.seconds;
  for (const PhaseSums& sums : made.SumsOf(places)) {
    double longest = 0;
    for (const size_t at : {0, 1}) {
      if (!c.hidden[at]) seconds += sums.crossings[at] * c.hop[at];
      longest = std::max(longest, c.payload * sums.most_share[at] / c.message_rate[at]);
    }
    seconds += std::max({longest, c.payload * sums.busiest.device / (places.node_bandwidth * costs_.Share(a, p, false)),
                         c.payload * sums.busiest.nic / (places.bandwidth * costs_.Share(a, p, true))});
  }
  return std::max(seconds, c.payload * made.route.device_share / c.most);
}

// Lets go of hops that are not kept, phase by phase: among thousands of ranks each phase has millions.
Schedule NcclLibrary::Make(const Way& way, Routes::Made& made, const CallCosts& c, const Places& places) const {
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
  const double missing = c.at_least > 0 ? std::max(0.0, c.at_least - Estimate(way, made, c, places)) : 0;
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
    const HopKinds* own = made.kinds.empty() ? nullptr : &made.kinds[phases.size() - 1];
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
std::vector<NcclLibrary::Candidate> NcclLibrary::Candidates(const CollectiveShape& shape, const Places& places,
                                                            const NcclTuner& tuner, Routes& routes,
                                                            std::optional<NcclAlgorithm> algorithm,
                                                            std::optional<NcclProtocol> protocol) const {
  std::vector<Candidate> candidates;
  const bool all_reduce = shape.kind == Communication::kAllReduce, tuned = !costs_.generation().rccl;
  for (size_t i = 0; i < kNcclAlgorithms.size(); ++i) {
    const auto a = static_cast<NcclAlgorithm>(i);
    if (algorithm && a != *algorithm) continue;
    const bool messages = a == NcclAlgorithm::kDirect;
    if (messages && all_reduce && !TakesAllPairs(shape)) continue;
    for (size_t k = 0; k < kNcclProtocols.size(); ++k) {
      const Way way{a, static_cast<NcclProtocol>(k)};
      if ((protocol && way.protocol != *protocol) || !Serves(a, way.protocol)) continue;
      const bool of_messages = messages && !all_reduce;
      if (of_messages && !protocol &&
          way.protocol != tuner.Message(shape.bytes / shape.ranks, places.nodes > 1).protocol)
        continue;
      double seconds = of_messages || !tuned ? -1 : tuner.Seconds(a, way.protocol, shape.kind, shape.bytes);
      // What NCCL leaves out runs only if it is asked for.
      if (!of_messages && tuned && seconds < 0 && !(algorithm && protocol)) continue;
      if (seconds < 0) {
        Routes::Made* const made = routes.Of(a);
        if (made == nullptr) continue;
        const CallCosts costs = Costs(way, made->route, tuner, shape, places);
        seconds = std::max(costs.at_least, Estimate(way, *made, costs, places));
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
  Routes routes(shape, places);
  const std::vector<Candidate> candidates = Candidates(shape, places, tuner, routes, algorithm, protocol);
  for (const auto& [way, seconds] : candidates) {  // the best first
    Routes::Made* const made = routes.Of(way.algorithm);
    if (made == nullptr) continue;
    CallCosts costs = Costs(way, made->route, tuner, shape, places);
    if (asked.kind == Communication::kBarrier) costs.payload = 0;
    Schedule schedule = Make(way, *made, costs, places);
    schedule.estimate = seconds;
    schedule.multiprocessors = Multiprocessors(way, tuner, shape, places);
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
  Routes::Made made{
      .route = {.phases = {{{0, 1, between, 1, 0}}}, .node_peers = between ? 0 : 1, .network_peers = between ? 1 : 0},
      .kept = false};
  const NcclTuner tuner(costs_, places.group != nullptr ? *places.group : places);
  const Way way{NcclAlgorithm::kDirect, tuner.Message(bytes, between).protocol};
  const CollectiveShape shape{Communication::kSend, 2, bytes, 0, {{0, bytes}, {0, 0}}};
  const CallCosts costs = Costs(way, made.route, tuner, shape, places);
  Schedule schedule = Make(way, made, costs, places);
  schedule.algorithm = "direct";
  schedule.multiprocessors = Multiprocessors(way, tuner, shape, places);
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
