#include <limits>
#include <optional>

#include "sim/collectives/builder.h"
#include "sim/collectives/schedule.h"

namespace twofold::sim {

const std::vector<Algorithm>& Algorithms() {
  static const auto* const kTable = new std::vector<Algorithm>{
      {"ring", "neighbours only; least bytes, most latency", RingSchedule},
      {"recursive_doubling", "partners at distance 1, 2, 4, ...; least latency", RecursiveDoublingSchedule},
      {"tree", "binomial tree", TreeSchedule},
      {"direct", "everyone to everyone at once", DirectSchedule},
      {"shared_memory", "ranks read each other's memory; shared-memory hosts only", SharedMemorySchedule},
  };
  return *kTable;
}

double PhaseLatency(const Phase& phase, std::span<const double> routes, double alpha) {
  double longest = phase.flows.empty() ? alpha : 0, sum = 0;
  bool pipelined = false;
  for (size_t i = 0; i < phase.flows.size(); ++i) {
    const Flow& f = phase.flows[i];
    const double latency = routes[i] + f.hop_seconds;
    longest = std::max(longest, latency);
    pipelined = pipelined || f.crossings > 0;
    sum += f.crossings * latency;
  }
  return phase.seconds + (pipelined ? sum : phase.rounds * longest);
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

absl::StatusOr<Schedule> ChooseSchedule(const CollectiveShape& shape, std::string_view algorithm, const Places& places) {
  const bool shared_memory_host = places.shared_memory;
  if (shape.kind == Communication::kBarrier) {  // dissemination (Hensgen, Finkel and Manber 1988): log2 N rounds
    return Finished({Phase{.rounds = shared_memory_host ? 1 : CeilLog2(shape.ranks), .flows = {}}}, shape.ranks);
  }
  if (algorithm == "auto" && shared_memory_host) algorithm = "shared_memory";
  if (algorithm == "shared_memory" && !shared_memory_host) {
    return NoForm(algorithm, shape, "its ranks do not share memory");
  }
  if (algorithm != "auto") {
    for (const Algorithm& a : Algorithms()) {
      if (a.name == algorithm) return a.make(shape, places);
    }
    return absl::InvalidArgumentError(StrCat("no collective algorithm is called ", algorithm));
  }
  std::optional<Schedule> best;
  double least = std::numeric_limits<double>::infinity();
  for (auto make : {RingSchedule, RecursiveDoublingSchedule, TreeSchedule}) {
    absl::StatusOr<Schedule> schedule = make(shape, places);
    if (!schedule.ok()) continue;
    const double seconds = EstimateSeconds(*schedule, places.alpha, places.bandwidth);
    if (seconds < least) least = seconds, best = *std::move(schedule);
  }
  if (!best) return DirectSchedule(shape, places);
  return *std::move(best);
}

}  // namespace twofold::sim
