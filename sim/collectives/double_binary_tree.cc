// Double binary tree (Sanders, Speck and Traeff 2009, "Two-tree algorithms for full bandwidth broadcast, reduction and
// scan"): two binary trees, each for half of the bytes. An inner node of one tree is a leaf of the other, so every link
// is used in both directions. Pipelined: chunks follow one another, up and down at once. H = ceil(log2 N).
//
//   broadcast   H a + n b
//   reduce      the same, towards the root
//   all_reduce  2 H a + 2 n b     (N >= 4; 3 ranks move 3/2 n, two move n)
//
// The first tree is in order: the parent of rank l, counted from the root, is l with its lowest bit moved up by one, or
// l without its lowest bit if that is past the end; the root has one child. In the second tree labels are mirrored (odd
// N) or shifted by one (even N), so that odd labels, which are leaves, become even ones.
#include "sim/collectives/builder.h"

namespace twofold::sim {
namespace {

int Parent(int label, int n) {
  const int bit = label & -label, up = (label ^ bit) | (bit << 1);
  return up < n ? up : label ^ bit;
}

int Depth(int label, int n) {
  int depth = 0;
  for (; label != 0; label = Parent(label, n)) ++depth;
  return depth;
}

int SecondLabel(int label, int n) { return label == 0 ? 0 : n % 2 == 1 ? n - label : label % (n - 1) + 1; }

}  // namespace

absl::StatusOr<Schedule> DoubleBinaryTreeSchedule(const CollectiveShape& shape, const Places&) {
  const int n = shape.ranks;
  const bool all = shape.kind == Communication::kAllReduce;
  const bool up = all || shape.kind == Communication::kReduce, down = all || shape.kind == Communication::kBroadcast;
  if (!up && !down) return NoForm("double_binary_tree", shape);
  const int root = all ? 0 : shape.root;
  // second[label in the second tree] = the rank's label in the first.
  std::vector<int> second(static_cast<size_t>(n));
  for (int l = 0; l < n; ++l) second[static_cast<size_t>(SecondLabel(l, n))] = l;
  int deepest = 0;
  for (int l = 1; l < n; ++l) {
    if (Depth(l, n) > Depth(deepest, n)) deepest = l;
  }
  std::vector<char> on_way(static_cast<size_t>(n));  // whether a byte from the deepest label takes its link upwards
  for (int l = deepest; l != 0; l = Parent(l, n)) on_way[static_cast<size_t>(l)] = 1;
  Phase phase{.rounds = (up + down) * Depth(deepest, n), .flows = {}};
  auto rank = [&](int tree, int label) {
    return (root + (tree == 0 ? label : second[static_cast<size_t>(label)])) % n;
  };
  for (int tree = 0; tree < 2; ++tree) {
    for (int l = 1; l < n; ++l) {
      const int child = rank(tree, l), parent = rank(tree, Parent(l, n));
      const double crossings = on_way[static_cast<size_t>(l)] / 2.0;  // the mean of both trees
      if (up) phase.flows.push_back({.from = child, .to = parent, .bytes = shape.bytes / 2, .crossings = crossings});
      if (down) phase.flows.push_back({.from = parent, .to = child, .bytes = shape.bytes / 2, .crossings = crossings});
    }
  }
  return Finished({std::move(phase)}, n);
}

}  // namespace twofold::sim
