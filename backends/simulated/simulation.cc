#include "backends/simulated/simulation.h"

#include <algorithm>
#include <cstdint>
#include <functional>
#include <memory>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "backends/host/membership_events.h"
#include "backends/host/now_and_then.h"
#include "backends/simulated/actor.h"
#include "backends/simulated/child.h"
#include "backends/simulated/costs.h"
#include "backends/simulated/faults.h"
#include "backends/simulated/folding.h"
#include "backends/simulated/generations.h"
#include "backends/simulated/link_loads.h"
#include "backends/simulated/most_apart.h"
#include "backends/simulated/repeats.h"
#include "backends/simulated/shared_memory.h"
#include "core/base/format.h"
#include "core/base/status.h"
#include "core/base/strings.h"
#include "sim/at_work.h"
#include "sim/engine.h"
#include "sim/network.h"
#include "topologies/graph/no_route.h"

namespace twofold {
namespace {

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

// Members are destroyed from the bottom up: what refers to the engine before it.
class Simulation {
 public:
  Simulation(const SimulationTask& task, sim::FlightRecord& record);

  // Once.
  outcome::Outcome Run();

 private:
  sim::NetworkOptions OptionsOfNetwork() const;
  SimulatedWorld World();
  SimulatedFaults Faults();
  bool elastic() const { return spec_.train().has_elastic(); }

  // How many ranks each actor stands for.
  std::vector<int> RanksOfActors() const;
  void BeginGenerations();
  // What the actor with this number does.
  void RunRank(int rank, int at, int stands_for);
  void Act(Actor& actor, RankContext& context, int rank, int at);
  std::function<int64_t(int64_t, int64_t)> RepeatsOfActor(Actor& actor);
  // The status of an elastic run: losses before or after a member's result were survived; nothing else is.
  absl::Status WithLossesSurvived(absl::Status status);
  void AddWhatCameOfIt(const absl::Status& status);
  void SetStatus(const absl::Status& status);

  // Groups with pending waits are removed from the network.
  struct Forgets {
    ~Forgets() { engine.Forget(); }
    sim::Engine& engine;
  };

  const Moment begin_ = MomentNow();
  const spec::Spec& spec_;
  SimulationPlan& plan_;
  const int world_size_;
  const bool fold_;
  const RankFunction& fn_;
  sim::Engine engine_;
  std::vector<int> actors_;
  sim::Network network_;
  SimulatedWorld world_;
  Forgets forgets_{engine_};
  outcome::Outcome outcome_;
  std::shared_ptr<SimulatedGroup> group_;  // of all ranks that the run begins with
  SimulatedDevice::Extrapolated extrapolated_;
  SharedMemory memory_;
  const host::NowAndThen keep_;
  std::optional<SimulatedGenerations> generations_;  // of an elastic run
  std::optional<SteadyState> steady_;
  SimulatedFaults faults_;
};

Simulation::Simulation(const SimulationTask& task, sim::FlightRecord& record)
    : spec_(task.spec),
      plan_(task.plan),
      world_size_(task.world_size),
      fold_(task.fold),
      fn_(task.fn),
      engine_(*plan_.topology, EngineOptions(spec_, plan_, record)),
      actors_(Actors(plan_, fold_)),
      network_(engine_, *plan_.library, OptionsOfNetwork()),
      world_(World()),
      memory_(plan_.shared_memory),
      keep_(host::NowAndThen::Clock::now(), elastic() ? world_size_ : static_cast<int>(actors_.size())),
      faults_(Faults()) {
  if (elastic()) actors_.resize(static_cast<size_t>(world_size_));
  if (plan_.counts_steps && !elastic()) steady_.emplace(actors_.size());
}

sim::NetworkOptions Simulation::OptionsOfNetwork() const {
  return {.choice = plan_.choice,
          .closed_forms = !plan_.simgrid,
          .measured = plan_.collectives,
          .endpoints = plan_.endpoints,
          .keep_schedules = plan_.machine.goal_bytes > 0,
          .copied = [&copies = plan_.machine.ring_copies](std::span<const int> ranks) {
            return copies.has_value() && copies->Among(ranks);
          }};
}

SimulatedWorld Simulation::World() {
  const bool asked_for = spec_.fabric().simulated().folding() == spec::Simulated::ON;
  return {.engine = engine_,
          .network = network_,
          .real = plan_.machine.real,
          .ranks = static_cast<size_t>(world_size_),
          .stand_ins = fold_ ? plan_.stand_ins : std::vector<int>(),
          .none_may_part = MostApart(spec_.fabric().simulated(), plan_.world_size) == 0,
          .may_be_unequal = asked_for || plan_.world_size > kMostRunAfterAll,
          .sums_tell_apart = !asked_for && plan_.world_size <= kMostRunOneByOne,
          .may_differ_briefly = plan_.may_differ_briefly};
}

SimulatedFaults Simulation::Faults() {
  if (!elastic()) return {engine_, spec_, nullptr};
  return {engine_, spec_, [this](int member) { return generations_->HasGoneOnWithout(member); }};
}

std::vector<int> Simulation::RanksOfActors() const {
  if (elastic()) return std::vector<int>(actors_.size(), 1);
  std::vector<int> ranks(actors_.size(), 0);
  for (const int actor : ActorOfEach(plan_, actors_, fold_)) ++ranks[static_cast<size_t>(actor)];
  return ranks;
}

void Simulation::BeginGenerations() {
  const auto start = [this](int member) {
    outcome_.add_results();
    engine_.AddRank(member, [this, member] { RunRank(member, member, 1); });
  };
  generations_.emplace(world_, group_, host::MembershipEvents(spec_.train().elastic(), world_size_),
                       spec_.fabric().simulated().membership(), start);
  if (faults_.hangs()) generations_->ExpectHangs();
  world_.before_call = [this](SimulatedRank& rank) {
    generations_->ThrowIfLost(rank);
    faults_.BeforeCall(rank);
  };
}

std::function<int64_t(int64_t, int64_t)> Simulation::RepeatsOfActor(Actor& actor) {
  if (!steady_) return nullptr;
  return RepeatsOf(*steady_, {actor.clock, actor.allocator, actor.host_allocator, actor.stats, actor.device, world_});
}

void Simulation::RunRank(int rank, int at, int stands_for) {
  Actor actor(rank, stands_for, keep_, plan_, memory_, world_,
              generations_ ? generations_->Of(rank)->everyone : group_);
  if (generations_) actor.clock.GoesOn(generations_->Of(rank)->begins);
  RankContext context =
      MakeContext(rank, plan_, actor, faults_,
                  generations_ ? MembershipOf(*generations_, faults_, actor) : OnlySteps(faults_, actor.clock),
                  RepeatsOfActor(actor));
  actor.context = &context;
  actor.clock.SetLate([this, rank](double seconds) {
    if (!world_.briefly.empty() && seconds > 0) world_.late[rank] += seconds;
  });
  const absl::Cleanup add = [&] { AddMost(actor.device.extrapolated(), extrapolated_); };
  Act(actor, context, rank, at);
}

void Simulation::Act(Actor& actor, RankContext& context, int rank, int at) {
  try {
    outcome_.set_results(at, fn_(context));
    if (!engine_.failed()) actor.device.compute().Synchronize();  // the run ends when this rank's work has ended
    if (generations_) generations_->Leave(rank, actor.clock.host().time(), true);
  } catch (...) {
    outcome_.set_results(at, context.partial_result());
    if (generations_ && generations_->HasGoneOnWithout(rank)) return;  // nobody misses it
    if (generations_) generations_->Leave(rank, actor.clock.host().time(), false);
    throw;  // the engine handles it
  }
}

outcome::Outcome Simulation::Run() {
  for (size_t a = 0; a < actors_.size(); ++a) outcome_.add_results();
  std::vector<int> ranks(static_cast<size_t>(world_size_));
  std::iota(ranks.begin(), ranks.end(), 0);
  try {
    group_ = std::make_shared<SimulatedGroup>(world_, "world", std::vector<std::vector<int>>{std::move(ranks)});
  } catch (const NoRoute& none) {
    SetStatus(ToStatus(RankFailure(RankFailure::Kind::kOther, 0, none.what())));
    return std::move(outcome_);
  }
  if (!faults_.none())
    world_.before_call = world_.before_split = [this](SimulatedRank& rank) { faults_.BeforeCall(rank); };
  if (elastic()) BeginGenerations();
  const std::vector<int> stands_for = RanksOfActors();
  for (size_t a = 0; a < actors_.size(); ++a) {
    engine_.AddRank(actors_[a], [this, rank = actors_[a], at = static_cast<int>(a), ranks = stands_for[a]] {
      RunRank(rank, at, ranks);
    });
  }
  const absl::Status status = engine_.Run();
  AddWhatCameOfIt(generations_ ? WithLossesSurvived(status) : status);
  return std::move(outcome_);
}

absl::Status Simulation::WithLossesSurvived(absl::Status status) {
  if (status.ok() || !IsSurvivable(FailureKind(status))) return status;
  if (generations_->fine()) return absl::OkStatus();
  if (generations_->over().empty()) return status;
  return {status.code(), StrCat(generations_->over(), "; before that: ", std::string(status.message()))};
}

void Simulation::AddWhatCameOfIt(const absl::Status& status) {
  if (generations_)
    for (const std::string& note : generations_->notes()) outcome_.add_notes(note);
  faults_.AddTo(outcome_);
  const auto counted = steady_ ? steady_->counted() : std::nullopt;
  if (counted) outcome_.add_notes(Describe(*counted));
  for (const std::string& note : network_.notes()) outcome_.add_notes(note);
  AddExtrapolationNotes(extrapolated_, outcome_);
  AddWhatRan(world_, outcome_);
  if (fold_) AddWhatFoldingChanges(MostApart(spec_.fabric().simulated(), plan_.world_size), world_, outcome_);
  AddCosts(engine_, network_, begin_, world_.set_up, static_cast<int>(actors_.size()), plan_.world_size, outcome_);
  AddLinkLoads(engine_, outcome_);
  if (steady_) {
    outcome::Cost& cost = *outcome_.add_costs();
    cost.set_part("steps counted"), cost.set_count(counted ? counted->steps : 0);
  }
  SetStatus(status);
}

void Simulation::SetStatus(const absl::Status& status) {
  outcome_.set_code(static_cast<int>(status.code()));
  outcome_.set_message(std::string(status.message()));
}

}  // namespace

outcome::Outcome Simulate(const SimulationTask& task, bool here, sim::FlightRecord& record) {
  sim::StartSampling();
  HoldInterrupts hold;
  Simulation simulation(task, record);
  if (!here) CatchInterruptsInChild();
  hold.Release();
  outcome::Outcome outcome = simulation.Run();
  if (here) return outcome;
  EndChildWith(outcome);
}

}  // namespace twofold
