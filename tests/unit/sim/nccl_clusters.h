// Clusters for tests of library nccl, and what it plans on them.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "sim/collectives/library.h"
#include "sim/collectives/nccl.h"
#include "sim/collectives/nccl_costs.h"
#include "sim/collectives/nccl_routes.h"
#include "sim/collectives/schedule.h"

namespace twofold::sim::nccl_clusters {

inline constexpr double kGiB = 1 << 30;

// Nodes of `per_node` devices on a switch, `rails` NICs each; 300 GB/s and 1 us in a node, 25 GB/s and 3 us between
// nodes.
inline Places Cluster(int nodes, int per_node, int rails, bool multicast = false) {
  Places p;
  for (int r = 0; r < nodes * per_node; ++r) {
    p.node.push_back(r / per_node), p.local.push_back(r % per_node), p.rail.push_back(r % per_node * rails / per_node);
  }
  p.nodes = nodes, p.rails = rails, p.multicast_in_node = multicast;
  p.alpha = 3e-6, p.bandwidth = 25e9, p.node_alpha = 1e-6, p.node_bandwidth = 300e9;
  if (nodes == 1) p.alpha = p.node_alpha, p.bandwidth = p.node_bandwidth;
  return p;
}
inline CollectiveShape Shape(Communication::Kind kind, const Places& places, double bytes) {
  return {.kind = kind, .ranks = places.ranks(), .bytes = bytes, .root = 0, .matrix = {}};
}
inline NcclRoute RouteOf(NcclAlgorithm a, Communication::Kind kind, const Places& places) {
  return Listed(MakeNcclRoute(a, Shape(kind, places, 1), places).value());
}
inline std::unique_ptr<Library> Nccl(const std::function<void(cluster::Nccl&)>& change = [](cluster::Nccl&) {}) {
  cluster::Library l;
  l.set_name("nccl");
  change(*l.mutable_nccl());
  return MakeLibrary(l).value();
}
inline Schedule Plan(const Library& library, Communication::Kind kind, const Places& places, double bytes,
                     Choice choice = {}) {
  return library.Plan(Shape(kind, places, bytes), places, choice).value();
}

inline NcclCosts CostsOf(const char* generation) {
  cluster::Nccl nccl;
  nccl.set_generation(generation);
  return ReadNcclCosts(nccl, false).value();
}

// Of each pair of a DGX-1V's devices, how many NVLinks it has.
inline Places CubeMesh(int nodes) {
  Places p = Cluster(nodes, 8, 4);
  p.node_bandwidth = 25e9;
  if (nodes == 1) p.bandwidth = 25e9;
  p.joints.assign(8, std::vector<Places::Joint>(8, {6e9, false}));
  constexpr int kPairs[][3] = {{0, 1, 1}, {0, 2, 1}, {0, 3, 2}, {0, 4, 2}, {1, 2, 2}, {1, 3, 1}, {1, 5, 2}, {2, 3, 2},
                               {2, 6, 1}, {3, 7, 1}, {4, 5, 1}, {4, 6, 1}, {4, 7, 2}, {5, 6, 2}, {5, 7, 1}, {6, 7, 2}};
  for (const auto& [a, b, links] : kPairs)
    p.joints[static_cast<size_t>(a)][static_cast<size_t>(b)] =
        p.joints[static_cast<size_t>(b)][static_cast<size_t>(a)] = {links * 25e9, true};
  return p;
}

}  // namespace twofold::sim::nccl_clusters
