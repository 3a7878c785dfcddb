// Schedules whose ranks go on by themselves (Schedule::loose).
#include <memory>
#include <optional>
#include <utility>

#include "sim/engine.h"
#include "sim/latency.h"
#include "sim/zone.h"
#include "topologies/no_route.h"

namespace twofold::sim {

namespace s4u = simgrid::s4u;

// One transfer under way. Each rank is an actor that goes through the phases it takes part in; each flow another.
struct Engine::Loose {
  std::shared_ptr<const Schedule> schedule;
  std::vector<int> endpoints;
  std::function<void(const std::vector<double>&)> done;
  Ended told;
  struct Part {                 // of a rank in a phase
    int flows = 0;              // its own, sent and received
    s4u::SemaphorePtr here = s4u::Semaphore::create(0);   // released, once for each that waits, when the rank has come to the phase
    s4u::SemaphorePtr ended = s4u::Semaphore::create(0);  // released as its flows end
    int meeting = 0;            // flows that wait for it
  };
  std::vector<std::vector<Part>> parts;  // by phase and rank
  std::vector<double> finish;
  size_t left;                  // ranks that are not done
};

void Engine::TransferLoose(std::shared_ptr<const Schedule> schedule, std::vector<int> endpoints,
                           std::function<void(const std::vector<double>&)> done, Ended ended) {
  const size_t ranks = endpoints.size();
  auto loose = std::make_shared<Loose>(Loose{std::move(schedule), std::move(endpoints), std::move(done), std::move(ended), {}, std::vector<double>(ranks), ranks});
  for (const Phase& phase : loose->schedule->phases) {
    std::vector<Loose::Part>& parts = loose->parts.emplace_back(ranks);
    for (const Flow& f : phase.flows) {
      ++parts[static_cast<size_t>(f.from)].flows, ++parts[static_cast<size_t>(f.to)].flows;
      if (f.meets) ++parts[static_cast<size_t>(f.to)].meeting;
    }
  }
  for (size_t rank = 0; rank < ranks; ++rank) {
    Spawn([this, loose, rank] { RunLooseRank(loose, rank); });
  }
}

void Engine::RunLooseRank(const std::shared_ptr<Loose>& loose, size_t rank) {
  const std::vector<Phase>& phases = loose->schedule->phases;
  for (size_t p = 0; p < phases.size(); ++p) {
    Loose::Part& own = loose->parts[p][rank];
    if (own.flows == 0 && !phases[p].flows.empty()) continue;
    const double alone = phases[p].flows.empty() ? PhaseLatency(phases[p], {}, topology_.alpha().value()) : phases[p].seconds;
    if (alone > 0) s4u::this_actor::sleep_for(alone * loose->schedule->stretch);
    for (int i = 0; i < own.meeting; ++i) own.here->release();
    std::vector<std::vector<size_t>> trains;  // flows that leave one after the other
    for (size_t i = 0; i < phases[p].flows.size(); ++i) {
      if (phases[p].flows[i].from != static_cast<int>(rank)) continue;
      if (trains.empty() || !phases[p].flows[i].queued) trains.emplace_back();
      trains.back().push_back(i);
    }
    for (std::vector<size_t>& train : trains) {
      Spawn([this, loose, p, train = std::move(train), begin = now()] {
        for (size_t i : train) RunLooseFlow(loose, p, i, begin);
      });
    }
    for (int i = 0; i < own.flows; ++i) own.ended->acquire();
  }
  loose->finish[rank] = now();
  if (loose->told != nullptr && !failed()) loose->told(rank, now());
  if (--loose->left == 0 && !failed()) loose->done(loose->finish);
}

// The sender is done when the last byte has left, the receiver a latency later.
void Engine::RunLooseFlow(const std::shared_ptr<Loose>& loose, size_t p, size_t i, double begin) {
  const Flow& f = loose->schedule->phases[p].flows[i];
  const double stretch = loose->schedule->stretch;
  Loose::Part& from = loose->parts[p][static_cast<size_t>(f.from)];
  Loose::Part& to = loose->parts[p][static_cast<size_t>(f.to)];
  const Pair pair{loose->endpoints[static_cast<size_t>(f.from)], loose->endpoints[static_cast<size_t>(f.to)], f.rail};
  s4u::this_actor::sleep_until(begin + f.hop_seconds * stretch);
  std::vector<Path> paths;
  double latency = 0;
  std::optional<RankFailure> failure;
  try {
    router_.Choose(pair, i, f.bytes * stretch, paths);
    latency = RouteLatency(topology_, router_.options().policy, pair, paths) * stretch;
  } catch (const NoRoute& none) {
    failure.emplace(RankFailure::Kind::kOther, 0, none.what());
  }
  if (failure) Fail(*failure);  // the run is over, but all that waits for this flow must end
  if (f.meets) {
    to.here->acquire();
    s4u::this_actor::sleep_for(2 * latency);
  }
  if (!failure) StartAndWait(paths, f, stretch);
  from.ended->release();
  Spawn([loose, latency, ended = to.ended] {
    s4u::this_actor::sleep_for(latency);
    ended->release();
  });
}

}  // namespace twofold::sim
