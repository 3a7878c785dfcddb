// Flows by class: many flows that share links alike are solved as one.
//
// Flows are of one class if they have the same bytes, limit and parts and cross links of the same classes, one after
// the other; links are of one class if they have the same bandwidth and carry equally many flows of each class. That is
// an equitable partition of the graph of flows and links. The coarsest one is found by colour refinement (Weisfeiler
// and Leman 1968; Grohe, Kersting, Mladenov and Selman 2014, "Dimension Reduction via Colour Refinement", section 5,
// for linear programs). Max-min shares are unique, and so equal within a class: solving one flow of each class, with
// the number of its kind on each link as its weight there, is exact.
//
// Sets that meet and whose classes are known, each by itself, need not be looked at flow by flow: as long as nothing
// splits the classes of a set's links, its flows' classes remain, and are taken over. Only the flows of the other sets
// are listed. If refinement splits links' classes of another set, this one is listed, too, and refinement goes on.
//
// Cost: for listed flows that cross E links in total, O(E) for the first round of refinement. Later ones look only at
// what touches a class that was split, and the largest part of a class keeps its colour: O(E log E) for all of them.
// For other sets as much as they have links and classes.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "core/base/zeros.h"
#include "sim/sharing/flow_blocks.h"
#include "topologies/graph/topology.h"

namespace twofold::sim {

// splitmix64's finaliser, for hashes.
inline uint64_t HashMix(uint64_t z) {
  z += 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  return z ^ (z >> 31);
}
inline uint64_t HashMix(uint64_t a, uint64_t b) { return HashMix(HashMix(a) * 31 + b); }

// Two hashes of a sequence of millions of values: one multiplication a value for each.
class SequenceHash {
 public:
  explicit SequenceHash(uint64_t first) : one_(first), other_(~first) {}
  void Add(uint64_t value) {
    one_ = (one_ ^ value) * 0x9e3779b97f4a7c15, one_ ^= one_ >> 32;
    other_ = (other_ ^ value) * 0xbf58476d1ce4e5b9, other_ ^= other_ >> 29;
  }
  std::pair<uint64_t, uint64_t> Get() const { return {HashMix(one_), HashMix(other_)}; }

 private:
  uint64_t one_, other_;
};

// Links of several copies of the same flows (twins.h): for each link of the first copy, those of the others, in order.
struct LinkTwins {
  int64_t number = 0;  // its own, for hashes
  size_t others = 0;   // copies beside the first
  absl::flat_hash_map<int, std::vector<int>> of;
};

// Flows that begin together. Flows with the same lot number (from 0) are waited for together. A flow has more than 0
// bytes, and crosses at least one link or has a limit. With `twins`, they are the first copy's flows, and stand for
// those of all copies; flow f of copy c then has the number c * flows() + f, and each copy has lots of its own.
struct FlowSet {
  std::vector<int> links;            // of all flows, one flow after another
  std::vector<size_t> first = {0};   // flow f crosses links [first[f], first[f + 1])
  std::vector<double> bytes, rates;  // by flow; rates: limits in bytes per second
  std::vector<int> lots;             // by flow
  std::vector<int> parts;            // by flow: it stands for so many equal flows over its links, each with its bytes
  std::shared_ptr<const LinkTwins> twins = nullptr;
  size_t flows() const { return bytes.size(); }  // of one copy
  size_t copies() const { return twins != nullptr ? 1 + twins->others : 1; }
  double BytesOf(size_t flow) const { return bytes[flow % flows()]; }  // by numbers of any copy
  int PartsOf(size_t flow) const { return parts[flow % flows()]; }
  bool empty() const { return bytes.empty(); }
  void Reserve(size_t flows) {
    first.reserve(flows + 1), bytes.reserve(flows), rates.reserve(flows), lots.reserve(flows), parts.reserve(flows);
  }
  void Add(std::span<const int> over, double size, double limit, int lot = 0, int equal = 1) {
    links.insert(links.end(), over.begin(), over.end());
    first.push_back(links.size());
    bytes.push_back(size), rates.push_back(limit), lots.push_back(lot), parts.push_back(equal);
  }
  void Add(const FlowSet& more, int lot) {
    for (size_t f = 0; f < more.flows(); ++f) Add(more.LinksOf(f), more.bytes[f], more.rates[f], lot, more.parts[f]);
  }
  std::span<const int> LinksOf(size_t flow) const {  // of the first copy
    return {links.data() + first[flow], first[flow + 1] - first[flow]};
  }
};

// Equal for flows over the same links, with the same limits and lots, whose bytes are in the same proportions; they
// have the same classes.
std::pair<uint64_t, uint64_t> HashOf(const FlowSet& flows);

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
  // Things of one kind, by colour.
  class Colours {
   public:
    // Numbers that stand for classes to begin with, one for each thing.
    void Start(std::vector<int> of);
    int operator[](int thing) const { return of_[static_cast<size_t>(thing)]; }
    size_t size() const { return of_.size(); }
    // Splits colours by the signatures of the `touched` things. Other things of these colours share a signature that no
    // touched one has. Returns the things that have another colour now, with the one they had.
    const std::vector<std::pair<int, int>>& Split(std::span<const int> touched, std::span<const uint64_t> signatures);
    std::vector<int> InOrder() const;  // the colours, numbered in the order in which things have them

   private:
    struct Part {
      int colour, count, fresh;
    };
    std::vector<int> of_, counts_;  // by thing; by colour
    // Scratch.
    std::vector<int> touched_, largest_, part_of_;  // by colour; by place in `touched`
    std::vector<Part> parts_;
    // Numbers of hashes in one call of Split: a table with open addresses, which is kept, for it is filled in each
    // round.
    struct Slot {
      uint64_t hash;
      int number, call;
    };
    std::vector<Slot> slots_;
    int call_ = 0;
    int& NumberOf(uint64_t hash);  // -1: it is new
    std::vector<std::pair<int, int>> changed_;
  };

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
