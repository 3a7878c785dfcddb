// Routes between numbered places, stored in three flat arrays.
#pragma once

#include <vector>

#include "topologies/graph/topology.h"

namespace twofold {

class RouteTable {
 public:
  explicit RouteTable(int to_count = 0) : to_count_(to_count) {}

  // Adds the routes of the next pair, in the order (0, 0), (0, 1), ... (0, to_count - 1), (1, 0), ...; may be empty.
  void Add(const std::vector<std::vector<int>>& routes);

  int Count(int from, int to) const { return first_route_[Row(from, to) + 1] - first_route_[Row(from, to)]; }
  // The links of route `number` of the pair.
  const int* Begin(int from, int to, int number) const { return links_.data() + first_link_[Number(from, to, number)]; }
  const int* End(int from, int to, int number) const {
    return links_.data() + first_link_[Number(from, to, number) + 1];
  }

 private:
  size_t Row(int from, int to) const {
    return static_cast<size_t>(from) * static_cast<size_t>(to_count_) + static_cast<size_t>(to);
  }
  size_t Number(int from, int to, int number) const {
    return static_cast<size_t>(first_route_[Row(from, to)] + number);
  }

  int to_count_;
  std::vector<int> first_route_ = {0};  // by pair
  std::vector<int> first_link_ = {0};   // by route
  std::vector<int> links_;
};

// Whether the first routes of all pairs of a square table are equivalent: equal length, and links of equal bandwidth,
// equal latency and used by equally many of these routes.
bool AllAlike(const RouteTable& table, int count, const std::vector<Link>& links);

}  // namespace twofold
