// A network small enough to compute by hand, with several routes: hosts on two sides, lanes between, and a way around.
//
//     l0 --           -- lane 0 --           -- r0       host cables and lanes: `bandwidth` and 1 s each way
//     l1 -- [left]    -- lane 1 --   [right] -- r1
//     ...             -- around ->[way]-> --             the detour: two hops of the same kind
#pragma once

#include <string>
#include <vector>

#include "topologies/graph/topology.h"

namespace twofold {

class Lanes : public Topology {
 public:
  // Endpoints 0..hosts-1 are on the left, the rest on the right. Only pairs of different sides talk. Rail r is by lane
  // r.
  Lanes(int hosts, int lanes, BytesPerSecond host = BytesPerSecond(1e9), BytesPerSecond lane = BytesPerSecond(1e9),
        Medium medium = Medium::kNetwork)
      : hosts_(hosts), lanes_(lanes) {
    for (int e = 0; e < 2 * hosts; ++e) {
      vertices_.push_back({Vertex::kDevice, (e < hosts ? "l" : "r") + std::to_string(e % hosts), e, e / hosts});
    }
    const int left = 2 * hosts, right = left + 1, way = left + 2;
    for (const char* name : {"left", "right", "way"}) vertices_.push_back({Vertex::kSwitch, name});
    auto cable = [&](const std::string& name, int a, int b, BytesPerSecond rate) {
      links_.push_back({name, rate, Seconds(1), a, b, medium});
      links_.push_back({name + ".back", rate, Seconds(1), b, a, medium});
    };
    for (int e = 0; e < 2 * hosts; ++e)
      cable(vertices_[static_cast<size_t>(e)].name, e, e < hosts ? left : right, host);
    for (int l = 0; l < lanes; ++l) cable("lane" + std::to_string(l), left, right, lane);
    cable("around0", left, way, lane);
    cable("around1", way, right, lane);
  }
  void SetLane(int lane, BytesPerSecond bandwidth) {
    for (int way : {0, 1}) links_[static_cast<size_t>(4 * hosts_ + 2 * lane + way)].bandwidth = bandwidth;
  }
  std::string_view kind() const override { return "lanes"; }
  int endpoints() const override { return 2 * hosts_; }
  const std::vector<Vertex>& vertices() const override { return vertices_; }
  const std::vector<Link>& links() const override { return links_; }
  int64_t MinimalRoutes(Pair) const override { return lanes_; }
  int64_t Detours(Pair) const override { return 1; }
  int64_t DefaultRoute(Pair pair) const override { return (pair.rail >= 0 ? pair.rail : pair.to) % lanes_; }
  int GroupOf(int endpoint) const override { return endpoint / hosts_; }
  void Route(Pair pair, int64_t number, std::vector<int>& route) const override {
    const int back = pair.from < hosts_ ? 0 : 1, lane = 4 * hosts_ + 2 * static_cast<int>(number);
    route = {2 * pair.from, lane + back};
    if (number == lanes_) route.push_back(lane + 2 + back);
    if (number == lanes_ && back == 1) std::swap(route[1], route[2]);
    route.push_back(2 * pair.to + 1);
  }

 private:
  const int hosts_, lanes_;
  std::vector<Vertex> vertices_;
  std::vector<Link> links_;
};

}  // namespace twofold
