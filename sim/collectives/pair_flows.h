// What all ranks of some teams send to all ranks of others: the flows of one phase of an all-to-all, which are too many
// to be kept.
//
// Among 4,096 ranks an all-to-all has 16 million flows. They follow from the teams, which are the ranks of each node,
// and from how far apart the teams are that exchange in a phase.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

namespace twofold::sim {

struct PairFlows {
  std::shared_ptr<const std::vector<std::vector<int>>> teams;  // their ranks; of each node, all
  bool within = false;  // all pairs of each team, too, before what the team sends to others
  // Each team sends to those at the distances first, first + step, ... below the number of teams, around the end.
  size_t first = 1, step = 1;
  int kind_within = 0, kind_between = 0;  // of the flows, as FlowPattern::Ends::kind

  // How many ranks of other teams a rank of this team sends to, and receives from.
  size_t SendsTo(size_t team) const {
    size_t ranks = 0;
    for (size_t d = first; d < teams->size(); d += step) ranks += (*teams)[(team + d) % teams->size()].size();
    return ranks;
  }
  size_t ReceivesFrom(size_t team) const {
    size_t ranks = 0;
    for (size_t d = first; d < teams->size(); d += step)
      ranks += (*teams)[(team + teams->size() - d) % teams->size()].size();
    return ranks;
  }
  // How many flows there are of each kind.
  size_t FlowsWithin() const {
    size_t flows = 0;
    for (size_t t = 0; within && t < teams->size(); ++t) flows += (*teams)[t].size() * ((*teams)[t].size() - 1);
    return flows;
  }
  size_t FlowsBetween() const {
    size_t flows = 0;
    for (size_t t = 0; t < teams->size(); ++t) flows += (*teams)[t].size() * SendsTo(t);
    return flows;
  }
  size_t size() const { return FlowsWithin() + FlowsBetween(); }
  // Of the first and the last flow, if there is any.
  int first_kind() const { return within && teams->front().size() > 1 ? kind_within : kind_between; }
  int last_kind() const { return first < teams->size() ? kind_between : kind_within; }

  // Calls visit(sending rank, receiving rank, kind) for every flow, in their order.
  template <class Visit>
  void List(Visit&& visit) const {
    const std::vector<std::vector<int>>& all = *teams;
    for (size_t t = 0; t < all.size(); ++t) {
      for (size_t i = 0; within && i < all[t].size(); ++i) {
        for (size_t j = 0; j < all[t].size(); ++j)
          if (i != j) visit(all[t][i], all[t][j], kind_within);
      }
      for (size_t d = first; d < all.size(); d += step) {
        const std::vector<int>& others = all[(t + d) % all.size()];
        for (const int from : all[t]) {
          for (const int to : others) visit(from, to, kind_between);
        }
      }
    }
  }
};

}  // namespace twofold::sim
