#include "backends/simulated/fabric.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <optional>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "backends/host/membership_events.h"
#include "backends/host/now_and_then.h"
#include "backends/simulated/child.h"
#include "backends/simulated/costs.h"
#include "backends/simulated/device.h"
#include "backends/simulated/faults.h"
#include "backends/simulated/folding.h"
#include "backends/simulated/generations.h"
#include "backends/simulated/link_loads.h"
#include "backends/simulated/most_apart.h"
#include "backends/simulated/plan.h"
#include "backends/simulated/process_group.h"
#include "backends/simulated/repeats.h"
#include "backends/simulated/shared_memory.h"
#include "core/base/format.h"
#include "core/base/status.h"
#include "core/base/strings.h"
#include "core/comm/staging.h"
#include "core/proto/outcome.pb.h"
#include "sim/at_work.h"
#include "sim/engine.h"
#include "sim/network.h"
#include "sim/spread.h"
#include "topologies/graph/no_route.h"

namespace twofold {
namespace {

// Everything one actor needs. Members are destroyed from the bottom up: the group before the device before its memory.
struct Actor {
  // It represents `stands_for` ranks, including itself.
  Actor(int rank, int stands_for, const host::NowAndThen& keep_now_and_then, SimulationPlan& plan, SharedMemory& shared,
        SimulatedWorld& world, std::shared_ptr<SimulatedGroup> group)
      : clock(rank, world.engine, MachineOf(rank, plan)),
        source(MakeSource(plan.device_memory, plan), shared, stands_for),
        host_source(MakeSource(plan.host_memory, plan), shared, stands_for),
        allocator(source, rank, MemoryName(plan, plan.device_memory, "memory")),
        host_allocator(host_source, rank, MemoryName(plan, plan.host_memory, "host memory")),
        device(clock, allocator, host_allocator, *plan.costs, plan.host_link, plan.threads),
        group(std::make_unique<SimulatedProcessGroup>(std::move(group), clock, device, stats)),
        keep(keep_now_and_then) {}

  static SimulatedMachine MachineOf(int rank, const SimulationPlan& plan) {
    SimulatedMachine machine = plan.machine;
    if (!plan.compute_factors.empty()) machine.slowdown *= plan.compute_factors[static_cast<size_t>(rank)];
    return machine;
  }
  static std::unique_ptr<MemorySource> MakeSource(Bytes limit, const SimulationPlan& plan) {
    if (plan.assume_fits) return std::make_unique<LenientSource>(MakeBounded(Bytes(0), plan.machine.real), limit);
    return MakeBounded(limit, plan.machine.real);
  }
  static std::unique_ptr<MemorySource> MakeBounded(Bytes limit, bool real) {
    if (real) return std::make_unique<MallocSource>(limit);
    return std::make_unique<VirtualSource>(limit);
  }
  // Names the memory that has run out: the rank's own limit takes precedence over the shared one.
  static std::string MemoryName(const SimulationPlan& plan, Bytes limit, const char* own) {
    if (limit.value() > 0 || plan.shared_memory.value() == 0) return own;
    return StrCat("this machine's memory (", plan.shared_memory.value(), " bytes for ", plan.world_size,
                  plan.world_size == 1 ? " rank)" : " ranks)");
  }

  SimulatedRank clock;
  SharedSource source, host_source;
  CachingAllocator allocator, host_allocator;
  CommunicationStats stats;
  SimulatedDevice device;
  // Of all ranks; in a new generation of members there is another one, and that of the generation before is kept for
  // groups that refer to it and are about to be destroyed.
  std::unique_ptr<ProcessGroup> previous = nullptr, group;
  const RankContext* context = nullptr;
  host::NowAndThen keep;  // schedules copies of the partial result to the parent
};

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

// What a rank of an elastic run is offered. All arguments outlive the rank's function.
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

// What a rank of another run is offered.
RankContext::Parts::Membership OnlySteps(SimulatedFaults& faults, SimulatedRank& rank) {
  if (faults.none()) return {};
  return {.begin_step = [&](int64_t step) { faults.BeginStep(rank, step); }};
}

// How much slower the slowest device is has the uncertainty of how far devices differ, which is taken as all of it.
Range WithSlowest(const Range& of_compute, const SimulationPlan& plan) {
  const double slower = sim::MaximumOf(plan.world_size).mean * plan.machine.speed_spread;
  return {of_compute.low - std::min(slower, of_compute.low / 2), of_compute.high + slower};
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

// Keeps the maximum, over ranks, of the number of calls.
void AddMost(const SimulatedDevice::Extrapolated& of_one, SimulatedDevice::Extrapolated& all) {
  for (const auto& [kernel, shapes] : of_one) {
    for (const auto& [dims, count] : shapes) {
      int64_t& most = all[kernel][dims];
      most = std::max(most, count);
    }
  }
}

void AddExtrapolationNotes(const SimulatedDevice::Extrapolated& extrapolated, outcome::Outcome& outcome) {
  for (const auto& [kernel, shapes] : extrapolated) {
    constexpr size_t kShown = 4;
    std::string text;
    size_t shown = 0;
    int64_t calls = 0;
    for (const auto& [dims, count] : shapes) {
      calls += count;
      if (++shown <= kShown)
        StrAppend(&text, shown > 1 ? ", " : "", dims[0], " x ", dims[1], dims[2] > 0 ? StrCat(" x ", dims[2]) : "");
    }
    if (shapes.size() > kShown) StrAppend(&text, " and ", shapes.size() - kShown, " more shapes");
    outcome.add_notes(StrCat("time of ", kernel, " is extrapolated beyond what was calibrated: ", text, " (",
                             Counted(calls, "call"), " per rank)"));
  }
}

void AddWhatRan(const SimulatedWorld& world, outcome::Outcome& outcome) {
  for (const auto& [key, name] : world.ran) {
    const auto& [group, kind, bytes] = key;
    outcome::Ran& ran = *outcome.add_ran();
    ran.set_group(group), ran.set_operation(std::string(KindName(kind))), ran.set_bytes(bytes);
    ran.set_library(std::string(world.network.library().name()));
    ran.set_algorithm(name.algorithm), ran.set_protocol(name.protocol);
  }
}

sim::Engine::Options EngineOptions(const spec::Spec& spec, const SimulationPlan& plan, sim::FlightRecord& record) {
  const bool loose = plan.library->name() == "open_mpi";
  return {.stack = plan.machine.real ? MiB(8) : KiB(256),
          .many_actors = plan.world_size > 4096 || ((loose || plan.simgrid) && plan.world_size > 128),
          .record = &record,
          .routing = plan.routing,
          .solve_flows = !plan.simgrid && !loose && plan.routing.policy != RoutingPolicy::kAdaptive,
          .record_links = spec.trace().enabled() && spec.trace().last_steps() > 0};
}

// The spec of a plan for so many ranks.
spec::Spec WithRanks(spec::Spec spec, int ranks) {
  spec::Parallel& p = *spec.mutable_parallel();
  p.set_dp(ranks), p.set_pp(1), p.set_cp(1), p.set_tp(1);
  return spec;
}

const spec::Elastic* ElasticOf(const spec::Spec& spec) {
  return spec.train().has_elastic() ? &spec.train().elastic() : nullptr;
}

// The ranks that there can ever be if the run begins with `world_size` of them.
int MostMembers(const spec::Spec& spec, int world_size) {
  const spec::Elastic* const elastic = ElasticOf(spec);
  return elastic != nullptr ? host::MembershipEvents(*elastic, world_size).most_members() : world_size;
}

// The spec itself, unless more ranks come than its mesh has.
spec::Spec ForAllMembers(const spec::Spec& spec) {
  const spec::Parallel& p = spec.parallel();
  const auto replica = static_cast<int>(p.tp() * p.pp() * p.cp()), ranks = static_cast<int>(p.dp()) * replica;
  const int begin = ranks + replica * static_cast<int>(spec.train().elastic().spare_replicas());
  const int most = MostMembers(spec, begin);
  return most == ranks ? spec : WithRanks(spec, most);
}

// The whole simulation, in the child process, or `here`. Of an elastic spec, the plan is for all members that there can
// ever be, and the run begins with `world_size` of them.
outcome::Outcome Simulate(const spec::Spec& spec, SimulationPlan& plan, int world_size, bool fold, bool here,
                          const RankFunction& fn, sim::FlightRecord& record) {
  const spec::Elastic* const elastic = ElasticOf(spec);  // null: there is one generation
  const bool asked_for = spec.fabric().simulated().folding() == spec::Simulated::ON;
  const Moment begin = MomentNow();
  sim::StartSampling();
  HoldInterrupts hold;
  sim::Engine engine(*plan.topology, EngineOptions(spec, plan, record));
  if (!here) CatchInterruptsInChild();
  hold.Release();
  std::vector<int> actors = Actors(plan, fold);
  if (elastic != nullptr) actors.resize(static_cast<size_t>(world_size));
  sim::Network network(engine, *plan.library,
                       {.choice = plan.choice,
                        .closed_forms = !plan.simgrid,
                        .measured = plan.collectives,
                        .endpoints = plan.endpoints,
                        .keep_schedules = plan.machine.goal_bytes > 0});
  SimulatedWorld world{.engine = engine,
                       .network = network,
                       .real = plan.machine.real,
                       .ranks = static_cast<size_t>(world_size),
                       .stand_ins = fold ? plan.stand_ins : std::vector<int>()};
  const double most_apart = MostApart(spec.fabric().simulated(), plan.world_size);
  world.none_may_part = most_apart == 0;
  world.may_differ_briefly = plan.may_differ_briefly;
  world.sums_tell_apart = !asked_for && plan.world_size <= kMostRunOneByOne;
  world.may_be_unequal = asked_for || plan.world_size > kMostRunAfterAll;
  // Groups with pending waits are removed from the network.
  const absl::Cleanup forget = [&engine] { engine.Forget(); };
  std::vector<int> ranks(static_cast<size_t>(world_size));
  for (size_t r = 0; r < ranks.size(); ++r) ranks[r] = static_cast<int>(r);
  outcome::Outcome outcome;
  std::vector<int> stands_for(actors.size(), elastic != nullptr ? 1 : 0);  // number of ranks per actor
  for (const int a : elastic != nullptr ? std::vector<int>() : ActorOfEach(plan, actors, fold))
    ++stands_for[static_cast<size_t>(a)];
  for (size_t a = 0; a < actors.size(); ++a) outcome.add_results();
  std::shared_ptr<SimulatedGroup> group;
  try {
    group = std::make_shared<SimulatedGroup>(world, "world", std::vector<std::vector<int>>{ranks});
  } catch (const NoRoute& none) {
    const absl::Status status = ToStatus(RankFailure(RankFailure::Kind::kOther, 0, none.what()));
    outcome.set_code(static_cast<int>(status.code()));
    outcome.set_message(std::string(status.message()));
    return outcome;
  }
  SimulatedDevice::Extrapolated extrapolated;
  SharedMemory memory(plan.shared_memory);
  const host::NowAndThen keep(host::NowAndThen::Clock::now(), static_cast<int>(actors.size()));
  std::optional<SimulatedGenerations> generations;
  std::optional<SteadyState> steady;
  if (plan.counts_steps && elastic == nullptr) steady.emplace(actors.size());
  SimulatedFaults faults(
      engine, spec, elastic == nullptr ? std::function<bool(int)>() : [&generations](int member) {
        return generations->HasGoneOnWithout(member);
      });
  const auto run_rank = [&](int r, int at, int ranks_that_it_is) {
    Actor actor(r, ranks_that_it_is, keep, plan, memory, world, generations ? generations->Of(r)->everyone : group);
    if (generations) actor.clock.GoesOn(generations->Of(r)->begins);
    RankContext ctx = MakeContext(
        r, plan, actor, faults,
        generations ? MembershipOf(*generations, faults, actor) : OnlySteps(faults, actor.clock),
        steady
            ? RepeatsOf(*steady, {actor.clock, actor.allocator, actor.host_allocator, actor.stats, actor.device, world})
            : nullptr);
    actor.context = &ctx;
    actor.clock.SetLate([&world, r](double seconds) {
      if (!world.briefly.empty() && seconds > 0) world.late[r] += seconds;
    });
    const absl::Cleanup add = [&] { AddMost(actor.device.extrapolated(), extrapolated); };
    try {
      outcome.set_results(at, fn(ctx));
      if (!engine.failed()) actor.device.compute().Synchronize();  // the run ends when this rank's work has ended
      if (generations) generations->Leave(r, actor.clock.host().time(), true);
    } catch (...) {
      outcome.set_results(at, ctx.partial_result());
      if (generations && generations->HasGoneOnWithout(r)) return;  // nobody misses it
      if (generations) generations->Leave(r, actor.clock.host().time(), false);
      throw;  // the engine handles it
    }
  };
  if (!faults.none())
    world.before_call = world.before_split = [&faults](SimulatedRank& rank) { faults.BeforeCall(rank); };
  if (elastic != nullptr) {
    generations.emplace(world, group, host::MembershipEvents(*elastic, world_size),
                        spec.fabric().simulated().membership(), [&](int member) {
                          outcome.add_results();
                          engine.AddRank(member, [&run_rank, member] { run_rank(member, member, 1); });
                        });
    if (faults.hangs()) generations->ExpectHangs();
    world.before_call = [&generations, &faults](SimulatedRank& rank) {
      generations->ThrowIfLost(rank);
      faults.BeforeCall(rank);
    };
  }
  for (size_t a = 0; a < actors.size(); ++a) {
    engine.AddRank(actors[a], [&run_rank, r = actors[a], at = static_cast<int>(a), ranks = stands_for[a]] {
      run_rank(r, at, ranks);
    });
  }
  absl::Status status = engine.Run();
  if (generations) {
    // Losses before or after a member's result were survived; nothing else is.
    const bool lost = !status.ok() && IsSurvivable(FailureKind(status));
    if (generations->fine() && lost) status = absl::OkStatus();
    if (!status.ok() && lost && !generations->over().empty())
      status =
          absl::Status(status.code(), StrCat(generations->over(), "; before that: ", std::string(status.message())));
    for (const std::string& note : generations->notes()) outcome.add_notes(note);
  }
  faults.AddTo(outcome);
  const auto counted = steady ? steady->counted() : std::nullopt;
  if (counted) outcome.add_notes(Describe(*counted));
  for (const std::string& note : network.notes()) outcome.add_notes(note);
  AddExtrapolationNotes(extrapolated, outcome);
  AddWhatRan(world, outcome);
  if (fold) AddWhatFoldingChanges(most_apart, world, outcome);
  AddCosts(engine, network, begin, world.set_up, static_cast<int>(actors.size()), plan.world_size, outcome);
  AddLinkLoads(engine, outcome);
  if (steady) {
    outcome::Cost& cost = *outcome.add_costs();
    cost.set_part("steps counted"), cost.set_count(counted ? counted->steps : 0);
  }
  outcome.set_code(static_cast<int>(status.code()));
  outcome.set_message(std::string(status.message()));
  if (here) return outcome;
  EndChildWith(outcome);
}

class SimulatedFabric : public Fabric {
 public:
  SimulatedFabric(const spec::Spec& spec, SimulationPlan plan) : spec_(spec), plan_(std::move(plan)) {}
  std::string_view name() const override { return "simulated"; }
  bool predicted() const override { return true; }

  RunResult Run(int world_size, const RankFunction& fn) override {
    absl::StatusOr<SimulationPlan> plan =
        plan_.has_value() ? *std::exchange(plan_, std::nullopt) : MakePlan(ForAllMembers(spec_));
    if (!plan.ok()) return {plan.status(), RankResults::Empty(world_size), {}};
    const int most = MostMembers(spec_, world_size);
    if (most != plan->world_size) plan = MakePlan(WithRanks(spec_, most));
    if (!plan.ok()) return {plan.status(), RankResults::Empty(world_size), {}};
    std::string why;
    const bool faults = !spec_.fabric().simulated().faults().empty();
    if ((Elastic() != nullptr || faults) && !plan->stand_ins.empty()) {
      plan->stand_ins.clear();
      why = faults ? "faults happen to single ranks" : "members of an elastic run may be lost one by one";
    }
    plan->counts_steps = plan->counts_steps && !faults;
    RunResult result;
    result.costs = {{.part = "building", .seconds = plan->building.seconds, .bytes = plan->building.bytes},
                    {.part = "attempts", .count = 0}};
    while (!plan->stand_ins.empty()) {
      std::vector<int> kinds;
      RunOnce(*plan, world_size, true, fn, result, &why, &kinds);
      if (why.empty()) return result;
      if (!kinds.empty()) {  // known before ranks did anything else, unless they are told apart late
        SplitClasses(kinds, why, *plan);
        continue;
      }
      if (std::exchange(plan->may_differ_briefly, false)) continue;  // perhaps they differ for too long
      if (AskedFor()) {
        result.status = InvalidArgument("fabric.simulated.folding: ON, but ", why, "; use AUTO or OFF");
        return result;
      }
      plan->stand_ins.clear();
    }
    RunOnce(*plan, world_size, false, fn, result);
    if (!why.empty()) result.notes.push_back(StrCat("ranks were not folded: ", why));
    return result;
  }

 private:
  const spec::Elastic* Elastic() const { return ElasticOf(spec_); }
  bool AskedFor() const { return spec_.fabric().simulated().folding() == spec::Simulated::ON; }

  // Only predictions without faults, whose ranks cannot hang, and of few actors: what many leave behind would stay.
  bool MayRunHere(const SimulationPlan& plan, bool fold) const {
    constexpr size_t kMostHere = 256;
    return SimulationsRunHere() && sim::Engine::MayFollow() && Elastic() == nullptr && !plan.machine.real &&
           spec_.fabric().simulated().faults().empty() && Actors(plan, fold).size() <= kMostHere;
  }

  // Replaces `result`, apart from its costs, to which it adds. `refused`: why ranks cannot be folded; `kinds`: those
  // that are to be told apart for that reason, if this helps.
  void RunOnce(SimulationPlan& plan, int world_size, bool fold, const RankFunction& fn, RunResult& result,
               std::string* refused = nullptr, std::vector<int>* kinds = nullptr) const {
    result = {.status = absl::OkStatus(),
              .results = {},
              .notes = {},
              .ran = {},
              .costs = std::move(result.costs),
              .links = {},
              .struck = {}};
    ++*result.costs[1].count;
    if (refused != nullptr) refused->clear();
    result.results = RankResults::Empty(plan.world_size);
    result.notes = plan.notes;
    if (fold) result.notes.push_back(DescribeFolding(plan));
    absl::StatusOr<std::unique_ptr<sim::FlightRecord>> record = sim::FlightRecord::Make(plan.world_size);
    result.status = record.status();
    if (!record.ok()) return;
    std::map<int, std::string> partial;  // of the ranks that have actors
    const bool here = MayRunHere(plan, fold);
    const auto simulate = [&] { return Simulate(spec_, plan, world_size, fold, here, fn, **record); };
    absl::StatusOr<outcome::Outcome> outcome =
        here ? RunHere(simulate) : RunInChild(simulate, {record->get(), spec_.fabric().timeout_s(), &partial});
    result.status = outcome.status();
    if (!outcome.ok()) {
      const std::vector<int> actors = Actors(plan, fold);
      std::vector<std::string> of_actors;
      for (const int r : actors) of_actors.push_back(std::move(partial[r]));  // empty if the actor reported none
      result.results = {std::move(of_actors), ActorOfEach(plan, actors, fold)};
      return;
    }
    result.status = absl::Status(static_cast<absl::StatusCode>(outcome->code()), outcome->message());
    if (outcome->results_size() > 0) {  // none where the outcome was too large
      std::vector<std::string> of_actors(std::make_move_iterator(outcome->mutable_results()->begin()),
                                         std::make_move_iterator(outcome->mutable_results()->end()));
      if (Elastic() != nullptr)
        result.results = RankResults(std::move(of_actors));  // by member
      else
        result.results = {std::move(of_actors), ActorOfEach(plan, Actors(plan, fold), fold)};
    }
    result.notes.insert(result.notes.end(), outcome->notes().begin(), outcome->notes().end());
    for (const outcome::Ran& r : outcome->ran()) {
      result.ran.push_back({.group = r.group(),
                            .operation = r.operation(),
                            .bytes = r.bytes(),
                            .library = r.library(),
                            .algorithm = r.algorithm(),
                            .protocol = r.protocol()});
    }
    for (const outcome::Struck& s : outcome->struck()) {
      result.struck.push_back({.fault = s.fault(),
                               .rank = s.rank(),
                               .generation = s.generation(),
                               .text = s.text(),
                               .seconds = s.has_seconds() ? std::optional(s.seconds()) : std::nullopt,
                               .damaged = s.damaged(),
                               .deleted = s.deleted()});
    }
    result.folding_adds = outcome->folding_adds();
    if (outcome->has_links()) result.links = LinkLoadsOf(outcome->links());
    AddCosts(*outcome, result.costs);
    if (refused != nullptr) *refused = outcome->folding_refused();
    if (kinds != nullptr) kinds->assign(outcome->kinds().begin(), outcome->kinds().end());
  }

  const spec::Spec spec_;
  std::optional<SimulationPlan> plan_;  // of the first run
};

}  // namespace

absl::StatusOr<std::unique_ptr<Fabric>> MakeSimulatedFabric(const spec::Spec& spec) {
  absl::StatusOr<SimulationPlan> plan = MakePlan(ForAllMembers(spec));
  if (!plan.ok()) return plan.status();
  return std::make_unique<SimulatedFabric>(spec, *std::move(plan));
}

absl::StatusOr<std::vector<std::string>> SimulatedLinks(const spec::Spec& spec) {
  const absl::StatusOr<SimulationPlan> plan = MakePlan(ForAllMembers(spec));
  if (!plan.ok()) return plan.status();
  std::vector<std::string> names;
  for (const Link& link : plan->topology->links()) names.push_back(link.name);
  return names;
}

std::string WhyNoSimulated() { return ""; }

Bytes SimulatedStaging(const spec::Spec& spec) {
  return spec.fabric().simulated().links() == kStagedLinks ? HostStaging::kBytes : Bytes(0);
}

}  // namespace twofold
