// Schedules whose ranks proceed on their own (Schedule::loose).
#include <algorithm>
#include <memory>
#include <utility>

#include "sim/engine.h"
#include "sim/engine_simgrid.h"
#include "sim/latency.h"
#include "sim/zone.h"

namespace twofold::sim {

namespace s4u = simgrid::s4u;

// One transfer in progress. Each rank is an actor that goes through the phases it takes part in; each flow is another
// actor.
struct Engine::Loose {
  struct Part {       // of one rank in one phase
    int flows = 0;    // its own flows, sent and received
    int meeting = 0;  // number of received flows that wait for this rank
    // Released once for each waiting flow when the rank reaches the phase.
    s4u::SemaphorePtr here = s4u::Semaphore::create(0);
    s4u::SemaphorePtr ended = s4u::Semaphore::create(0);  // released when each of its flows ends
  };
  struct Way {  // of one flow
    std::vector<Path> paths;
    // Its links, starting with the first link of the first path, and their shares of the bytes.
    std::vector<std::pair<int, double>> crossed;
    double latency = 0;
    double out = 0;  // bytes that cost time on the first link
  };
  std::shared_ptr<const Schedule> schedule;
  int life;  // the engine's when it began
  std::function<void(const std::vector<double>&)> done;
  Ended told;                                 // called for each rank; may be empty
  int use;                                    // what it belongs to
  std::vector<std::vector<Part>> parts = {};  // by phase and rank
  std::vector<std::vector<Way>> ways = {};    // by phase and flow
  std::vector<double> finish = {};
  size_t left = 0;  // ranks that are not done
};

namespace {

std::vector<std::pair<int, double>> Crossed(const std::vector<Path>& paths) {
  std::vector<std::pair<int, double>> crossed;
  for (const Path& path : paths) {
    for (int link : path.links) {
      const auto same = std::find_if(crossed.begin(), crossed.end(), [&](const auto& c) { return c.first == link; });
      if (same == crossed.end())
        crossed.emplace_back(link, path.share);
      else
        same->second += path.share;
    }
  }
  return crossed;
}

}  // namespace

// A link's token bucket holds `full` bytes, drains when flows begin and refills at the link's rate (in the form of the
// generic cell rate algorithm, ITU-T I.371: `until` is when it is full again). Returns how many of the `bytes` that
// start to cross at `at` pass at once.
double Engine::TakeFree(int link, double bytes, double full, double at) {
  const double rate = topology_.RatesOf(link).bandwidth.value();
  double& until = full_again_[static_cast<size_t>(link)];
  const double behind = std::max(0.0, until - at) * rate;
  until = std::max(until, at) + bytes / rate;
  return std::max(0.0, full - behind);
}

// Chooses all routes now, so that a pair without a route ends the run before anyone waits.
void Engine::TransferLoose(std::shared_ptr<const Schedule> schedule, const std::vector<int>& endpoints,
                           std::function<void(const std::vector<double>&)> done, Ended ended, int use) {
  const size_t ranks = endpoints.size();
  auto loose = std::make_shared<Loose>(Loose{
      .schedule = std::move(schedule), .life = life_, .done = std::move(done), .told = std::move(ended), .use = use});
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
    for (size_t i = 0; i < phase.flows.size(); ++i) {
      ways[i].crossed = Crossed(paths[i]);
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
    const FlowList& flows = phases[p].flows;
    Loose::Part& own = loose->parts[p][rank];
    if (own.flows == 0 && !flows.empty()) continue;
    const double alone = flows.empty() ? PhaseLatency(phases[p], {}, topology_.alpha().value()) : phases[p].seconds;
    if (alone > 0) s4u::this_actor::sleep_for(alone * stretch);
    for (int i = 0; i < own.meeting; ++i) own.here->release();
    double next = now();  // when a queued flow may begin
    for (size_t i = 0; i < flows.size(); ++i) {
      if (flows[i].from != static_cast<int>(rank)) continue;
      const double ready = now() + flows[i].hop_seconds * stretch,
                   begin = flows[i].queued ? std::max(ready, next) : ready;
      Loose::Way& way = loose->ways[p][i];
      const auto [first, share] = way.crossed[0];
      const double bytes = flows[i].bytes * stretch;
      way.out = std::max(0.0, bytes - TakeFree(first, bytes * share, flows[i].free * stretch, begin) / share);
      next = begin + way.out / topology_.RatesOf(first).bandwidth.value();
      Spawn([this, loose, p, i, begin] { RunLooseFlow(loose, p, i, begin); });
    }
    for (int i = 0; i < own.flows; ++i) own.ended->acquire();
  }
  loose->finish[rank] = now();
  if (loose->told != nullptr && !Stale(loose->life)) loose->told(rank, now());
  if (--loose->left == 0 && !Stale(loose->life)) loose->done(loose->finish);
}

// The sender is done when the last byte has left, the receiver one latency after that byte has crossed the network. A
// queued flow leaves at its first link's rate, regardless of the network beyond: switches buffer what they cannot
// forward.
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
  const double sent = f.bytes * loose->schedule->stretch;
  const bool ahead = f.queued && way.crossed.size() > 1;
  double bytes = ahead ? 0 : way.out;  // bytes that cost time on the links that these flows cross together
  for (size_t l = 1; l < way.crossed.size(); ++l) {
    const auto [link, share] = way.crossed[l];
    bytes = std::max(bytes, sent - TakeFree(link, sent * share, f.free * loose->schedule->stretch, now()) / share);
  }
  const double started = now();
  std::vector<s4u::CommPtr> leaving, beyond;
  for (const Path& path : way.paths) {
    const double rate = f.rate * path.share;
    if (!ahead || path.links.size() == 1) {
      if (bytes > 0) leaving.push_back(simgrid_->platform->Start(path.links, bytes * path.share, rate, path.parts));
      continue;
    }
    const double paced = topology_.RatesOf(path.links[0]).bandwidth.value() * path.share;
    if (way.out > 0)
      leaving.push_back(simgrid_->platform->Start({path.links[0]}, way.out * path.share, rate, path.parts));
    if (bytes > 0)
      beyond.push_back(simgrid_->platform->Start({path.links.begin() + 1, path.links.end()}, bytes * path.share,
                                                 std::min(rate, paced), path.parts));
  }
  s4u::Comm::wait_all(leaving);
  from.ended->release();
  s4u::Comm::wait_all(beyond);
  for (size_t w = 0; links_ && w < way.paths.size(); ++w)
    links_->Carry(way.paths[w].links, f.bytes * way.paths[w].share, started, now(), loose->use);
  router_.Finished(way.paths, f.bytes * loose->schedule->stretch);
  s4u::this_actor::sleep_for(way.latency);
  to.ended->release();
}

}  // namespace twofold::sim
