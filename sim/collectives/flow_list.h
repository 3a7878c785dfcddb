// The flows of a phase: one by one, or by kind.
//
// Among 100,000 ranks a collective has hundreds of thousands of flows of a few kinds, and the next size of it has the
// same flows with other bytes. By kind, who sends to whom is listed once, for all sizes.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <iterator>
#include <limits>
#include <memory>
#include <utility>
#include <vector>

#include "sim/collectives/node_flows.h"
#include "sim/collectives/pair_flows.h"

namespace twofold::sim {

struct Flow {
  int from, to;            // ranks in the group
  double bytes;            // on the wire
  int rail = -1;           // as Pair::rail
  double crossings = 0;    // how often a byte crosses this flow on the longest path through a pipelined phase
  double hop_seconds = 0;  // the software's cost of a crossing
  double rate = std::numeric_limits<double>::infinity();  // bytes per second, the sender's or receiver's maximum
  // In loose schedules, where hop_seconds is the delay from the beginning of the phase until the sender starts this
  // flow:
  bool meets = false;  // rendezvous: begins one round trip after its receiver is ready, too
  // Begins when the sender's previous flow has left over its first link, regardless of congestion on later links.
  bool queued = false;
  double free = 0;  // the bytes that cost nothing on idle links. A link regains this allowance at its own rate
};

struct KindLoads;

// Who sends to whom, and of which kind that is. Used by one thread at a time.
class FlowPattern {
 public:
  struct Ends {
    int from, to;  // ranks in the group
    int kind;
  };
  explicit FlowPattern(std::vector<Ends> flows) : size_(flows.size()), flows_(std::move(flows)) {}
  explicit FlowPattern(std::shared_ptr<const NodeFlows> by_node)
      : size_(by_node->size()), by_node_(std::move(by_node)) {}
  explicit FlowPattern(std::shared_ptr<const PairFlows> pairs) : size_(pairs->size()), pairs_(std::move(pairs)) {}

  size_t size() const { return size_; }
  // All of them. Those of nodes and of pairs are listed when they are first asked for.
  const std::vector<Ends>& flows() const {
    if (flows_.empty() && size_ > 0) {
      flows_.reserve(size_);
      const auto add = [this](int from, int to, int kind) { flows_.push_back({from, to, kind}); };
      if (pairs_ != nullptr)
        pairs_->List(add);
      else
        by_node_->List(add);
    }
    return flows_;
  }
  // Calls visit(ends) for all of them, in order. Those of pairs, which may be millions, are not kept for it.
  template <class Visit>
  void ForEach(Visit&& visit) const {
    if (pairs_ != nullptr && !listed())
      return pairs_->List([&visit](int from, int to, int kind) { visit(Ends{from, to, kind}); });
    for (const Ends& ends : flows()) visit(ends);
  }
  bool listed() const { return flows_.size() == size_; }
  const NodeFlows* by_node() const { return by_node_.get(); }  // null: nodes or rails are not alike
  const PairFlows* pairs() const { return pairs_.get(); }      // null: not all pairs exchange

  mutable std::shared_ptr<const KindLoads> loads = nullptr;  // null: nobody has asked for them (kind_loads.h)

 private:
  size_t size_;
  mutable std::vector<Ends> flows_;
  std::shared_ptr<const NodeFlows> by_node_ = nullptr;
  std::shared_ptr<const PairFlows> pairs_ = nullptr;
};

class FlowList {
 public:
  class const_iterator;
  using value_type = Flow;

  FlowList() = default;
  FlowList(std::initializer_list<Flow> flows) : listed_(flows) {}
  // Flow i is kinds[k] between its ends, for the kind k that the pattern gives it.
  FlowList(std::shared_ptr<const FlowPattern> pattern, std::vector<Flow> kinds)
      : listed_(std::move(kinds)), pattern_(std::move(pattern)) {}

  size_t size() const { return pattern_ != nullptr ? pattern_->size() : listed_.size(); }
  bool empty() const { return size() == 0; }
  Flow operator[](size_t number) const {
    if (pattern_ == nullptr) return listed_[number];
    const FlowPattern::Ends& ends = pattern_->flows()[number];
    Flow flow = listed_[static_cast<size_t>(ends.kind)];
    flow.from = ends.from, flow.to = ends.to;
    return flow;
  }
  // Flow `number`, but for its ends.
  const Flow& KindAt(size_t number) const {
    return listed_[pattern_ != nullptr ? static_cast<size_t>(pattern_->flows()[number].kind) : number];
  }
  // Of the first and the last flow.
  double first_bytes() const { return EndKind(true).bytes; }
  double last_bytes() const { return EndKind(false).bytes; }
  // Calls visit(flow) for all of them, in order.
  template <class Visit>
  void ForEach(Visit&& visit) const {
    if (pattern_ == nullptr) {
      for (const Flow& flow : listed_) visit(flow);
      return;
    }
    std::vector<Flow> kinds = listed_;
    pattern_->ForEach([&](const FlowPattern::Ends& ends) {
      Flow& flow = kinds[static_cast<size_t>(ends.kind)];
      flow.from = ends.from, flow.to = ends.to;
      visit(std::as_const(flow));
    });
  }
  const_iterator begin() const;
  const_iterator end() const;

  // Null: there are no kinds, or one for each flow. Lists that share a pattern have the same flows but for their kinds.
  const std::shared_ptr<const FlowPattern>& pattern() const { return pattern_; }
  // One flow of each kind, or all flows; of kinds, the ends mean nothing.
  const std::vector<Flow>& kinds() const { return listed_; }

  // To change them, one by one.
  std::vector<Flow>& Listed();
  void reserve(size_t flows) { Listed().reserve(flows); }
  void push_back(const Flow& flow) { Listed().push_back(flow); }
  Flow& emplace_back(const Flow& flow) { return Listed().emplace_back(flow); }
  void pop_back() { Listed().pop_back(); }

 private:
  const Flow& EndKind(bool first) const {
    if (pattern_ == nullptr || pattern_->pairs() == nullptr) return KindAt(first ? 0 : size() - 1);
    const PairFlows& pairs = *pattern_->pairs();
    return listed_[static_cast<size_t>(first ? pairs.first_kind() : pairs.last_kind())];
  }

  std::vector<Flow> listed_;  // flows, or kinds
  std::shared_ptr<const FlowPattern> pattern_ = nullptr;
};

class FlowList::const_iterator {
 public:
  using iterator_category = std::input_iterator_tag;
  using value_type = Flow;
  using difference_type = std::ptrdiff_t;
  using pointer = const Flow*;
  using reference = Flow;

  const_iterator(const FlowList& of, size_t at) : of_(&of), at_(at) {}
  Flow operator*() const { return (*of_)[at_]; }
  const_iterator& operator++() {
    ++at_;
    return *this;
  }
  bool operator==(const const_iterator& other) const { return at_ == other.at_; }

 private:
  const FlowList* of_;
  size_t at_;
};

inline FlowList::const_iterator FlowList::begin() const { return {*this, 0}; }
inline FlowList::const_iterator FlowList::end() const { return {*this, size()}; }

inline std::vector<Flow>& FlowList::Listed() {
  if (pattern_ == nullptr) return listed_;
  std::vector<Flow> all(begin(), end());
  pattern_ = nullptr;
  return listed_ = std::move(all);
}

}  // namespace twofold::sim
