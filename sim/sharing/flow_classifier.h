// Finds the classes of flows and links (flow_classes.h) by colour refinement.
//
// Sets that meet and whose classes are known, each by itself, need not be looked at flow by flow: as long as nothing
// splits the classes of a set's links, its flows' classes remain, and are taken over. Only the flows of the other sets
// are listed. If refinement splits links' classes of another set, this one is listed, too, and refinement goes on.
//
// Cost: for listed flows that cross E links in total, O(E) for the first round of refinement. Later ones look only at
// what touches a class that was split, and the largest part of a class keeps its colour: O(E log E) for all of them.
// For other sets as much as they have links and classes.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <vector>

#include "core/base/zeros.h"
#include "sim/sharing/colours.h"
#include "sim/sharing/flow_classes.h"
#include "sim/sharing/flow_set.h"
#include "topologies/graph/topology.h"

namespace twofold::sim {

class FlowClassifier {
 public:
  // `topology`: of all links that flows may cross; it must outlive the classifier.
  explicit FlowClassifier(const Topology& topology) : topology_(topology), local_(topology.link_count()) {}
  // What is known of a set: classes in which it is one of the sets. Its flows are told apart at least as there; so are
  // links. If these are its classes alone, that says nothing new but saves rounds: joint classes refine them anyway.
  struct Known {
    const FlowClasses* classes = nullptr;  // null: nothing, flows are alike if they have the same bytes
    size_t set = 0;                        // its number there
  };
  FlowClasses Classify(std::vector<std::shared_ptr<const FlowSet>> sets, std::span<const Known> known);

 private:
  size_t CopiesOf(const FlowSet& set) const { return alone_ ? 1 : set.copies(); }
  int PlaceOf(int link);
  static std::vector<int> LinkClassesOf(const Known& known);
  void StartLinks(const FlowClasses& all, std::span<const Known> known);
  bool ListSplitSets(const FlowClasses& all, std::span<const Known> known);
  void ListCrossings(const FlowClasses& all);
  void ListFlows();
  void StartFlows(const FlowClasses& all, std::span<const Known> known);
  void Refine();
  static void Order(std::vector<int>& things, std::vector<bool>& touched);
  void Describe(FlowClasses& all, std::span<const Known> known) const;
  void DescribeLinks(FlowClasses& all) const;
  void TakeOver(size_t set, const Known& known, FlowClasses& all) const;
  void DescribeListed(size_t set, size_t first, std::vector<int>& numbers, FlowClasses& all) const;
  void Weigh(std::span<const size_t> examples, std::span<const int64_t> counts, size_t first, FlowClasses& all) const;
  std::span<const int> LinksOf(int flow) const {
    const auto f = static_cast<size_t>(flow);
    return {places_.data() + first_[f], first_[f + 1] - first_[f]};
  }

  double BandwidthOf(int link) const { return topology_.RatesOf(link).bandwidth.value(); }

  const Topology& topology_;
  bool alone_ = true;  // one set is classified: its first copy's flows are enough
  Zeros<int> local_;   // by link: one more than its place in used_; 0: it is not used
  // Scratch: of the call in progress. Flows of all listed sets are numbered one after another, links by their place.
  std::vector<bool> listed_;             // by set: whether its flows are; those of others have their known classes
  std::vector<std::vector<int>> known_;  // by set: the known classes of links that its flows cross
  std::vector<int> used_;
  std::vector<int> places_;          // of the links of all flows
  std::vector<size_t> first_;        // by flow, in places_
  std::vector<int> flows_;           // of all links
  std::vector<size_t> flows_first_;  // by link, in flows_
  Colours flow_colours_, link_colours_;
  std::vector<int> flow_classes_, link_classes_;
};

}  // namespace twofold::sim
