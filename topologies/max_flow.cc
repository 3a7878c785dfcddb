#include "topologies/max_flow.h"

#include <algorithm>
#include <limits>

namespace twofold {

void MaxFlow::AddArc(int from, int to, int64_t capacity) {
  out_[static_cast<size_t>(from)].push_back(static_cast<int>(arcs_.size()));
  arcs_.push_back({to, capacity});
  out_[static_cast<size_t>(to)].push_back(static_cast<int>(arcs_.size()));
  arcs_.push_back({from, 0});
}

int64_t MaxFlow::Run(int source, int sink) {
  int64_t total = 0;
  while (Layer(source, sink)) {
    next_.assign(out_.size(), 0);
    while (const int64_t more = Augment(source, sink)) total += more;
  }
  return total;
}

// Numbers vertices by their distance from the source over arcs with remaining capacity; returns whether the sink is
// reached.
bool MaxFlow::Layer(int source, int sink) {
  layer_.assign(out_.size(), -1);
  layer_[static_cast<size_t>(source)] = 0;
  std::vector<int> reached = {source};
  for (size_t i = 0; i < reached.size(); ++i) {
    const size_t v = static_cast<size_t>(reached[i]);
    for (int a : out_[v]) {
      const Arc& arc = arcs_[static_cast<size_t>(a)];
      if (arc.left == 0 || layer_[static_cast<size_t>(arc.to)] >= 0) continue;
      layer_[static_cast<size_t>(arc.to)] = layer_[v] + 1;
      reached.push_back(arc.to);
    }
  }
  return layer_[static_cast<size_t>(sink)] >= 0;
}

// Sends flow along one path down the layers to the sink; returns its amount, 0 if there is no path left.
int64_t MaxFlow::Augment(int source, int sink) {
  path_.clear();
  int at = source;
  while (at != sink) {
    const size_t v = static_cast<size_t>(at);
    const auto leads_on = [&](int a) {
      const Arc& arc = arcs_[static_cast<size_t>(a)];
      return arc.left > 0 && layer_[static_cast<size_t>(arc.to)] == layer_[v] + 1;
    };
    while (next_[v] < out_[v].size() && !leads_on(out_[v][next_[v]])) ++next_[v];
    if (next_[v] < out_[v].size()) {
      path_.push_back(out_[v][next_[v]]);
      at = arcs_[static_cast<size_t>(path_.back())].to;
    } else {  // a dead end: go back one step and skip the arc that led here
      if (path_.empty()) return 0;
      at = arcs_[static_cast<size_t>(path_.back()) ^ 1].to;
      ++next_[static_cast<size_t>(at)];
      path_.pop_back();
    }
  }
  int64_t most = std::numeric_limits<int64_t>::max();
  for (int a : path_) most = std::min(most, arcs_[static_cast<size_t>(a)].left);
  for (int a : path_) {
    arcs_[static_cast<size_t>(a)].left -= most;
    arcs_[static_cast<size_t>(a) ^ 1].left += most;
  }
  return most;
}

}  // namespace twofold
