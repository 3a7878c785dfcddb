#include "backends/simulated/least_times.h"

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "backends/simulated/plan.h"
#include "sim/phase_times.h"
#include "sim/places.h"

namespace twofold {
namespace {

class Times final : public LeastTimes {
 public:
  explicit Times(SimulationPlan plan)
      : plan_(std::move(plan)), router_(*plan_.topology, plan_.routing), phases_(*plan_.topology, router_) {
    slowdown_ = plan_.machine.slowdown;
    if (!plan_.compute_factors.empty())
      slowdown_ *= std::min(1.0, *std::min_element(plan_.compute_factors.begin(), plan_.compute_factors.end()));
  }

  Seconds Operation(const ops::Op& op) override { return plan_.costs->Time(op).seconds * slowdown_; }
  Seconds Launch(const ops::Op& op) override {
    if (!plan_.machine.gpu) return Seconds(0);
    return plan_.costs->Time(op).launch.value_or(Seconds(plan_.machine.launch_seconds));
  }
  Seconds Transfer(const Tensor& from, const Tensor& to) override {
    return plan_.host_link.Time(from, to, *plan_.costs);
  }

  Seconds Collective(const std::vector<int>& ranks, Communication::Kind kind, double bytes, int root) override {
    if (ranks.size() < 2 || kind == Communication::kBarrier || kind == Communication::kAllToAllV) return Seconds(0);
    const Key key(NumberOf(ranks), static_cast<int>(kind), bytes, root);
    const auto [at, fresh] = known_.try_emplace(key, 0);
    if (!fresh) return Seconds(at->second);
    const sim::CollectiveShape shape{
        .kind = kind, .ranks = static_cast<int>(ranks.size()), .bytes = bytes, .root = root, .follows = true};
    const auto measured = plan_.choice.algorithm == "auto" ? plan_.collectives.Seconds(shape) : std::nullopt;
    const double seconds = measured ? *measured : Fastest(shape, EndpointsOf(ranks));
    known_[key] = seconds;
    return Seconds(seconds);
  }

  Seconds Message(const std::vector<int>& ranks, int from, int to, double bytes) override {
    const Key key(-1 - from, to, bytes, NumberOf(ranks));
    const auto [at, fresh] = known_.try_emplace(key, 0);
    if (!fresh) return Seconds(at->second);
    const std::vector<int> endpoints = EndpointsOf({from, to});
    sim::Places places = sim::PlacesOf(*plan_.topology, endpoints);
    const sim::Places group = sim::PlacesOf(*plan_.topology, EndpointsOf(ranks));
    places.group = &group;
    const double seconds = TimeOf(plan_.library->Message(bytes, places), endpoints);
    known_[key] = seconds;
    return Seconds(seconds);
  }

 private:
  using Key = std::tuple<int, int, double, int>;  // group, kind, bytes, root; -1 - from, to, bytes, group of a message

  int NumberOf(const std::vector<int>& ranks) {
    return numbers_.try_emplace(ranks, static_cast<int>(numbers_.size())).first->second;
  }
  std::vector<int> EndpointsOf(std::vector<int> ranks) const {
    if (plan_.endpoints.empty()) return ranks;
    for (int& rank : ranks) rank = plan_.endpoints[static_cast<size_t>(rank)];
    return ranks;
  }
  // A schedule that is refused runs in no simulation.
  double Fastest(const sim::CollectiveShape& shape, const std::vector<int>& endpoints) {
    const auto plans = plan_.library->Plans(shape, sim::PlacesOf(*plan_.topology, endpoints), plan_.choice);
    if (!plans.ok()) return 0;
    double least = std::numeric_limits<double>::infinity();
    for (const sim::Schedule& schedule : *plans) least = std::min(least, TimeOf(schedule, endpoints));
    return least;
  }
  // Until the first rank that takes part has ended its last phase.
  double TimeOf(const sim::Schedule& schedule, const std::vector<int>& endpoints) {
    if (schedule.loose || router_.depends_on_load()) return 0;
    auto phases = static_cast<int>(schedule.phases.size());
    for (const int last : schedule.last_phase) phases = std::min(phases, last + 1);
    double seconds = 0;
    for (int p = 0; p < phases; ++p) {
      const sim::PhaseTimes::Part part{schedule.phases[static_cast<size_t>(p)], endpoints};
      seconds += phases_.Bound({&part, 1}).seconds;
    }
    return seconds * schedule.stretch;
  }

  const SimulationPlan plan_;
  Router router_;
  sim::PhaseTimes phases_;
  double slowdown_ = 1;
  absl::flat_hash_map<std::vector<int>, int> numbers_;
  absl::flat_hash_map<Key, double> known_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<LeastTimes>> MakeLeastTimes(const spec::Spec& spec) {
  spec::Spec unfolded = spec;
  unfolded.mutable_fabric()->mutable_simulated()->set_folding(spec::Simulated::OFF);  // classes are not needed
  absl::StatusOr<SimulationPlan> plan = MakePlan(unfolded);
  if (!plan.ok()) return plan.status();
  return std::make_unique<Times>(*std::move(plan));
}

}  // namespace twofold
