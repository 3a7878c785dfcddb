#include "backends/simulated/actor.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "backends/simulated/child.h"
#include "core/base/strings.h"
#include "sim/engine.h"
#include "sim/spread.h"

namespace twofold {
namespace {

// Called between steps.
void CheckInterrupt(int rank, Actor& actor, SimulatedFaults& faults) {
  faults.ThrowIfLost(actor.clock);
  if (InterruptedInChild()) throw Interrupted(rank, StrCat("rank ", rank, ": interrupted"));
  actor.clock.BeginsStep();
  actor.keep.Do([&] { TellPartialResult(rank, actor.context->PartialResultBetweenSteps()); });
}

// The time line itself reports spans and waits of compute, once their times are known.
void TraceCompute(SimulatedRank& rank) {
  rank.trace().OnChange([&rank](bool enabled) {
    sim::Engine& engine = rank.engine();
    if (enabled && engine.links() != nullptr) engine.links()->Begin(rank.host().time(), engine.now());
    if (!enabled) return rank.compute().SetTracer(nullptr);
    rank.compute().SetTracer(
        [&rank](std::string_view name, std::string_view label, std::string_view shape, double start, double end) {
          rank.trace().Add({.stream = "compute",
                            .name = std::string(name),
                            .start = Seconds(start),
                            .end = Seconds(end),
                            .label = std::string(label),
                            .shape = std::string(shape)});
        },
        [&rank](std::string_view stream, double start, double end) {
          rank.trace().AddStall({std::string(stream), Seconds(start), Seconds(end)});
        });
  });
}

// How much slower the slowest device is has the uncertainty of how far devices differ, which is taken as all of it.
Range WithSlowest(const Range& of_compute, const SimulationPlan& plan) {
  const double slower = sim::MaximumOf(plan.world_size).mean * plan.machine.speed_spread;
  return {of_compute.low - std::min(slower, of_compute.low / 2), of_compute.high + slower};
}

}  // namespace

RankContext::Parts::Membership MembershipOf(SimulatedGenerations& generations, SimulatedFaults& faults, Actor& actor) {
  SimulatedRank& rank = actor.clock;
  faults.Enter(rank.rank(), generations.Of(rank.rank())->generation.number);
  const auto reform = [&generations, &faults, &actor, &rank](const ReformOptions& options) {
    faults.Enter(rank.rank(), generations.Of(rank.rank())->generation.number + 1);
    faults.BeforeCall(rank);
    const std::shared_ptr<const SimulatedGenerations::Shared> next = generations.Reform(rank, options);
    actor.device.GoesOn();
    actor.previous = std::move(actor.group);
    actor.group = std::make_unique<SimulatedProcessGroup>(next->everyone, rank, actor.device, actor.stats);
    return RankContext::Parts::Membership::Next{next->generation, actor.group->rank(), actor.group.get()};
  };
  return {.generation = generations.Of(rank.rank())->generation,
          .reform = reform,
          .ends_after = [&](int64_t step) { return generations.EndsAfter(rank, step); },
          .exchange =
              [&](std::string bytes) {
                faults.BeforeCall(rank);
                return generations.Exchange(rank, std::move(bytes));
              },
          .begin_step =
              [&](int64_t step) {
                generations.BeginStep(rank, step);
                faults.BeginStep(rank, step);
              }};
}

RankContext::Parts::Membership OnlySteps(SimulatedFaults& faults, SimulatedRank& rank) {
  if (faults.none()) return {};
  return {.begin_step = [&](int64_t step) { faults.BeginStep(rank, step); }};
}

RankContext MakeContext(int rank, const SimulationPlan& plan, Actor& actor, SimulatedFaults& faults,
                        RankContext::Parts::Membership membership, std::function<int64_t(int64_t, int64_t)> repeats) {
  TraceCompute(actor.clock);
  return RankContext(
      {.rank = actor.group->rank(),
       .world_size = actor.group->size(),
       .device = &actor.device,
       .world = actor.group.get(),
       .clock = &actor.clock,
       .trace = &actor.clock.trace(),
       .communication = &actor.stats,
       .check_interrupt = [rank, &actor, &faults] { CheckInterrupt(rank, actor, faults); },
       .outside_ledger = nullptr,
       .uncertainty =
           [&plan, &actor] {
             return Uncertainty{WithSlowest(actor.device.uncertainty(), plan), plan.link_spread, plan.costs->common()};
           },
       .when_reached = [&actor](std::function<void(Seconds)> fn) { actor.device.WhenReached(std::move(fn)); },
       .repeats = std::move(repeats),
       .files = plan.files,
       .disk = faults.DiskOf(rank),
       .wait_until = [&actor](Seconds time) { actor.clock.host().NotBefore(time.value()); },
       .member = rank,
       .membership = std::move(membership)});
}

}  // namespace twofold
