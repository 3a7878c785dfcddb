// Schedules whose ranks go on by themselves (Schedule::loose).
#include <algorithm>
#include <memory>
#include <utility>

#include "sim/engine.h"
#include "sim/latency.h"
#include "sim/zone.h"
#include "sim/engine_simgrid.h"

namespace twofold::sim {

namespace s4u = simgrid::s4u;

// One transfer under way. Each rank is an actor that goes through the phases it takes part in; each flow another.
struct Engine::Loose {
  struct Part {                 // of a rank in a phase
    int flows = 0;              // its own, sent and received
    int meeting = 0;            // of those it receives, that wait for it
    s4u::SemaphorePtr here = s4u::Semaphore::create(0);   // released, once for each that waits, when the rank has come to the phase
    s4u::SemaphorePtr ended = s4u::Semaphore::create(0);  // released as its flows end
  };
  struct Way {                  // of a flow
    std::vector<Path> paths;
    double latency = 0, bytes = 0;  // what costs time
    double leaves = 0;          // seconds that the bytes take over an idle first link
  };
  std::shared_ptr<const Schedule> schedule;
  std::function<void(const std::vector<double>&)> done;
  Ended told;                   // of each rank; may be empty
  std::vector<std::vector<Part>> parts = {};  // by phase and rank
  std::vector<std::vector<Way>> ways = {};    // by phase and flow
  std::vector<double> finish = {};
  size_t left = 0;              // ranks that are not done
};

namespace {

// How many flows of a phase share a link: by link, the sum of their shares.
std::vector<double> Crowds(const std::vector<std::vector<Path>>& flows, size_t links) {
  std::vector<double> crowds(links);
  for (const std::vector<Path>& paths : flows) {
    for (const Path& path : paths) {
      for (int link : path.links) crowds[static_cast<size_t>(link)] += path.share;
    }
  }
  return crowds;
}

// Of the link that most flows share. `between`: but the sender's first and the receiver's last.
double MostOn(const std::vector<Path>& paths, const std::vector<double>& crowds, bool between) {
  double most = 1;
  for (const Path& path : paths) {
    for (size_t i = between ? 1 : 0; i + (between ? 1 : 0) < path.links.size(); ++i) most = std::max(most, crowds[static_cast<size_t>(path.links[i])]);
  }
  return most;
}

}  // namespace

// All routes are chosen now, so that a pair that has none ends the run before anybody waits.
void Engine::TransferLoose(std::shared_ptr<const Schedule> schedule, const std::vector<int>& endpoints,
                           std::function<void(const std::vector<double>&)> done, Ended ended) {
  const size_t ranks = endpoints.size();
  auto loose = std::make_shared<Loose>(Loose{.schedule = std::move(schedule), .done = std::move(done), .told = std::move(ended)});
  loose->finish.resize(ranks), loose->left = ranks;
  for (const Phase& phase : loose->schedule->phases) {
    std::vector<Loose::Part>& parts = loose->parts.emplace_back(ranks);
    std::vector<Loose::Way>& ways = loose->ways.emplace_back(phase.flows.size());
    std::vector<std::vector<Path>> paths(phase.flows.size());
    for (size_t i = 0; i < phase.flows.size(); ++i) {
      const Flow& f = phase.flows[i];
      ++parts[static_cast<size_t>(f.from)].flows, ++parts[static_cast<size_t>(f.to)].flows;
      if (f.meets) ++parts[static_cast<size_t>(f.to)].meeting;
      const Pair pair{endpoints[static_cast<size_t>(f.from)], endpoints[static_cast<size_t>(f.to)], f.rail};
      router_.Choose(pair, i, f.bytes * loose->schedule->stretch, paths[i]);
      ways[i].latency = RouteLatency(topology_, router_.options().policy, pair, paths[i]) * loose->schedule->stretch;
    }
    const std::vector<double> crowds = Crowds(paths, topology_.links().size());
    std::vector<double> used(ranks);  // by sender: bytes of its flows before
    for (size_t i = 0; i < phase.flows.size(); ++i) {
      const Flow& f = phase.flows[i];
      double free = f.free / MostOn(paths[i], crowds, f.queued);
      if (f.queued) free = std::min(free, std::max(0.0, f.free - used[static_cast<size_t>(f.from)]));
      used[static_cast<size_t>(f.from)] += f.bytes;
      ways[i].bytes = std::max(0.0, f.bytes - free) * loose->schedule->stretch;
      ways[i].leaves = ways[i].bytes / topology_.links()[static_cast<size_t>(paths[i][0].links[0])].bandwidth.value();
      ways[i].paths = std::move(paths[i]);
    }
  }
  for (size_t rank = 0; rank < ranks; ++rank) {
    Spawn([this, loose, rank] { RunLooseRank(loose, rank); });
  }
}

void Engine::RunLooseRank(const std::shared_ptr<Loose>& loose, size_t rank) {
  const std::vector<Phase>& phases = loose->schedule->phases;
  const double stretch = loose->schedule->stretch;
  for (size_t p = 0; p < phases.size(); ++p) {
    const std::vector<Flow>& flows = phases[p].flows;
    Loose::Part& own = loose->parts[p][rank];
    if (own.flows == 0 && !flows.empty()) continue;
    const double alone = flows.empty() ? PhaseLatency(phases[p], {}, topology_.alpha().value()) : phases[p].seconds;
    if (alone > 0) s4u::this_actor::sleep_for(alone * stretch);
    for (int i = 0; i < own.meeting; ++i) own.here->release();
    double next = now();  // when a queued flow may begin
    for (size_t i = 0; i < flows.size(); ++i) {
      if (flows[i].from != static_cast<int>(rank)) continue;
      const double ready = now() + flows[i].hop_seconds * stretch, begin = flows[i].queued ? std::max(ready, next) : ready;
      next = begin + loose->ways[p][i].leaves;
      Spawn([this, loose, p, i, begin] { RunLooseFlow(loose, p, i, begin); });
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
  const Loose::Way& way = loose->ways[p][i];
  Loose::Part& from = loose->parts[p][static_cast<size_t>(f.from)];
  Loose::Part& to = loose->parts[p][static_cast<size_t>(f.to)];
  s4u::this_actor::sleep_until(begin);
  if (f.meets) {
    to.here->acquire();
    s4u::this_actor::sleep_for(2 * way.latency);
  }
  std::vector<s4u::CommPtr> parts;
  for (const Path& path : way.paths) {
    if (const double bytes = way.bytes * path.share; bytes > 0) parts.push_back(simgrid_->platform->Start(path.links, bytes, f.rate * path.share));
  }
  s4u::Comm::wait_all(parts);
  router_.Finished(way.paths, f.bytes * loose->schedule->stretch);
  from.ended->release();
  s4u::this_actor::sleep_for(way.latency);
  to.ended->release();
}

}  // namespace twofold::sim
