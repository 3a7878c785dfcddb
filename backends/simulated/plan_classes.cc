#include "backends/simulated/plan_classes.h"

#include <algorithm>
#include <limits>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/comm/device_mesh.h"

namespace twofold {
namespace {

// Numbers that are equal for groups on the same kind of places: which of their ranks share nodes and rails is alike,
// and routes from each rank to the next have the same latencies and the same narrowest links.
class PlaceNumbers {
 public:
  explicit PlaceNumbers(const SimulationPlan& plan) : plan_(plan) {}
  int Of(const std::vector<int>& ranks) {
    const Topology& topology = *plan_.topology;
    std::vector<double> text;
    absl::flat_hash_map<int, int> nodes, rails;  // numbered in the order of ranks
    std::vector<int> route;
    for (size_t i = 0; i < ranks.size(); ++i) {
      const Pair pair{EndpointOf(ranks[i]), EndpointOf(ranks[(i + 1) % ranks.size()])};
      text.push_back(nodes.try_emplace(topology.NodeOf(pair.from), static_cast<int>(nodes.size())).first->second);
      text.push_back(rails.try_emplace(topology.RailOf(pair.from), static_cast<int>(rails.size())).first->second);
      topology.Route(pair, topology.DefaultRoute(pair), route);
      double narrowest = std::numeric_limits<double>::infinity();
      for (const int link : route) narrowest = std::min(narrowest, topology.RatesOf(link).bandwidth.value());
      text.push_back(topology.Latency(pair).value()), text.push_back(narrowest);
    }
    return numbers_.try_emplace(std::move(text), static_cast<int>(numbers_.size())).first->second;
  }

 private:
  int EndpointOf(int rank) const { return plan_.endpoints.empty() ? rank : plan_.endpoints[static_cast<size_t>(rank)]; }
  const SimulationPlan& plan_;
  absl::flat_hash_map<std::vector<double>, int> numbers_;
};

// What is known of kinds before ranks run: pipeline stages hold different layers, and ranks may be slowed. All else
// ranks tell (ProcessGroup::RanksDiffer).
std::vector<int> KindsByPlace(const MeshShape& mesh, const std::vector<double>& factors) {
  std::map<std::pair<int, double>, int> numbers;
  std::vector<int> kinds;
  for (int r = 0; r < mesh.size(); ++r) {
    const double factor = factors.empty() ? 1 : factors[static_cast<size_t>(r)];
    kinds.push_back(numbers.try_emplace({PlaceOf(mesh, r).pp, factor}, static_cast<int>(numbers.size())).first->second);
  }
  return kinds;
}

constexpr char kNoneAlike[] = "no two ranks do the same at the same times";

}  // namespace

void FindClasses(const spec::Spec& spec, SimulationPlan& plan) {
  const spec::Parallel& p = spec.parallel();
  const auto order = ParseMeshOrder(p.order());
  MeshShape mesh{.pp = static_cast<int>(p.pp()),
                 .dp = static_cast<int>(p.dp()),
                 .cp = static_cast<int>(p.cp()),
                 .tp = static_cast<int>(p.tp()),
                 .ep = std::max(1, static_cast<int>(p.ep())),
                 .islands = std::max(1, static_cast<int>(p.islands()))};
  if (order.ok()) mesh.order = *order;
  const absl::Status fits = order.ok() ? CheckMesh(mesh, plan.world_size) : order.status();
  if (spec.train().has_async_sgd()) {
    plan.why_not_fold = "ranks do different things at different times (train.async_sgd)";
    return;
  }
  if (plan.world_size == 1)
    plan.why_not_fold = "there is only one rank";
  else if (p.dp() * p.tp() * p.cp() == 1)
    plan.why_not_fold = "ranks do different things (only pp is used)";
  if (plan.machine.real) plan.why_not_fold = "ranks hold different data (data: REAL)";
  if (!fits.ok()) plan.why_not_fold = std::string(fits.message());
  if (!plan.why_not_fold.empty()) return;
  const std::shared_ptr<const MeshGroups> all = AllGroupsOf(mesh);
  PlaceNumbers numbers(plan);
  for (size_t k = 0; k < all->size(); ++k) {
    const std::shared_ptr<const GroupList>& groups = (*all)[k];
    if (groups->size() == 1 || groups->size() == static_cast<size_t>(plan.world_size)) continue;  // all; each alone
    const auto same = [&groups](const Meetings& m) { return m.groups == groups; };
    if (std::any_of(plan.meetings.begin(), plan.meetings.end(), same)) continue;
    Meetings& meetings = plan.meetings.emplace_back(Meetings{.groups = groups});
    if (plan.topology->symmetric()) continue;
    for (const std::vector<int>& group : *groups) meetings.places.push_back(numbers.Of(group));
  }
  SplitClasses(KindsByPlace(mesh, plan.compute_factors), kNoneAlike, plan);
}

void SplitClasses(std::span<const int> kinds, const std::string& why, SimulationPlan& plan) {
  plan.stand_ins = RefineClasses(
      plan.stand_ins.empty() ? std::vector<int>(kinds.begin(), kinds.end()) : BothOf(plan.stand_ins, kinds),
      plan.meetings);
  if (StandIns(plan.stand_ins).size() < plan.stand_ins.size()) return;
  plan.stand_ins.clear();
  plan.why_not_fold = why;
}

}  // namespace twofold
