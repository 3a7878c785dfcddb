// A network's topology with what its links carry, drawn at several levels of detail.
//
// At each level, the topology's vertices are parted into cells, and all links from one cell to another are one edge. So
// a network of any size has a picture of some hundred cells: of its levels, its groups, its nodes and switches, or of
// each part if they are few.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/proto/network.pb.h"
#include "topologies/graph/topology.h"

namespace twofold::sim {

// "device", "NIC", "switch of level 1", ...
std::string VertexKind(const Vertex& vertex);

// A topology's vertices, parted into cells.
struct Partition {
  std::string_view detail;
  std::vector<int> cell_of;  // by vertex
  std::vector<network::Cell> cells;
};

inline constexpr size_t kMostCells = 260, kMostEdges = 2000;  // of a picture; the first one of a topology may have more

// The coarsest first; each has at most kMostCells cells. `node`: the one that is drawn in whole beside the rest.
std::vector<Partition> PartitionsOf(const Topology& topology, int node);

// What one link carries: links with equal numbers carry the same; 0: nothing.
using NumberOf = std::function<int(int link)>;
// The bytes of links with this number, by bin.
using BytesOf = std::function<std::vector<double>(int number)>;

network::Pictures PicturesOf(const Topology& topology, int node, double begin, double width, const NumberOf& number_of,
                             const BytesOf& bytes_of);

}  // namespace twofold::sim
