// Flows by class: many flows that share links alike are solved as one.
//
// Flows are of one class if they have the same bytes, limit and parts and cross links of the same classes, one after
// the other; links are of one class if they have the same bandwidth and carry equally many flows of each class. That is
// an equitable partition of the graph of flows and links. The coarsest one is found by colour refinement (Weisfeiler
// and Leman 1968; Grohe, Kersting, Mladenov and Selman 2014, "Dimension Reduction via Colour Refinement", section 5,
// for linear programs). Max-min shares are unique, and so equal within a class: solving one flow of each class, with
// the number of its kind on each link as its weight there, is exact.
//
// FlowClassifier (flow_classifier.h) finds them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <vector>

#include "sim/sharing/flow_blocks.h"
#include "sim/sharing/flow_set.h"

namespace twofold::sim {

// Classes of the flows of some sets together, and of the links that they cross.
struct FlowClasses {
  struct Class {
    size_t set;                       // that its flows are of
    size_t example;                   // one of them
    double rate;                      // their limit
    std::vector<int> links, weights;  // link classes that each of them crosses; how many of them are on each such link
  };
  std::vector<std::shared_ptr<const FlowSet>> sets;
  // Of a set, by flow: its class. If its copies are alike, of the first copy's flows.
  struct Numbers {
    std::shared_ptr<const std::vector<int>> of;  // by flow
    std::vector<int> classes;                    // by that number; none: that is the class
  };
  std::vector<Numbers> numbers;  // by set
  int ClassOf(size_t set, size_t flow) const {
    const auto& [of, known] = numbers[set];
    const int number = (*of)[flow % of->size()];
    return known.empty() ? number : known[static_cast<size_t>(number)];
  }
  std::vector<Class> classes;             // set by set
  std::vector<size_t> first_class = {0};  // by set; then, the number of classes
  size_t ClassesOf(size_t set) const { return first_class[set + 1] - first_class[set]; }
  // Whether flows of the set that are of one class here are of one class in `other`, where it has another number.
  bool Refine(size_t set, const FlowClasses& other, size_t number) const;
  std::vector<double> bandwidths;               // by link class
  std::vector<std::vector<int>> links;          // by link class: its links
  double FastestOf(const Class& flows) const {  // bytes a second, alone
    double rate = flows.rate;
    for (const int l : flows.links) rate = std::min(rate, bandwidths[static_cast<size_t>(l)]);
    return rate;
  }
  // By set: its kinds of lots. The lots of a kind have flows of the same classes, which are listed.
  std::vector<std::vector<std::vector<int>>> lots;
  std::vector<std::vector<int>> lots_of;  // by class: the kinds of lots that it is in
  // One flow of each class, for their solutions: while one of them is in progress. Several threads must not share it.
  mutable std::weak_ptr<const FlowBlocks::Network> network = {};
};

}  // namespace twofold::sim
