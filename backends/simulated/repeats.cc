#include "backends/simulated/repeats.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/hash/hash.h"
#include "core/base/strings.h"

namespace twofold {
namespace {

SteadyState::Situation SituationOf(SteppingRank& of) {
  SimulatedRank& rank = of.rank;
  const double now = rank.host().time();
  SteadyState::Situation situation{.time = now, .relative = {}, .rest = 0};
  if (rank.machine().waiting > 0) situation.relative.push_back(rank.met() - now);
  const auto add = [&](const sim::Timeline& line) {
    situation.relative.push_back(line.blocked() ? -1 : std::max(0.0, line.time() - now));
    situation.relative.push_back(line.blocked() ? -1 : line.spread().own + line.spread().shared);
  };
  add(rank.compute());
  for (const std::weak_ptr<sim::Timeline>& line : rank.lines()) {
    if (const auto open = line.lock()) add(*open);
  }
  situation.relative.push_back(rank.communicating().left());
  const sim::Engine& engine = of.world.engine;
  const sim::Engine::Due due = engine.due();
  if (due.events > 0) {
    for (const double time : {due.first, due.last, due.mean}) situation.relative.push_back(time - now);
  }
  size_t waiting = 0;
  for (const SimulatedGroup* group : of.world.groups) waiting += group->waiting();
  // What SimGrid has in flight is not known: no situation equals another.
  const bool unknown = !engine.solves_flows() && !engine.network_idle();
  situation.rest = absl::HashOf(due.events, waiting, rank.calls().Fingerprint(), of.memory.Fingerprint(),
                                of.host_memory.Fingerprint(), unknown ? now : 0, of.device.settling());
  return situation;
}

// How long the last step took, and what it added. It tells of what the rest of the situation does not: who waits for
// whom while times still settle.
void AddLastStep(double seconds, const CommunicationStats::Snapshot& before, const CommunicationStats::Snapshot& now,
                 SteadyState::Situation& situation) {
  situation.relative.push_back(seconds);
  for (const auto& [key, totals] : now) {
    const auto then = before.find(key);
    situation.relative.push_back(totals.seconds - (then == before.end() ? 0 : then->second.seconds));
  }
}

}  // namespace

std::function<int64_t(int64_t, int64_t)> RepeatsOf(SteadyState& steady, SteppingRank of) {
  return [&steady, of, began = 0.0, stats = CommunicationStats::Snapshot(), sums = SimulatedDevice::Sums()](
             int64_t step, int64_t alike) mutable {
    if (steady.counted() && step > steady.counted()->first) return int64_t{0};
    SteadyState::Situation situation = SituationOf(of);
    CommunicationStats::Snapshot now = of.stats.Now();
    AddLastStep(situation.time - began, stats, now, situation);
    began = situation.time;
    const int64_t times = steady.Begin(of.rank.rank(), step, alike, std::move(situation));
    if (times > 0)
      of.stats.Repeat(stats, times), of.device.Repeat(sums, times);
    else
      stats = std::move(now), sums = of.device.sums();
    return times;
  };
}

std::string Describe(const SteadyState::Counted& counted) {
  const int64_t first = counted.first + 1, last = counted.first + counted.steps;
  const std::string which =
      first == last ? StrCat("step ", first, " repeats") : StrCat("steps ", first, " to ", last, " repeat");
  return StrCat(which, " step ", counted.first,
                " exactly: counted, not simulated (`steady_state: SIMULATE` runs every step)");
}

}  // namespace twofold
