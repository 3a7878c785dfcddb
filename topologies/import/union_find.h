// Union-find over numbers 0, 1, ...
#pragma once

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

namespace twofold {

class UnionFind {
 public:
  explicit UnionFind(int size = 0) : parent_(static_cast<size_t>(size)) {
    std::iota(parent_.begin(), parent_.end(), 0);
  }
  int New() {
    parent_.push_back(static_cast<int>(parent_.size()));
    return parent_.back();
  }
  // The smallest number that is joined with `i`.
  int Of(int i) {
    int root = i;
    while (At(root) != root) root = At(root);
    while (At(i) != root) i = std::exchange(At(i), root);
    return root;
  }
  void Join(int a, int b) { At(std::max(Of(a), Of(b))) = std::min(Of(a), Of(b)); }
  bool Same(int a, int b) { return Of(a) == Of(b); }

 private:
  int& At(int i) { return parent_[static_cast<size_t>(i)]; }

  std::vector<int> parent_;
};

}  // namespace twofold
