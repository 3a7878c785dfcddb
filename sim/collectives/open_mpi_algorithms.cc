#include "sim/collectives/open_mpi_algorithms.h"

#include <algorithm>
#include <bit>
#include <functional>

#include "sim/collectives/open_mpi_decisions.h"

namespace twofold::sim {
namespace {

using Kind = Communication::Kind;

int PowerBelow(int n) { return static_cast<int>(std::bit_floor(static_cast<unsigned>(n))); }
int LowBit(int v) { return v & -v; }

// ---- Trees: parents of ranks counted from the root, and rounds by depth ----
using Parent = int (*)(int v);

int LinearParent(int) { return 0; }
int ChainParent(int v) { return v - 1; }
int BinomialParent(int v) { return v - PowerBelow(v); }  // for broadcasts: 0 -> 1, 2, 4
int InOrderParent(int v) { return v - LowBit(v); }       // for reductions, gathers and scatters: 4 -> 5, 6
int KnomialParent(int v) {
  int mask = 1;
  while (v % (4 * mask) == 0) mask *= 4;
  return v / (4 * mask) * (4 * mask);
}
// Level L has 2^L ranks; rank v of level L has the children v + 2^L and v + 2^(L+1).
int BinaryParent(int v) {
  const int above = PowerBelow(v + 1) / 2;  // number of ranks in the level above
  return v - above >= 2 * above - 1 ? v - 2 * above : v - above;
}

struct Tree {
  int ranks, root;
  std::vector<int> parent, depth;  // by rank counted from the root
  int Real(int v) const { return (v + root) % ranks; }
};
Tree MakeTree(const CollectiveShape& shape, Parent parent) {
  Tree tree{shape.ranks, shape.root, {-1}, {0}};
  for (int v = 1; v < shape.ranks; ++v) {
    tree.parent.push_back(parent(v));
    tree.depth.push_back(tree.depth[static_cast<size_t>(tree.parent.back())] + 1);
  }
  return tree;
}

// From parents to children (`down`) or back, one round per level; `bytes(v)`: between v and its parent.
void Along(const Tree& tree, bool down, Rounds& rounds, const std::function<double(int)>& bytes) {
  const int levels = *std::max_element(tree.depth.begin(), tree.depth.end());
  for (int i = 1; i <= levels; ++i) {
    const int level = down ? i : levels + 1 - i;
    Phase& round = rounds.emplace_back();
    for (int v = 1; v < tree.ranks; ++v) {
      if (tree.depth[static_cast<size_t>(v)] != level) continue;
      const int child = tree.Real(v), above = tree.Real(tree.parent[static_cast<size_t>(v)]);
      if (down)
        round.flows.push_back({above, child, bytes(v)});
      else
        round.flows.push_back({child, above, bytes(v)});
    }
  }
}

template <Parent kParent, bool kDown>
void WholeAlong(const CollectiveShape& s, Rounds& rounds) {
  Along(MakeTree(s, kParent), kDown, rounds, [&](int) { return s.bytes; });
}
// The blocks of all ranks in v's subtree.
template <Parent kParent, bool kDown>
void BlocksAlong(const CollectiveShape& s, Rounds& rounds) {
  const bool linear = kParent == LinearParent;
  Along(MakeTree(s, kParent), kDown, rounds,
        [&](int v) { return s.bytes / s.ranks * (linear ? 1 : std::min(LowBit(v), s.ranks - v)); });
}

// ---- Rounds in which all ranks do the same ----
void Everybody(const CollectiveShape& s, double bytes, Rounds& rounds, const std::function<int(int)>& to) {
  Phase& round = rounds.emplace_back();
  for (int r = 0; r < s.ranks; ++r) round.flows.push_back({r, to(r), bytes});
}

void RingRounds(const CollectiveShape& s, int count, Rounds& rounds) {
  for (int i = 0; i < count; ++i) Everybody(s, s.bytes / s.ranks, rounds, [&](int r) { return (r + 1) % s.ranks; });
}
void AllGatherRing(const CollectiveShape& s, Rounds& rounds) { RingRounds(s, s.ranks - 1, rounds); }
void AllReduceRing(const CollectiveShape& s, Rounds& rounds) { RingRounds(s, 2 * (s.ranks - 1), rounds); }

void BruckGather(const CollectiveShape& s, Rounds& rounds) {
  for (int d = 1; d < s.ranks; d *= 2) {
    Everybody(s, s.bytes / s.ranks * std::min(d, s.ranks - d), rounds,
              [&](int r) { return (r - d + s.ranks) % s.ranks; });
  }
}

void BruckAllToAll(const CollectiveShape& s, Rounds& rounds) {
  for (int d = 1; d < s.ranks; d *= 2) {
    int blocks = 0;
    for (int b = 0; b < s.ranks; ++b) blocks += (b & d) != 0;
    Everybody(s, s.bytes / s.ranks * blocks, rounds, [&](int r) { return (r + d) % s.ranks; });
  }
}

void PairwiseAllToAll(const CollectiveShape& s, Rounds& rounds) {
  for (int d = 1; d < s.ranks; ++d) Everybody(s, s.bytes / s.ranks, rounds, [&](int r) { return (r + d) % s.ranks; });
}

void LinearAllToAll(const CollectiveShape& s, Rounds& rounds) {
  Phase& round = rounds.emplace_back();
  for (int r = 0; r < s.ranks; ++r) {
    for (int d = 1; d < s.ranks; ++d) round.flows.push_back({r, (r - d + s.ranks) % s.ranks, s.bytes / s.ranks});
  }
}

// Even ranks first exchange a block with the next rank, then two blocks with the other neighbour, and so on,
// alternating.
void NeighborExchange(const CollectiveShape& s, Rounds& rounds) {
  if (s.ranks % 2 != 0) return AllGatherRing(s, rounds);
  for (int i = 0; i < s.ranks / 2; ++i) {
    auto other = [&](int r) { return (r + ((r + i) % 2 == 0 ? 1 : s.ranks - 1)) % s.ranks; };
    Everybody(s, s.bytes / s.ranks * (i == 0 ? 1 : 2), rounds, other);
  }
}

// ---- Pairs at distances 1, 2, 4, ...: of a power of two of the ranks, `core` ----
struct Core {
  std::vector<int> ranks;  // the participants
  int left;                // number of the others
};
// The first 2 x left ranks form pairs, in each of which one participates: the `second` or the first.
Core MakeCore(int n, bool second) {
  Core core{{}, n - PowerBelow(n)};
  for (int r = 0; r < n; ++r) {
    if (r >= 2 * core.left || r % 2 == (second ? 1 : 0)) core.ranks.push_back(r);
  }
  return core;
}
void Exchange(const Core& core, int distance, double bytes, Rounds& rounds) {
  Phase& round = rounds.emplace_back();
  for (int i = 0; i < static_cast<int>(core.ranks.size()); ++i) {
    round.flows.push_back({core.ranks[static_cast<size_t>(i)], core.ranks[static_cast<size_t>(i ^ distance)], bytes});
  }
}
// Messages within each pair; `even`: from its first rank.
void WithinPairs(const Core& core, bool even, bool odd, double bytes, Rounds& rounds) {
  if (core.left == 0) return;
  Phase& round = rounds.emplace_back();
  for (int r = 0; r < 2 * core.left; r += 2) {
    if (even) round.flows.push_back({r, r + 1, bytes});
    if (odd) round.flows.push_back({r + 1, r, bytes});
  }
}

// The others give all their bytes to their partners in the core. It exchanges bytes(distance, size of the core) at
// distances 1, 2, 4, ..., or back from the largest one. At the end the others get `last` bytes.
void InCore(const CollectiveShape& s, bool back, double last, Rounds& rounds,
            const std::function<double(int, int)>& bytes) {
  const Core core = MakeCore(s.ranks, true);
  const int n = static_cast<int>(core.ranks.size());
  WithinPairs(core, true, false, s.bytes, rounds);
  for (int d = 1; d < n; d *= 2) {
    const int distance = back ? n / (2 * d) : d;
    Exchange(core, distance, bytes(distance, n), rounds);
  }
  WithinPairs(core, false, true, last, rounds);
}
void DoublingAllReduce(const CollectiveShape& s, Rounds& rounds) {
  InCore(s, false, s.bytes, rounds, [&](int, int) { return s.bytes; });
}

void Rabenseifner(const CollectiveShape& s, Rounds& rounds) {
  const Core core = MakeCore(s.ranks, false);
  const int n = static_cast<int>(core.ranks.size());
  WithinPairs(core, true, true, s.bytes / 2, rounds);
  WithinPairs(core, false, true, s.bytes / 2, rounds);
  for (int d = 1; d < n; d *= 2) Exchange(core, d, s.bytes / (2 * d), rounds);
  for (int d = n / 2; d > 0; d /= 2) Exchange(core, d, s.bytes / (2 * d), rounds);
  WithinPairs(core, true, false, s.bytes, rounds);
}

void DoublingGather(const CollectiveShape& s, Rounds& rounds) {
  if (!std::has_single_bit(static_cast<unsigned>(s.ranks))) return BruckGather(s, rounds);
  const Core core = MakeCore(s.ranks, true);
  for (int d = 1; d < s.ranks; d *= 2) Exchange(core, d, s.bytes / s.ranks * d, rounds);
}

void HalvingScatter(const CollectiveShape& s, Rounds& rounds) {
  InCore(s, true, s.bytes / s.ranks, rounds, [&](int d, int n) { return s.bytes / n * d; });
}

// At distances d = 1, 2, 4, ..., each sends all blocks but the d that it and its earlier partners will keep.
void DoublingScatter(const CollectiveShape& s, Rounds& rounds) {
  InCore(s, false, s.bytes / s.ranks, rounds, [&](int d, int n) { return s.bytes / n * (n - d); });
}

void Butterfly(const CollectiveShape& s, Rounds& rounds) {
  InCore(s, false, s.bytes / s.ranks, rounds, [&](int d, int) { return s.bytes / (2 * d); });
}

// ---- Combinations of others ----
// One after another.
template <auto... kSteps>
void InTurn(const CollectiveShape& s, Rounds& rounds) {
  (kSteps(s, rounds), ...);
}
template <Kind kKind>
void Chosen(const CollectiveShape& of, Rounds& rounds) {
  CollectiveShape s = of;
  s.kind = kKind, s.root = 0;
  const int number = OpenMpiDecision(s);
  for (const OpenMpiAlgorithm& a : OpenMpiAlgorithms()) {
    if (a.kind == kKind && a.number == number) return a.make(s, rounds);
  }
}
// Each half of the tensor goes down one of the root's subtrees, then between two ranks of one level.
void SplitBinary(const CollectiveShape& s, Rounds& rounds) {
  const Tree tree = MakeTree(s, BinaryParent);
  Along(tree, true, rounds, [&](int) { return s.bytes / 2; });
  Phase& round = rounds.emplace_back();
  for (int v = 1; v < s.ranks; v += 2) {
    const int a = tree.Real(v), b = v + 1 < s.ranks ? tree.Real(v + 1) : tree.Real(0);
    round.flows.push_back({b, a, s.bytes / 2});
    if (v + 1 < s.ranks) round.flows.push_back({a, b, s.bytes / 2});
  }
}

}  // namespace

const std::vector<OpenMpiAlgorithm>& OpenMpiAlgorithms() {
  static const auto* const kTable = new std::vector<OpenMpiAlgorithm>{
      {Kind::kAllReduce, 2, "nonoverlapping", InTurn<Chosen<Kind::kReduce>, Chosen<Kind::kBroadcast>>},
      {Kind::kAllReduce, 3, "recursive_doubling", DoublingAllReduce},
      {Kind::kAllReduce, 4, "ring", AllReduceRing},
      {Kind::kAllReduce, 5, "segmented_ring", AllReduceRing},  // one segment
      {Kind::kAllReduce, 6, "rabenseifner", Rabenseifner},
      {Kind::kAllGather, 2, "bruck", BruckGather},
      {Kind::kAllGather, 3, "recursive_doubling", DoublingGather},
      {Kind::kAllGather, 4, "ring", AllGatherRing},
      {Kind::kAllGather, 5, "neighbor_exchange", NeighborExchange},
      {Kind::kAllGather, 6, "two_procs", DoublingGather},
      {Kind::kReduceScatter, 1, "linear", InTurn<Chosen<Kind::kReduce>, Chosen<Kind::kScatter>>},
      {Kind::kReduceScatter, 2, "recursive_doubling", DoublingScatter},
      {Kind::kReduceScatter, 3, "recursive_halving", HalvingScatter},
      {Kind::kReduceScatter, 4, "butterfly", Butterfly},
      {Kind::kAllToAll, 1, "linear", LinearAllToAll},
      {Kind::kAllToAll, 2, "pairwise", PairwiseAllToAll},
      {Kind::kAllToAll, 3, "bruck", BruckAllToAll},
      {Kind::kAllToAll, 4, "linear_sync", LinearAllToAll},  // without a limit of requests it equals the linear one
      {Kind::kAllToAll, 5, "two_procs", PairwiseAllToAll},
      {Kind::kBroadcast, 1, "linear", WholeAlong<LinearParent, true>},
      {Kind::kBroadcast, 2, "chain", WholeAlong<ChainParent, true>},
      {Kind::kBroadcast, 3, "pipeline", WholeAlong<ChainParent, true>},  // one segment
      {Kind::kBroadcast, 4, "split_binary", SplitBinary},
      {Kind::kBroadcast, 5, "binary", WholeAlong<BinaryParent, true>},
      {Kind::kBroadcast, 6, "binomial", WholeAlong<BinomialParent, true>},
      {Kind::kBroadcast, 7, "knomial", WholeAlong<KnomialParent, true>},
      {Kind::kBroadcast, 8, "scatter_allgather", InTurn<BlocksAlong<InOrderParent, true>, DoublingGather>},
      {Kind::kReduce, 1, "linear", WholeAlong<LinearParent, false>},
      {Kind::kReduce, 2, "chain", WholeAlong<ChainParent, false>},
      {Kind::kReduce, 3, "pipeline", WholeAlong<ChainParent, false>},
      {Kind::kReduce, 4, "binary", WholeAlong<BinaryParent, false>},
      {Kind::kReduce, 5, "binomial", WholeAlong<InOrderParent, false>},
      {Kind::kReduce, 6, "in_order_binary", WholeAlong<BinaryParent, false>},
      {Kind::kReduce, 7, "rabenseifner", InTurn<HalvingScatter, BlocksAlong<InOrderParent, false>>},
      {Kind::kGather, 1, "linear", BlocksAlong<LinearParent, false>},
      {Kind::kGather, 2, "binomial", BlocksAlong<InOrderParent, false>},
      {Kind::kGather, 3, "linear_sync", BlocksAlong<LinearParent, false>},
      {Kind::kScatter, 1, "linear", BlocksAlong<LinearParent, true>},
      {Kind::kScatter, 2, "binomial", BlocksAlong<InOrderParent, true>},
      {Kind::kScatter, 3, "linear_sync", BlocksAlong<LinearParent, true>},
      // Barriers send empty messages.
      {Kind::kBarrier, 1, "linear", InTurn<WholeAlong<LinearParent, false>, WholeAlong<LinearParent, true>>},
      {Kind::kBarrier, 3, "recursive_doubling", DoublingAllReduce},
      {Kind::kBarrier, 4, "bruck", BruckGather},
      {Kind::kBarrier, 6, "tree", InTurn<WholeAlong<InOrderParent, false>, WholeAlong<InOrderParent, true>>},
  };
  return *kTable;
}

}  // namespace twofold::sim
