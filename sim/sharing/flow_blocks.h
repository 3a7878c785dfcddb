// Flows in blocks and links in kinds: equal rates and loads at present, among flows and links of several classes.
//
// A block's flows have the same rate. Links are of one kind if they have the same bandwidth and carry equally many
// flows of each block, so that their loads are equal. Whoever finds that not all flows of a block will have the same
// rate on splits it, and with it the kinds whose links tell the two parts apart. This is partition refinement as in
// flow_classes.h, but only as far as somebody needs it: there, flows must cross links of the same classes, here they
// may cross other links, as long as those do not limit them (block_shares.h).
//
// Cost: as much as the flows' crossings of links to begin with. A split costs the crossings of the smaller part, and
// those of the block or of the kind by which it is split, whichever are fewer.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace twofold::sim {

class FlowBlocks {
 public:
  // Flow f crosses links[first[f]] to links[first[f + 1] - 1], each once; weights: how many flows it is on each of
  // them.
  struct Flows {
    std::vector<double> bandwidths;  // by link
    std::vector<int> links, weights;
    std::vector<size_t> first = {0};
    std::vector<double> limits;  // by flow, bytes a second
    size_t size() const { return first.size() - 1; }
    void Add(std::span<const int> over, std::span<const int> own_weights, double limit);
  };
  // The same, with the flows of each link. Does not change: many partitions may be of the same flows.
  class Network {
   public:
    explicit Network(Flows flows);
    const Flows& flows() const { return flows_; }
    std::span<const int> LinksOf(int flow) const {
      const auto f = static_cast<size_t>(flow);
      return {flows_.links.data() + flows_.first[f], flows_.first[f + 1] - flows_.first[f]};
    }
    std::span<const int> FlowsOn(int link) const {
      const auto l = static_cast<size_t>(link);
      return {on_.data() + first_[l], first_[l + 1] - first_[l]};
    }

   private:
    const Flows flows_;
    std::vector<int> on_;  // flows, link by link
    std::vector<size_t> first_;
  };
  // `blocks`: by flow, a number from 0; none is left out. -1: the flow takes no part.
  FlowBlocks(std::shared_ptr<const Network> network, std::vector<int> blocks);

  size_t blocks() const { return block_begin_.size(); }
  size_t kinds() const { return kind_begin_.size(); }
  std::span<const int> FlowsOf(int block) const { return Part(flow_order_, block_begin_, block_end_, block); }
  std::span<const int> LinksOf(int kind) const { return Part(link_order_, kind_begin_, kind_end_, kind); }
  double BandwidthOf(int kind) const { return flows_.bandwidths[static_cast<size_t>(LinksOf(kind)[0])]; }

  struct On {  // a block on each link of a kind
    int block;
    double weight;     // how many flows
    bool all = false;  // all of its flows are known to cross such a link
  };
  // Who wants to may remove blocks without a rate.
  std::vector<On>& OnKind(int kind) { return on_[static_cast<size_t>(kind)]; }
  struct Crossed {
    int kind;
    double weight;
  };
  const std::vector<Crossed>& KindsOf(int block) const { return crossed_[static_cast<size_t>(block)]; }

  // Splits the block into flows that cross links of the kind and the others. One of them keeps its number, the other
  // has the next one. `made`: the kinds that come of it, with those that they were part of.
  struct Parts {
    int crossing, others;  // others: -1 if all cross
  };
  using Made = std::vector<std::pair<int, int>>;
  Parts Split(int block, int kind, Made& made);

 private:
  static std::span<const int> Part(const std::vector<int>& order, const std::vector<size_t>& begin,
                                   const std::vector<size_t>& end, int number) {
    const auto n = static_cast<size_t>(number);
    return {order.data() + begin[n], end[n] - begin[n]};
  }
  void MakeBlocks(size_t blocks);
  void MakeKinds();
  void FindCrossing(int block, int kind);
  int TakeApart(int block, bool crossing);
  void SplitKinds(int block, int fresh, Made& made);
  int MakeKind(int from, std::span<const int> links);
  void Divide(int kind, int block, int fresh, double weight);

  const std::shared_ptr<const Network> network_;
  const Flows& flows_;                        // of the network
  std::vector<int> block_of_, kind_of_;       // by flow, by link; -1: it takes no part, no such flow crosses it
  std::vector<int> flow_order_, link_order_;  // by block, by kind
  std::vector<size_t> flow_at_, link_at_;     // where each is there
  std::vector<size_t> block_begin_, block_end_, kind_begin_, kind_end_;
  std::vector<std::vector<On>> on_;            // by kind
  std::vector<std::vector<Crossed>> crossed_;  // by block
  // Scratch of Split.
  std::vector<int> crossing_, touched_;  // flows; links
  std::vector<int> seen_;                // by flow: the last search that found it to cross
  int search_ = 0;
  std::vector<int64_t> weights_;  // by link: of the flows that are taken out of a block
  Crossed kept_ = {-1, 0};        // the kind that keeps its number, and what the fresh block has there
  std::vector<size_t> place_;     // by kind: where it is in crossed_ of the block that is split
};

}  // namespace twofold::sim
