#include "experiments/program/workload/order.h"

#include <algorithm>
#include <functional>
#include <queue>
#include <utility>

namespace twofold {

std::vector<int> OrderOf(const std::vector<WorkloadNode>& nodes, const std::vector<uint64_t>& begins) {
  std::vector<size_t> missing(nodes.size());
  std::vector<std::vector<int>> followers(nodes.size());
  using Ready = std::pair<uint64_t, int>;
  std::priority_queue<Ready, std::vector<Ready>, std::greater<>> ready;
  const auto add = [&](int n) { ready.emplace(begins.empty() ? 0 : begins[static_cast<size_t>(n)], n); };
  for (size_t n = 0; n < nodes.size(); ++n) {
    missing[n] = nodes[n].after.size();
    for (const int before : nodes[n].after) followers[static_cast<size_t>(before)].push_back(static_cast<int>(n));
    if (missing[n] == 0) add(static_cast<int>(n));
  }
  std::vector<int> order;
  for (; !ready.empty();) {
    const int n = ready.top().second;
    ready.pop();
    order.push_back(n);
    for (const int follower : followers[static_cast<size_t>(n)]) {
      if (--missing[static_cast<size_t>(follower)] == 0) add(follower);
    }
  }
  return order;
}

std::vector<int> CycleOf(const std::vector<WorkloadNode>& nodes, const std::vector<int>& order) {
  std::vector<bool> ordered(nodes.size());
  for (const int n : order) ordered[static_cast<size_t>(n)] = true;
  // Each node that is left follows another one that is left. Going back, some node comes twice.
  std::vector<int> way, seen(nodes.size(), -1);
  int n = static_cast<int>(std::find(ordered.begin(), ordered.end(), false) - ordered.begin());
  while (seen[static_cast<size_t>(n)] < 0) {
    seen[static_cast<size_t>(n)] = static_cast<int>(way.size());
    way.push_back(n);
    const std::vector<int>& after = nodes[static_cast<size_t>(n)].after;
    n = *std::find_if(after.begin(), after.end(), [&](int before) { return !ordered[static_cast<size_t>(before)]; });
  }
  std::vector<int> cycle(way.begin() + seen[static_cast<size_t>(n)], way.end());
  cycle.push_back(n);
  std::reverse(cycle.begin(), cycle.end());
  return cycle;
}

}  // namespace twofold
