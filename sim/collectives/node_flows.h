// The flows of a collective among equal nodes, by what they repeat: in every node the ranks with the same local numbers
// send to each other, and on every rail the same nodes do.
//
// 12,800 nodes of 8 rails have half a million flows, but only a few in a node and 51,000 on a rail. What knows nodes
// and rails (kind_loads.h, rail_twins.h) needs no others. All of them are listed only for those who ask for them.
#pragma once

#include <cstddef>
#include <vector>

namespace twofold::sim {

struct NodeFlows {
  int each = 1;            // ranks of a node
  std::vector<int> ranks;  // node by node, by local number
  struct Within {          // in every node
    int from, to;          // local numbers
    size_t rail;           // flows are listed rail by rail: with which of them this one is
    int first, others;     // its kind in the first node, in all others
  };
  struct Between {      // on every rail
    int from, to;       // nodes
    int first, others;  // its kind on the first rail, on all others
  };
  struct Rail {
    int from, to;  // local numbers of the ranks of a node that send to other nodes, and that receive
  };
  std::vector<Within> within;
  std::vector<Between> between;
  std::vector<Rail> rails;
  bool in_turn = false;  // on each rail, between[v] is listed after the flows within node v; else after those of all
  struct Root {          // of a chain: one rank to which nobody sends, or which sends to nobody
    int node = -1, local = -1;
    bool sends = true;
  };
  Root root = {};

  int nodes() const { return static_cast<int>(ranks.size()) / each; }
  size_t size() const;
  int RankAt(int node, int local) const { return ranks[static_cast<size_t>(node * each + local)]; }
  // Whether there is this flow: not if it goes to a root that sends, or comes from one that does not.
  bool Has(const Within& flow, int node) const {
    return node != root.node || (root.sends ? flow.to : flow.from) != root.local;
  }
  bool Has(const Between& flow, size_t rail) const {
    return (root.sends ? flow.to : flow.from) != root.node ||
           (root.sends ? rails[rail].to : rails[rail].from) != root.local;
  }
  // Of the flows on rails other than the first one, or within nodes other than the first one: how many there are.
  size_t Others(const Between& flow) const;
  size_t Others(const Within& flow) const;
  static int KindOf(const Within& flow, int node) { return node == 0 ? flow.first : flow.others; }
  static int KindOf(const Between& flow, size_t rail) { return rail == 0 ? flow.first : flow.others; }

  // As Schedule::last_phase, if these are the flows of the only phase.
  std::vector<int> LastPhase() const;
  // By node: the first one whose flows to and from other nodes are equally many of each pair of kinds. The first node,
  // which has kinds of its own, is like no other; nor is the root's, nor one that sends to it or receives from it.
  std::vector<int> AlikeTo() const;

  // Calls visit(sending rank, receiving rank, kind) for every flow, in their order.
  template <class Visit>
  void List(Visit&& visit) const {
    for (size_t r = 0; r < rails.size(); ++r) {
      const auto list = [&](const Between& b) {
        if (Has(b, r)) visit(RankAt(b.from, rails[r].from), RankAt(b.to, rails[r].to), KindOf(b, r));
      };
      for (int v = 0; v < nodes(); ++v) {
        for (const Within& w : within) {
          if (w.rail == r && Has(w, v)) visit(RankAt(v, w.from), RankAt(v, w.to), KindOf(w, v));
        }
        if (in_turn) list(between[static_cast<size_t>(v)]);
      }
      for (size_t b = 0; b < between.size() && !in_turn; ++b) list(between[b]);
    }
  }
};

}  // namespace twofold::sim
