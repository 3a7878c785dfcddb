// Flows that begin together and have the links to themselves: computes when each of them ends.
//
// Exact max-min sharing (Bertsekas and Gallager 1992, Data Networks, section 6.5.2) by progressive filling: all rates
// grow together until a link is full or a flow reaches its limit. The flows on that link keep their rate, the others
// grow on. When a flow ends, its bandwidth is shared anew. Sets of flows that are not connected by shared links, even
// indirectly, are solved separately.
//
// When a flow ends, slower flows keep their rates, because filling up to its rate does not change. So only flows that
// are at least as fast and connected with it by full links share anew. If flows have the same size, the faster ones end
// first.
//
// Cost: for flows that cross E links in total, O(E log E) if all end together; for each further end, as much for the
// flows that share anew.
//
// Ignores: latency (bytes flow at once), packets, congestion control.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <queue>
#include <span>
#include <utility>
#include <vector>

#include "topologies/graph/topology.h"

namespace twofold::sim {

class Fluid {
 public:
  static constexpr double kNoLimit = std::numeric_limits<double>::infinity();

  explicit Fluid(const Topology& topology);
  explicit Fluid(std::vector<double> bandwidths);  // of the links, bytes per second

  // Adds a flow over `links` (each at most once); `rate`: its limit. Flows without bytes, or over no link and without a
  // limit, end at once. Returns its number, counted from 0. `weights`: the flow stands for equal flows, of which so
  // many are on each of `links`; empty: it is one.
  int Add(std::span<const int> links, double bytes, double rate = kNoLimit, std::span<const int> weights = {});
  int flows() const { return static_cast<int>(left_.size()); }

  // Removes all flows, keeps the links.
  void Clear();
  // Seconds from the start until each flow ends. Ends within 1e-12 of one another are treated as one. Call once, before
  // Clear.
  const std::vector<double>& Solve();

  // The flows' rates in bytes per second while all of them last; 0 for those that end at once. Instead of Solve.
  const std::vector<double>& Rates();

  // From `time` on, `flow` has rate `rate` in bytes per second; 0: it has ended.
  struct Change {
    double time;
    int flow;
    double rate;
  };
  // The same; also fills `changes` with the changes of the flows' rates, by time.
  const std::vector<double>& Solve(std::vector<Change>& changes);
  // The same, one end after another: Start adds the first rates to `changes`, each call of Advance those at the next
  // end of a flow. Advance returns false if there is none.
  void Start(std::vector<Change>& changes);
  bool Advance(std::vector<Change>& changes);

 private:
  using End = std::pair<double, int>;  // time, flow
  using Ending = std::priority_queue<End, std::vector<End>, std::greater<End>>;
  void Begin();
  void FindSets();
  std::span<const int> Set(size_t number) const;  // its flows
  void SettleSet(std::span<const int> set);
  size_t EndNext(Ending& pending);
  // From `time` on, these flows share what the other flows leave; sets their rates and projected ends.
  void Share(std::span<const int> flows, double time);
  void AddLoad(int flow, double rate);
  void Ends(int flow, double time);
  void ListFlows();
  std::vector<int> ShareRest(std::span<const int> ended, double time);
  void TellRates(std::span<const int> flows, double time);
  void SetRates(std::span<const int> set);
  double Free(int link) const { return bandwidths_[static_cast<size_t>(link)] - loads_[static_cast<size_t>(link)]; }
  std::span<const int> LinksOf(int flow) const;
  std::span<const int> WeightsOf(int flow) const;

  std::vector<double> bandwidths_;  // of links; then, for each flow with a limit, of a private link
  size_t real_links_;
  std::vector<int> links_, weights_;  // of all flows, one flow after another
  std::vector<size_t> first_ = {0};
  std::vector<double> left_, rates_, ends_;  // bytes, bytes a second, seconds; by flow
  std::vector<double> since_, projected_;  // by flow: the time at which `left_` was valid; the end at the present rate
  std::vector<double> loads_;              // by link: the sum of its flows' rates
  std::vector<int> lists_;                 // flows of each link, built when first needed
  std::vector<size_t> lists_first_;
  std::vector<int> seen_flow_, seen_link_;  // by flow and link: the last `look_` of ShareRest that saw it
  std::vector<double> before_;              // rates; scratch of Share
  int look_ = 0;
  std::vector<Change>* changes_ = nullptr;  // null: not requested
  Ending pending_;                          // between Start and the last Advance
  size_t going_ = 0;                        // flows that have not ended, then
  // Scratch.
  std::vector<int> sets_, order_;  // by flow: its set; flows by set
  std::vector<size_t> set_ends_;   // in order_
  std::vector<int> local_, used_;  // by link: its number among the links in use, or -1; the links in use
  std::vector<double> free_;       // by that number
  std::vector<int64_t> counts_;    // flows on it whose rates are not settled, by that number
  std::vector<int> carried_;       // flows of each link in use
  std::vector<size_t> carried_first_;
};

}  // namespace twofold::sim
