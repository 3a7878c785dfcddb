#include "topologies/graph/route_table.h"

#include <tuple>

namespace twofold {

void RouteTable::Add(const std::vector<std::vector<int>>& routes) {
  for (const std::vector<int>& route : routes) {
    links_.insert(links_.end(), route.begin(), route.end());
    first_link_.push_back(static_cast<int>(links_.size()));
  }
  first_route_.push_back(first_route_.back() + static_cast<int>(routes.size()));
}

bool AllAlike(const RouteTable& table, int count, const std::vector<Link>& links) {
  std::vector<int> used(links.size());
  auto each = [&](auto&& visit) {
    for (int a = 0; a < count; ++a) {
      for (int b = 0; b < count; ++b) {
        if (a != b && !visit(table.Begin(a, b, 0), table.End(a, b, 0))) return false;
      }
    }
    return true;
  };
  each([&](const int* link, const int* end) {
    for (; link != end; ++link) ++used[static_cast<size_t>(*link)];
    return true;
  });
  using Look = std::tuple<double, double, int>;
  std::vector<Look> first;
  return each([&](const int* link, const int* end) {
    std::vector<Look> look;
    for (; link != end; ++link) {
      const Link& l = links[static_cast<size_t>(*link)];
      look.emplace_back(l.bandwidth.value(), l.latency.value(), used[static_cast<size_t>(*link)]);
    }
    if (first.empty()) first = look;
    return look == first;
  });
}

}  // namespace twofold
