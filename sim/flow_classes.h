// Flows by class: many flows that share links alike are solved as one.
//
// Flows are of one class if they have the same bytes and limit and cross links of the same classes, one after the
// other; links are of one class if they have the same bandwidth and carry equally many flows of each class. That is an
// equitable partition of the graph of flows and links. The coarsest one is found by colour refinement (Weisfeiler and
// Leman 1968; Grohe, Kersting, Mladenov and Selman 2014, "Dimension Reduction via Colour Refinement", section 5, for
// linear programs). Max-min shares are unique, and so equal within a class: solving one flow of each class, with the
// number of its kind on each link as its weight there, is exact.
//
// Cost: for flows that cross E links in total, O(E) for each round of refinement; few rounds.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"

namespace twofold::sim {

// splitmix64's finaliser, for hashes.
inline uint64_t HashMix(uint64_t z) {
  z += 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}
inline uint64_t HashMix(uint64_t a, uint64_t b) { return HashMix(HashMix(a) * 31 + b); }

// Flows that begin together. Flows with the same lot number (from 0) are waited for together.
struct FlowSet {
  std::vector<int> links;            // of all flows, one flow after another
  std::vector<size_t> first = {0};   // flow f crosses links [first[f], first[f + 1])
  std::vector<double> bytes, rates;  // by flow; rates: limits in bytes per second
  std::vector<int> lots;             // by flow
  size_t flows() const { return bytes.size(); }
  void Add(std::span<const int> over, double size, double limit, int lot = 0) {
    links.insert(links.end(), over.begin(), over.end());
    first.push_back(links.size());
    bytes.push_back(size), rates.push_back(limit), lots.push_back(lot);
  }
  std::span<const int> LinksOf(size_t flow) const {
    return {links.data() + first[flow], first[flow + 1] - first[flow]};
  }
};

// Classes of the flows of some sets together, and of the links that they cross.
struct FlowClasses {
  struct Class {
    size_t set;                       // that its flows are of
    size_t example;                   // one of them
    double rate;                      // their limit
    std::vector<int> links, weights;  // link classes that each of them crosses; how many of them are on each such link
  };
  std::vector<std::shared_ptr<const FlowSet>> sets;
  std::vector<std::vector<int>> of;  // by set and flow: its class
  std::vector<Class> classes;
  std::vector<double> bandwidths;       // by link class
  std::vector<std::vector<int>> links;  // by link class: its links
  // By set: its kinds of lots. The lots of a kind have flows of the same classes, which are listed.
  std::vector<std::vector<std::vector<int>>> lots;
  std::vector<std::vector<int>> lots_of;  // by class: the kinds of lots that it is in
};

// `colours`: by set, a number for each flow, such that flows with different numbers are in different classes; null: all
// are alike that have the same bytes. `bandwidths`: of all links.
class FlowClassifier {
 public:
  explicit FlowClassifier(std::vector<double> bandwidths)
      : bandwidths_(std::move(bandwidths)), local_(bandwidths_.size(), -1) {}
  FlowClasses Classify(std::vector<std::shared_ptr<const FlowSet>> sets,
                       std::span<const std::vector<int>* const> colours);

 private:
  void ListLinks(const FlowClasses& all);
  size_t Refine(const FlowClasses& all);
  void Describe(FlowClasses& all) const;

  const std::vector<double> bandwidths_;
  std::vector<int> local_;  // by link: its place in used_, or -1
  // Scratch: of the call in progress.
  std::vector<int> used_;
  std::vector<int> flow_colours_, link_colours_;  // of all sets' flows, one after another; by place in used_
  std::vector<uint64_t> sums_;                    // two for each used link
  // Numbers for hashes, in the order in which they first occur. Neighbours are often equal.
  class {
   public:
    int Of(uint64_t hash) {
      if (hash == last_ && !numbers_.empty()) return number_;
      last_ = hash;
      return number_ = numbers_.try_emplace(hash, static_cast<int>(numbers_.size())).first->second;
    }
    size_t size() const { return numbers_.size(); }
    void Clear() { numbers_.clear(); }

   private:
    absl::flat_hash_map<uint64_t, int> numbers_;
    uint64_t last_ = 0;
    int number_ = 0;
  } numbers_;
};

}  // namespace twofold::sim
