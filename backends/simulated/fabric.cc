#include "backends/simulated/fabric.h"

#include <iterator>
#include <map>
#include <optional>
#include <utility>

#include "backends/host/membership_events.h"
#include "backends/simulated/child.h"
#include "backends/simulated/costs.h"
#include "backends/simulated/folding.h"
#include "backends/simulated/link_loads.h"
#include "backends/simulated/plan.h"
#include "backends/simulated/plan_classes.h"
#include "backends/simulated/simulation.h"
#include "core/base/status.h"
#include "core/base/strings.h"
#include "core/comm/staging.h"
#include "core/proto/outcome.pb.h"
#include "sim/engine.h"

namespace twofold {
namespace {

// The spec of a plan for so many ranks.
spec::Spec WithRanks(spec::Spec spec, int ranks) {
  spec::Parallel& p = *spec.mutable_parallel();
  p.set_dp(ranks), p.set_pp(1), p.set_cp(1), p.set_tp(1);
  return spec;
}

// The ranks that there can ever be if the run begins with `world_size` of them.
int MostMembers(const spec::Spec& spec, int world_size) {
  if (!spec.train().has_elastic()) return world_size;
  return host::MembershipEvents(spec.train().elastic(), world_size).most_members();
}

// The spec itself, unless more ranks come than its mesh has.
spec::Spec ForAllMembers(const spec::Spec& spec) {
  const spec::Parallel& p = spec.parallel();
  const auto replica = static_cast<int>(p.tp() * p.pp() * p.cp()), ranks = static_cast<int>(p.dp()) * replica;
  const int begin = ranks + replica * static_cast<int>(spec.train().elastic().spare_replicas());
  const int most = MostMembers(spec, begin);
  return most == ranks ? spec : WithRanks(spec, most);
}

// All but the status, the ranks' results and what was found of folding.
void AddWhatHappened(const outcome::Outcome& outcome, RunResult& result) {
  result.notes.insert(result.notes.end(), outcome.notes().begin(), outcome.notes().end());
  for (const outcome::Ran& r : outcome.ran()) {
    result.ran.push_back({.group = r.group(),
                          .operation = r.operation(),
                          .bytes = r.bytes(),
                          .library = r.library(),
                          .algorithm = r.algorithm(),
                          .protocol = r.protocol()});
  }
  for (const outcome::Struck& s : outcome.struck()) {
    result.struck.push_back({.fault = s.fault(),
                             .rank = s.rank(),
                             .generation = s.generation(),
                             .text = s.text(),
                             .seconds = s.has_seconds() ? std::optional(s.seconds()) : std::nullopt,
                             .damaged = s.damaged(),
                             .deleted = s.deleted()});
  }
  result.folding_adds = outcome.folding_adds();
  if (outcome.has_links()) result.links = LinkLoadsOf(outcome.links());
  AddCosts(outcome, result.costs);
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
    if ((elastic() || faults) && !plan->stand_ins.empty()) {
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
  bool elastic() const { return spec_.train().has_elastic(); }
  bool AskedFor() const { return spec_.fabric().simulated().folding() == spec::Simulated::ON; }

  // Only predictions without faults, whose ranks cannot hang, and of few actors: what many leave behind would stay.
  bool MayRunHere(const SimulationPlan& plan, bool fold) const {
    constexpr size_t kMostHere = 256;
    return SimulationsRunHere() && sim::Engine::MayFollow() && !elastic() && !plan.machine.real &&
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
    const auto simulate = [&] { return Simulate({spec_, plan, world_size, fold, fn}, here, **record); };
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
      if (elastic())
        result.results = RankResults(std::move(of_actors));  // by member
      else
        result.results = {std::move(of_actors), ActorOfEach(plan, Actors(plan, fold), fold)};
    }
    AddWhatHappened(*outcome, result);
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
