// Vertices and cables, and a topology over any such graph with shortest routes: what nodes (NVSwitch boxes, cube meshes, PCIe
// trees) are built of and what importers give.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "topologies/graph/topology.h"

namespace twofold {

struct Graph {
  std::vector<Vertex> vertices;
  std::vector<Link> links;  // those of a cable follow one another: there, then back

  int AddVertex(Vertex vertex);  // returns its index
  // Two links, a->b and b->a, of `bandwidth` each way. Returns the index of the first.
  int AddCable(int a, int b, BytesPerSecond bandwidth, Seconds latency, Medium medium);
  std::vector<int> Of(Vertex::Kind kind) const;  // vertices of that kind, in order
};

// The routes from one vertex: all with the fewest hops (no link's latency is looked at) that do not pass through another
// device or NIC.
class ShortestRoutes {
 public:
  ShortestRoutes(const Graph& graph, int from);  // `graph` must outlive it
  int Hops(int to) const { return hops_[static_cast<size_t>(to)]; }  // -1: not reached
  bool Reaches(int to) const { return Hops(to) >= 0; }
  // The links of each route to `to`, the widest route first (its narrowest link counts), at most `most` of them; empty where
  // `to` is not reached. Among equally wide ones those with lower-numbered last links come first.
  std::vector<std::vector<int>> To(int to, size_t most = 16) const;

 private:
  const Graph& graph_;
  const int from_;
  std::vector<int> hops_;                  // by vertex; -1: not reached
  std::vector<std::vector<int>> arrivals_; // by vertex: the last links of its shortest routes
  std::vector<double> width_;              // by vertex: of its widest shortest route
};

// Endpoints are `terminals` (vertices of `graph`, any order; vertices() has them first, then the others in order). Routes are
// those of ShortestRoutes, at most 16 a pair. Every pair must be joined (CHECK). Small graphs: all pairs are computed as it is
// built. Endpoints sit in the nodes and groups that their vertices name; without, each is a node of its own, in group 0.
std::unique_ptr<Topology> MakeGraphTopology(std::string kind, Graph graph, std::vector<int> terminals);

}  // namespace twofold
