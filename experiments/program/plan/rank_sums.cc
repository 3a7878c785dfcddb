#include "experiments/program/plan/rank_sums.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace twofold::plan {

std::vector<ChunkTimes> LeastOf(const RankTimes& rank, int chunks, double RankTimes::OfAction::*seconds) {
  using pipeline::Action;
  constexpr double kNone = std::numeric_limits<double>::infinity();
  ChunkTimes none{.forward = kNone, .backward = {kNone, kNone}, .weights = {kNone, kNone}, .input = kNone};
  std::vector<ChunkTimes> all(static_cast<size_t>(chunks), none);
  const auto lower = [](double seconds, double& least) { least = std::min(least, seconds); };
  std::set<std::pair<int, Action::Kind>> seen;
  for (const RankTimes::OfAction& of : rank.actions) {
    ChunkTimes& chunk = all[static_cast<size_t>(of.action.chunk)];
    const size_t later = seen.emplace(of.action.chunk, of.action.kind).second ? 0 : 1;
    switch (of.action.kind) {
      case Action::kForward: lower(of.*seconds, chunk.forward); break;
      case Action::kBackward: lower(of.*seconds, chunk.backward[later]); break;
      case Action::kBackwardInput: lower(of.*seconds, chunk.input); break;
      case Action::kBackwardWeights: lower(of.*seconds, chunk.weights[later]); break;
    }
  }
  const auto known = [](double& least, double otherwise) {
    if (least == kNone) least = otherwise;
  };
  for (ChunkTimes& c : all) {
    for (double* both : {c.backward, c.weights}) known(both[0], 0), known(both[1], both[0]);
    known(c.forward, 0), known(c.input, 0);
  }
  return all;
}

ChunkTimes MostSlowed(const RankTimes& rank) {
  using pipeline::Action;
  ChunkTimes most;
  const auto raise = [](double seconds, double& known) { known = std::max(known, seconds); };
  for (const RankTimes::OfAction& of : rank.actions) {
    switch (of.action.kind) {
      case Action::kForward: raise(of.slowed, most.forward); break;
      case Action::kBackward: raise(of.slowed, most.backward[0]); break;
      case Action::kBackwardInput: raise(of.slowed, most.input); break;
      case Action::kBackwardWeights: raise(of.slowed, most.weights[0]); break;
    }
  }
  most.backward[1] = most.backward[0], most.weights[1] = most.weights[0];
  return most;
}

double OneAfterAnother(const RankTimes& rank, int few, int whole) {
  double launches = 0, to_device = 0, to_host = 0;
  const auto add = [&](const RankTimes::OfAction& of, double times) {
    launches += times * of.launches, to_device += times * of.to_device, to_host += times * of.to_host;
  };
  add(rank.outside, 1);
  for (const RankTimes::OfAction& of : rank.actions) {
    const bool stands_for_others = of.action.micro_batch == 1 && few > 2;  // neither first nor last
    add(of, stands_for_others ? 1 + whole - few : 1);
  }
  return std::max({launches, to_device, to_host});
}

// Which messages and gathers are issued during an action depends on the one after it. So micro-batches that were not
// replayed count with the least that any in the middle has, by kind of action, chunk and link.
double BusiestLink(const RankTimes& rank, int few, int whole) {
  absl::flat_hash_map<int, double> sums = rank.outside.links;
  std::map<std::pair<int, int>, std::vector<const RankTimes::OfAction*>> middle;  // by chunk and kind
  for (const RankTimes::OfAction& of : rank.actions) {
    for (const auto& [link, seconds] : of.links) sums[link] += seconds;
    const pipeline::Action& action = of.action;
    if (action.micro_batch > 0 && action.micro_batch + 1 < few) middle[{action.chunk, action.kind}].push_back(&of);
  }
  for (const auto& [kind, actions] : middle) {
    for (const auto& [link, seconds] : actions[0]->links) {
      double least = seconds;
      for (const RankTimes::OfAction* other : actions) {
        const auto found = other->links.find(link);
        least = std::min(least, found == other->links.end() ? 0 : found->second);
      }
      sums[link] += (whole - few) * least;
    }
  }
  double busiest = 0;
  for (const auto& [link, seconds] : sums) busiest = std::max(busiest, seconds);
  return busiest;
}

bool HostIsBusy(const RankTimes& rank) { return rank.launches > 0.5 * rank.operations; }

}  // namespace twofold::plan
