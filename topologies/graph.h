// Vertices and cables, and a topology over any such graph with shortest routes: what nodes (NVSwitch boxes, cube meshes, PCIe
// trees) are built of and what importers give.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "topologies/topology.h"

namespace twofold {

struct Graph {
  std::vector<Vertex> vertices;
  std::vector<Link> links;  // those of a cable follow one another: there, then back

  int AddVertex(Vertex vertex);  // returns its index
  // Two links, a->b and b->a, of `bandwidth` each way. Returns the index of the first.
  int AddCable(int a, int b, BytesPerSecond bandwidth, Seconds latency, Medium medium);
  std::vector<int> Of(Vertex::Kind kind) const;  // vertices of that kind, in order
};

// Endpoints are `terminals` (vertices of `graph`, any order). Routes: all with the fewest hops (no link's latency is looked
// at) that do not pass through another device, the widest first; at most 16 a pair are kept. Every pair must be joined
// (CHECK). Small graphs: all pairs are computed as it is built.
std::unique_ptr<Topology> MakeGraphTopology(std::string kind, Graph graph, std::vector<int> terminals);

}  // namespace twofold
