// Flows that begin together and have the links to themselves: when each of them ends.
//
// Exact max-min sharing (Bertsekas and Gallager 1992, Data Networks, section 6.5.2): all rates grow alike until a link is full
// or a flow moves as much as it can; the flows it carries keep that rate, the others grow on. When a flow ends, what it
// leaves is shared anew. Flows that share no link with one another, not even through others, are settled apart.
//
// When a flow ends, those slower than it keep their rates: filling up to its rate is as it was. So only flows at least as
// fast, connected with it by links, share anew; the faster end first where flows are of a size.
//
// Of more than 8,192 flows in one set, ends within 1 % of one another are taken together: what they leave is shared anew when
// the last of them has ended, so that others end up to that much later than exactly.
//
// Cost: for flows that cross E links in all, O(E log E) where all end together; for each further end, as much over the flows
// that share anew.
//
// Ignores: latency (bytes flow at once), packets, congestion control.
#pragma once

#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "topologies/graph/topology.h"

namespace twofold::sim {

class Fluid {
 public:
  static constexpr double kNoLimit = std::numeric_limits<double>::infinity();

  explicit Fluid(const Topology& topology);
  explicit Fluid(std::vector<double> bandwidths);  // of the links, bytes a second

  // A flow over `links` (each at most once); `rate`: the most it moves. Flows of no bytes, or over no link and without a limit,
  // end at once. Returns its number, from 0 on.
  int Add(std::span<const int> links, double bytes, double rate = kNoLimit);
  int flows() const { return static_cast<int>(left_.size()); }

  // Forgets all flows, keeps the links.
  void Clear();
  // Seconds after the beginning at which each flow ends. Ends within 1e-12 of one another are one. Once, before Clear.
  const std::vector<double>& Solve();

  // From `time` on, `flow` moves `rate` bytes a second; 0: it has ended.
  struct Change { double time; int flow; double rate; };
  // As Solve; `changes` becomes how the flows' rates change, by time.
  const std::vector<double>& Solve(std::vector<Change>& changes);

 private:
  using End = std::pair<double, int>;  // when, of which flow
  void FindSets();
  void SettleSet(std::span<const int> set);
  // From `time` on these flows share what the others leave; sets their rates and projected ends.
  void Share(std::span<const int> flows, double time);
  void AddLoad(int flow, double rate);
  void Ends(int flow, double time);
  void ListFlows();
  std::vector<int> Touched(std::span<const int> ended);
  void SetRates(std::span<const int> set);
  double Free(int link) const { return bandwidths_[static_cast<size_t>(link)] - loads_[static_cast<size_t>(link)]; }
  std::span<const int> LinksOf(int flow) const;

  std::vector<double> bandwidths_;  // of links; then, for each flow that is limited, of a link of its own
  size_t real_links_;
  std::vector<int> links_;          // of all flows, one after another
  std::vector<size_t> first_ = {0};
  std::vector<double> left_, rates_, ends_;  // bytes, bytes a second, seconds; by flow
  std::vector<double> since_, projected_;    // by flow: when `left_` was so much; when it ends at its present rate
  std::vector<double> loads_;                // by link: the sum of its flows' rates
  std::vector<int> lists_;                   // flows of each link, once needed
  std::vector<size_t> lists_first_;
  std::vector<int> seen_flow_, seen_link_;   // by which look at who shares anew
  int look_ = 0;
  std::vector<Change>* changes_ = nullptr;   // asked for
  // Scratch.
  std::vector<int> sets_, order_;           // by flow: its set; flows by set
  std::vector<size_t> set_ends_;            // in order_
  std::vector<int> local_, used_;           // by link: its number among those in use, -1; those in use
  std::vector<double> free_;                // by number
  std::vector<int> counts_;
  std::vector<int> carried_;                // flows of each link in use
  std::vector<size_t> carried_first_;
};

}  // namespace twofold::sim
