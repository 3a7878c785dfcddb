// Maximum flow through a graph with capacities (Dinic 1970: shortest augmenting paths, one layered graph at a time).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace twofold {

class MaxFlow {
 public:
  explicit MaxFlow(int vertices) : out_(static_cast<size_t>(vertices)) {}

  void AddArc(int from, int to, int64_t capacity);
  // May be called only once.
  int64_t Run(int source, int sink);

 private:
  struct Arc {
    int to;
    int64_t left;
  };
  bool Layer(int source, int sink);
  int64_t Augment(int source, int sink);

  std::vector<Arc> arcs_;              // arc i ^ 1 is the reverse arc
  std::vector<std::vector<int>> out_;  // arc numbers, by vertex
  std::vector<int> layer_;
  std::vector<size_t> next_;  // by vertex: the first of its arcs that may still lead to the sink
  std::vector<int> path_;
};

}  // namespace twofold
