// Helpers that the algorithms share.
#pragma once

#include <algorithm>
#include <bit>
#include <memory>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "core/base/strings.h"
#include "sim/collectives/schedule.h"

namespace twofold::sim {

inline int CeilLog2(int n) { return n <= 1 ? 0 : std::bit_width(static_cast<unsigned>(n - 1)); }

// For each rank the last phase with a flow of it, -1 for none. `phases`: lists of flows or hops. All ranks take part in
// a phase without flows.
template <class Phases, class FlowsOf>
std::vector<int> LastPhases(const Phases& phases, int ranks, FlowsOf&& flows_of) {
  std::vector<int> last(static_cast<size_t>(ranks), -1);
  for (size_t p = 0; p < phases.size(); ++p) {
    const auto& flows = flows_of(phases[p]);
    if (flows.empty()) std::fill(last.begin(), last.end(), static_cast<int>(p));
    const auto visit = [&](const auto& f) {
      last[static_cast<size_t>(f.from)] = last[static_cast<size_t>(f.to)] = static_cast<int>(p);
    };
    if constexpr (requires { flows.ForEach(visit); })
      flows.ForEach(visit);
    else
      for (const auto& f : flows) visit(f);
  }
  return last;
}

inline Schedule Finished(std::vector<Phase> phases, int ranks) {
  std::vector<int> last = LastPhases(phases, ranks, [](const Phase& phase) -> const FlowList& { return phase.flows; });
  return {std::move(phases), std::move(last)};
}

inline absl::Status NoForm(std::string_view algorithm, const CollectiveShape& shape, std::string_view why = "") {
  return absl::UnimplementedError(StrCat("algorithm ", algorithm, " does not support ", KindName(shape.kind), " over ",
                                         shape.ranks, " ranks", why.empty() ? "" : ": ", why));
}

inline Phase Reversed(Phase phase) {
  for (Flow& f : phase.flows.Listed()) std::swap(f.from, f.to);
  return phase;
}

// What every rank sends to the one at some distance. Where each has a node of its own, these flows are described
// instead of listed: at all distances, thousands of ranks have millions.
class Rotation {
 public:
  // `places` may be those of a larger group (hierarchical.cc).
  Rotation(int ranks, const Places& places) : ranks_(ranks) {
    if (places.ranks() != ranks_ || places.nodes != ranks_) return;
    auto nodes = std::make_shared<std::vector<std::vector<int>>>();
    for (int rank = 0; rank < ranks_; ++rank) nodes->push_back({rank});
    nodes_ = std::move(nodes);
  }
  FlowList By(int shift, double bytes) const {
    if (nodes_ != nullptr) {
      const PairFlows pairs{.teams = nodes_, .first = static_cast<size_t>(shift), .step = static_cast<size_t>(ranks_)};
      return {std::make_shared<const FlowPattern>(std::make_shared<const PairFlows>(pairs)), {{0, 0, bytes}}};
    }
    FlowList flows;
    flows.reserve(static_cast<size_t>(ranks_));
    for (int rank = 0; rank < ranks_; ++rank) flows.push_back({rank, (rank + shift) % ranks_, bytes});
    return flows;
  }

 private:
  int ranks_;
  std::shared_ptr<const std::vector<std::vector<int>>> nodes_ = nullptr;
};

// Ranks 0 to n - 1 exchange with the rank whose number differs in one bit.
inline Phase Exchange(int distance, int n, double bytes) {
  Phase phase;
  for (int i = 0; i < n; ++i) phase.flows.push_back({i, i ^ distance, bytes});
  return phase;
}

// The ranks from `core` on send what they have to a partner below it.
inline Phase FoldIn(int core, int ranks, double bytes) {
  Phase phase;
  for (int i = core; i < ranks; ++i) phase.flows.push_back({i, i - core, bytes});
  return phase;
}

// ---- For ranks on nodes ----
inline std::vector<std::vector<int>> RanksByNode(const Places& p) {
  std::vector<std::vector<int>> nodes(static_cast<size_t>(p.nodes));
  for (int r = 0; r < p.ranks(); ++r) nodes[static_cast<size_t>(p.node[static_cast<size_t>(r)])].push_back(r);
  return nodes;
}

// For each local number, the ranks that have it, in node order; all nodes must have the same number of ranks.
inline std::vector<std::vector<int>> Transposed(const std::vector<std::vector<int>>& nodes) {
  std::vector<std::vector<int>> peers(nodes[0].size());
  for (const std::vector<int>& node : nodes) {
    for (size_t local = 0; local < node.size(); ++local) peers[local].push_back(node[local]);
  }
  return peers;
}

// A phase among [0, k), done by each of the groups of k ranks concurrently.
inline Phase Lifted(const Phase& phase, const std::vector<std::vector<int>>& groups) {
  Phase all{.rounds = phase.rounds, .flows = {}, .seconds = phase.seconds};
  all.flows.reserve(phase.flows.size() * groups.size());
  for (const std::vector<int>& group : groups) {
    for (Flow f : phase.flows) {
      f.from = group[static_cast<size_t>(f.from)], f.to = group[static_cast<size_t>(f.to)];
      f.crossings /= static_cast<double>(groups.size());  // a byte passes one group: the mean over all
      all.flows.push_back(f);
    }
  }
  return all;
}

}  // namespace twofold::sim
