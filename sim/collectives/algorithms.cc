#include <algorithm>
#include <utility>

#include "core/base/status.h"
#include "sim/collectives/builder.h"
#include "sim/collectives/kind_loads.h"
#include "sim/collectives/schedule.h"

namespace twofold::sim {

const std::vector<Algorithm>& Algorithms() {
  static const auto* const kTable = new std::vector<Algorithm>{
      {"ring", "messages between neighbours only; fewest bytes, highest latency", RingSchedule},
      {"recursive_doubling", "partners at distance 1, 2, 4, ...; lowest latency", RecursiveDoublingSchedule},
      {"tree", "binomial tree", TreeSchedule},
      {"recursive_halving_doubling", "recursive halving, then recursive doubling; low latency, fewest bytes",
       HalvingDoublingSchedule},
      {"double_binary_tree", "two pipelined trees; each carries half of the bytes", DoubleBinaryTreeSchedule},
      {"bruck", "log2 N rounds for any N", BruckSchedule},
      {"direct", "every rank sends to every other rank at once", DirectSchedule},
      {"pairwise", "every rank sends to every other rank, one after another", PairwiseSchedule},
      {"hierarchical", "within nodes, then between nodes, then within nodes", HierarchicalSchedule},
      {"bucket", "rings along every dimension of a torus or HammingMesh; uses all links at once", BucketSchedule},
      {"nvls", "the switch inside a node reduces and multicasts (NVLink SHARP)", NvlsSchedule},
      {"sharp", "the switches between nodes reduce (SHARP)", SharpSchedule},
      {"shared_memory", "ranks read each other's memory; shared-memory hosts only", SharedMemorySchedule},
  };
  return *kTable;
}

bool IsPipelined(const Phase& phase) {
  const std::vector<Flow>& kinds = phase.flows.kinds();
  return std::any_of(kinds.begin(), kinds.end(), [](const Flow& f) { return f.crossings > 0; });
}

double PhaseLatency(const Phase& phase, std::span<const double> routes, double alpha) {
  const bool pipelined = IsPipelined(phase);
  if (!pipelined && phase.rounds == 0) return phase.seconds;
  double longest = phase.flows.empty() ? alpha : 0, sum = 0;
  for (size_t i = 0; i < phase.flows.size(); ++i) {
    const Flow& f = phase.flows.KindAt(i);
    const double latency = routes[i] + f.hop_seconds;
    longest = std::max(longest, latency);
    sum += f.crossings * latency;
  }
  return phase.seconds + (pipelined ? sum : phase.rounds * longest);
}

double PhaseLatency(const Phase& phase, std::span<const KindRoutes> routes) {
  double sum = 0;
  for (size_t k = 0; k < routes.size(); ++k) {
    const Flow& f = phase.flows.kinds()[k];
    sum += f.crossings * (routes[k].seconds + static_cast<double>(routes[k].flows) * f.hop_seconds);
  }
  return phase.seconds + sum;
}

double EstimateSeconds(const Schedule& schedule, double alpha, double bandwidth) {
  const size_t ranks = schedule.last_phase.size();
  double seconds = 0;
  std::vector<double> out(ranks), in(ranks), routes;
  for (const Phase& phase : schedule.phases) {
    std::fill(out.begin(), out.end(), 0);
    std::fill(in.begin(), in.end(), 0);
    double most = 0;
    for (const Flow& f : phase.flows) {
      most = std::max({most, out[static_cast<size_t>(f.from)] += f.bytes, in[static_cast<size_t>(f.to)] += f.bytes});
    }
    routes.assign(phase.flows.size(), alpha);
    seconds += PhaseLatency(phase, routes, alpha) + most / bandwidth;
  }
  return seconds;
}

namespace {

// Null: flows are not given by kind, or nobody has added up their loads.
const KindLoads* KnownLoadsOf(const Phase& phase) {
  return phase.flows.pattern() != nullptr ? phase.flows.pattern()->loads.get() : nullptr;
}

const PairFlows* PairsOf(const Phase& phase) {
  return phase.flows.pattern() != nullptr ? phase.flows.pattern()->pairs() : nullptr;
}

// What each rank sends.
void AddSent(const PairFlows& pairs, const std::vector<Flow>& kinds, std::vector<double>& sent) {
  const auto bytes = [&kinds](int kind, size_t flows) {
    return flows == 0 ? 0 : static_cast<double>(flows) * kinds[static_cast<size_t>(kind)].bytes;
  };
  for (size_t t = 0; t < pairs.teams->size(); ++t) {
    const std::vector<int>& team = (*pairs.teams)[t];
    const double own = bytes(pairs.kind_within, pairs.within && !team.empty() ? team.size() - 1 : 0) +
                       bytes(pairs.kind_between, pairs.SendsTo(t));
    for (const int rank : team) sent[static_cast<size_t>(rank)] += own;
  }
}

// Of one phase: its latency, and the bytes of the busiest. By kind instead of by flow.
double EstimateByKind(const Phase& phase, const KindLoads& loads, const Places& p) {
  const std::vector<Flow>& kinds = phase.flows.kinds();
  double longest = 0, sum = 0, most = 0;
  for (size_t k = 0; k < kinds.size(); ++k) {
    const double latency = (loads.kinds[k].between ? p.alpha : p.node_alpha) + kinds[k].hop_seconds;
    longest = std::max(longest, latency);
    sum += loads.kinds[k].flows * kinds[k].crossings * latency;
    most = std::max(most, kinds[k].bytes / kinds[k].rate);
  }
  most = std::max(
      {most, LargestOf(loads.within, kinds) / p.node_bandwidth, LargestOf(loads.between, kinds) / p.bandwidth});
  return phase.seconds + (IsPipelined(phase) ? sum : phase.rounds * longest) + most;
}

}  // namespace

double BusiestBytes(const Schedule& schedule) {
  if (schedule.phases.size() == 1 && KnownLoadsOf(schedule.phases[0]) != nullptr)
    return LargestOf(KnownLoadsOf(schedule.phases[0])->sent, schedule.phases[0].flows.kinds());
  std::vector<double> sent(schedule.last_phase.size());
  for (const Phase& phase : schedule.phases) {
    if (const PairFlows* const pairs = PairsOf(phase); pairs != nullptr) {
      AddSent(*pairs, phase.flows.kinds(), sent);
      continue;
    }
    for (const Flow& f : phase.flows) sent[static_cast<size_t>(f.from)] += f.bytes;
  }
  return sent.empty() ? 0 : *std::max_element(sent.begin(), sent.end());
}

double EstimateSeconds(const Schedule& schedule, const Places& p) {
  // The bytes that each rank moves inside its node, and each NIC between nodes: [0] out, [1] in.
  std::vector<double> inside[2], outside[2], routes;
  double seconds = 0;
  for (const Phase& phase : schedule.phases) {
    if (const auto& pattern = phase.flows.pattern(); pattern != nullptr) {
      seconds += EstimateByKind(phase, KindLoadsOf(*pattern, phase.flows.kinds().size(), p), p);
      continue;
    }
    for (int way : {0, 1}) {
      inside[way].assign(p.node.size(), 0);
      outside[way].assign(static_cast<size_t>(p.nodes) * static_cast<size_t>(p.rails), 0);
    }
    double most = 0;
    routes.clear();
    for (const Flow& f : phase.flows) {
      const int ranks[] = {f.from, f.to};
      const bool within = p.node[static_cast<size_t>(f.from)] == p.node[static_cast<size_t>(f.to)];
      routes.push_back(within ? p.node_alpha : p.alpha);
      for (int way : {0, 1}) {
        const auto r = static_cast<size_t>(ranks[way]);
        const int nic = p.node[r] * p.rails + (f.rail < 0 ? p.rail[r] : f.rail);
        double& bytes = within ? inside[way][r] : outside[way][static_cast<size_t>(nic)];
        most = std::max(most, (bytes += f.bytes) / (within ? p.node_bandwidth : p.bandwidth));
      }
      most = std::max(most, f.bytes / f.rate);
    }
    seconds += PhaseLatency(phase, routes, p.alpha) + most;
  }
  return seconds;
}

int Places::RanksPerNode() const {
  std::vector<int> count(static_cast<size_t>(nodes));
  for (int n : node) ++count[static_cast<size_t>(n)];
  return std::all_of(count.begin(), count.end(), [&](int c) { return c == count[0]; }) ? count[0] : 0;
}

Places UniformPlaces(int ranks, double alpha, double bandwidth) {
  Places p;
  for (int r = 0; r < ranks; ++r) p.node.push_back(r), p.local.push_back(0), p.rail.push_back(0);
  p.nodes = ranks;
  p.alpha = p.node_alpha = alpha, p.bandwidth = p.node_bandwidth = bandwidth;
  return p;
}

namespace {

absl::StatusOr<Schedule> Named(std::string_view name, const CollectiveShape& shape, const Places& places) {
  for (const Algorithm& a : Algorithms()) {
    if (a.name != name) continue;
    absl::StatusOr<Schedule> schedule = a.make(shape, places);
    if (schedule.ok()) schedule->algorithm = std::string(name);
    return schedule;
  }
  return InvalidArgument("unknown collective algorithm \"", name, "\"");
}

Schedule Dissemination(const CollectiveShape& shape, const Places& places) {  // Hensgen, Finkel and Manber 1988
  return Finished({Phase{.rounds = places.shared_memory ? 1 : CeilLog2(shape.ranks), .flows = {}}}, shape.ranks);
}

bool PostsToAll(std::string_view name) { return name == "direct" || name == "pairwise"; }

}  // namespace

std::vector<Schedule> AutoSchedules(const CollectiveShape& shape, const Places& places) {
  if (shape.kind == Communication::kBarrier) return {Dissemination(shape, places)};
  if (places.shared_memory) {
    if (absl::StatusOr<Schedule> shared = Named("shared_memory", shape, places); shared.ok())
      return {*std::move(shared)};
  }
  std::vector<Schedule> all;
  for (const Algorithm& a : Algorithms()) {
    if (PostsToAll(a.name) || a.name == "shared_memory") continue;
    if (a.name == "hierarchical" && places.one_link) continue;  // nodes make no difference to the network
    if (absl::StatusOr<Schedule> schedule = Named(a.name, shape, places); schedule.ok())
      all.push_back(*std::move(schedule));
  }
  if (shape.kind == Communication::kAllToAll || all.empty()) all.push_back(*Named("direct", shape, places));
  for (Schedule& schedule : all) schedule.estimate = EstimateSeconds(schedule, places);
  std::stable_sort(all.begin(), all.end(),
                   [](const Schedule& a, const Schedule& b) { return a.estimate < b.estimate; });
  return all;
}

absl::StatusOr<Schedule> ChooseSchedule(const CollectiveShape& shape, std::string_view algorithm,
                                        const Places& places) {
  if (shape.kind == Communication::kBarrier) return Dissemination(shape, places);
  if (algorithm == "shared_memory" && !places.shared_memory)
    return NoForm(algorithm, shape, "the ranks do not share memory");
  if (algorithm != "auto") return Named(algorithm, shape, places);
  std::vector<Schedule> all = AutoSchedules(shape, places);
  return std::move(all.front());
}

}  // namespace twofold::sim
