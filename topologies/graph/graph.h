// A graph of vertices and cables, and a topology with shortest routes over any such graph. Nodes (NVSwitch boxes, cube
// meshes, PCIe trees) are built from it, and importers return it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "topologies/graph/topology.h"

namespace twofold {

struct Graph {
  std::vector<Vertex> vertices;
  std::vector<Link> links;  // the two links of a cable are adjacent: first there, then back

  int AddVertex(Vertex vertex);  // returns its index
  // Two links, a->b and b->a, of `bandwidth` each way. Returns the index of the first.
  int AddCable(int a, int b, BytesPerSecond bandwidth, Seconds latency, Medium medium);
  std::vector<int> Of(Vertex::Kind kind) const;  // vertices of this kind, in order
};

// The shortest routes from one vertex: those with the fewest hops (latencies are ignored) that do not pass through
// another device or NIC.
class ShortestRoutes {
 public:
  ShortestRoutes(const Graph& graph, int from);                      // `graph` must outlive it
  int Hops(int to) const { return hops_[static_cast<size_t>(to)]; }  // -1: unreachable
  bool Reaches(int to) const { return Hops(to) >= 0; }
  // The links of each route to `to`, the widest route first (a route is as wide as its narrowest link), at most `most`
  // routes. Routes of equal width are ordered by the number of their last link. Empty if `to` is unreachable.
  std::vector<std::vector<int>> To(int to, size_t most = 16) const;

 private:
  const Graph& graph_;
  const int from_;
  std::vector<int> hops_;                   // by vertex; -1: unreachable
  std::vector<std::vector<int>> arrivals_;  // by vertex: the last links of its shortest routes
  std::vector<double> width_;               // by vertex: of its widest shortest route
};

// The endpoints are `terminals` (vertices of `graph`, in any order; vertices() lists them first, then the others in
// order). Routes are those of ShortestRoutes, at most 16 for each pair. Every pair must be connected (CHECK). Meant for
// small graphs: the routes of all pairs are computed during construction. An endpoint is in the node and group that its
// vertex names; if vertices name none, each endpoint is a node of its own in group 0.
std::unique_ptr<Topology> MakeGraphTopology(std::string kind, Graph graph, std::vector<int> terminals);

}  // namespace twofold
