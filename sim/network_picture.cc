#include "sim/network_picture.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "absl/container/flat_hash_map.h"
#include "core/base/strings.h"

namespace twofold::sim {
namespace {

constexpr std::string_view kOneNode = "one node", kOneGroup = "one group";
constexpr double kMillionths = 1e6;
constexpr size_t kMostBlocks = 128;  // of a grid: each has links to up to six others

// Layers from below: devices, a node's switches by level, hosts, NICs, and the network's switches by level.
constexpr int kHosts = 16, kNics = 32, kNetwork = 48;

int LayerOf(const Vertex& vertex) {
  switch (vertex.kind) {
    case Vertex::kDevice: return 0;
    case Vertex::kHost: return kHosts;
    case Vertex::kNic: return kNics;
    case Vertex::kSwitch: return vertex.node >= 0 ? 1 + vertex.level : kNetwork + vertex.level;
  }
  return 0;
}

// Vertices with equal keys are in one cell.
class Parting {
 public:
  using Key = std::tuple<int, int, int>;
  Parting(const Topology& topology, std::string_view detail) : topology_(topology) { made_.detail = detail; }

  void Add(const Vertex& vertex, Key key, const std::string& name, const std::string& kind, int layer) {
    const auto [at, fresh] = cells_.try_emplace(key, static_cast<int>(made_.cells.size()));
    if (fresh) {
      network::Cell& cell = made_.cells.emplace_back();
      cell.set_name(name), cell.set_kind(kind), cell.set_layer(layer), cell.set_parts(0);
      names_.push_back(vertex.name);
    }
    network::Cell& cell = made_.cells[static_cast<size_t>(at->second)];
    cell.set_parts(cell.parts() + 1);
    made_.cell_of.push_back(at->second);
  }
  void AddPart(const Vertex& vertex) {
    Add(vertex, {-1, static_cast<int>(made_.cell_of.size()), 0}, vertex.name, VertexKind(vertex), LayerOf(vertex));
  }
  void AddToLayer(const Vertex& vertex) {
    const std::string kind = VertexKind(vertex);
    Add(vertex, {LayerOf(vertex), -1, 0}, kind, kind, LayerOf(vertex));
  }

  // A cell of one vertex has that vertex's name.
  Partition Finish() {
    for (size_t c = 0; c < made_.cells.size(); ++c)
      if (made_.cells[c].parts() == 1) made_.cells[c].set_name(names_[c]);
    return std::move(made_);
  }
  const std::vector<Vertex>& vertices() const { return topology_.vertices(); }
  std::vector<network::Cell>& cells() { return made_.cells; }

 private:
  const Topology& topology_;
  Partition made_;
  std::map<Key, int> cells_;
  std::vector<std::string> names_;  // by cell: of its first vertex
};

Partition Levels(const Topology& topology) {
  Parting parting(topology, "levels");
  for (const Vertex& v : parting.vertices()) parting.AddToLayer(v);
  return parting.Finish();
}

Partition Groups(const Topology& topology) {
  Parting parting(topology, "groups");
  for (const Vertex& v : parting.vertices()) {
    if (v.group < 0) {
      parting.AddToLayer(v);
      continue;
    }
    const std::string kind = VertexKind(v);
    parting.Add(v, {LayerOf(v), v.group, 0}, StrCat("group ", v.group, ": ", kind), kind, LayerOf(v));
  }
  return parting.Finish();
}

// Nodes as one cell each, and all switches between them.
Partition Nodes(const Topology& topology) {
  Parting parting(topology, "nodes");
  for (const Vertex& v : parting.vertices()) {
    if (v.node < 0)
      parting.AddPart(v);
    else
      parting.Add(v, {-2, v.node, 0}, StrCat("node ", v.node), "node", 0);
  }
  return parting.Finish();
}

Partition OneNode(const Topology& topology, int node) {
  Parting parting(topology, kOneNode);
  for (const Vertex& v : parting.vertices()) v.node == node ? parting.AddPart(v) : parting.AddToLayer(v);
  for (network::Cell& cell : parting.cells())
    if (cell.layer() < kNetwork && cell.parts() > 1) cell.set_name(StrCat("other nodes: ", cell.kind()));
  return parting.Finish();
}

int GroupOf(const Topology& topology, int node) {
  for (const Vertex& v : topology.vertices())
    if (v.node == node && v.group >= 0) return v.group;
  return -1;
}

// The switches and nodes of the group that `node` is in, and all others as one cell of switches and one of nodes.
Partition OneGroup(const Topology& topology, int node) {
  Parting parting(topology, kOneGroup);
  const int group = GroupOf(topology, node);
  for (const Vertex& v : parting.vertices()) {
    const bool own = v.group == group;
    if (v.node >= 0)
      own ? parting.Add(v, {-2, v.node, 0}, StrCat("node ", v.node), "node", 0)
          : parting.Add(v, {-3, 0, 0}, "parts of the nodes of other groups", "part", 0);
    else
      own ? parting.AddPart(v) : parting.Add(v, {-3, 1, 0}, "switches of other groups", "switch", LayerOf(v));
  }
  return parting.Finish();
}

Partition AllParts(const Topology& topology) {
  Parting parting(topology, "all parts");
  for (const Vertex& v : parting.vertices()) parting.AddPart(v);
  return parting.Finish();
}

// Where each endpoint of a grid is; empty if there is none.
std::vector<std::vector<int>> PlacesOf(const Topology& topology) {
  const std::vector<int> dims = topology.grid();
  std::vector<std::vector<int>> places(dims.empty() ? 0 : static_cast<size_t>(topology.endpoints()));
  for (int position = 0; position < static_cast<int>(places.size()); ++position) {
    std::vector<int>& place = places[static_cast<size_t>(topology.AtGrid(position))];
    int rest = position;
    for (const int dim : dims) place.push_back(rest % dim), rest /= dim;
  }
  return places;
}

// "x 0-3, y 4": `from` and `to` by dimension, the latter included.
std::string PlaceName(const std::vector<int>& from, const std::vector<int>& to) {
  static constexpr std::string_view kAxes = "xyzwvu";
  std::string name;
  for (size_t d = 0; d < from.size(); ++d) {
    StrAppend(&name, d > 0 ? ", " : "", d < kAxes.size() ? StrCat(kAxes.substr(d, 1)) : StrCat("dimension ", d + 1),
              " ", from[d]);
    if (to[d] > from[d]) StrAppend(&name, "-", to[d]);
  }
  return name;
}

// The grid of a torus or a HammingMesh in blocks, few enough to draw.
Partition Blocks(const Topology& topology, const std::vector<std::vector<int>>& places) {
  Parting parting(topology, "blocks");
  const std::vector<int> dims = topology.grid();
  std::vector<int> length(dims.size(), 1);
  const auto blocks = [&](size_t d) { return (dims[d] + length[d] - 1) / length[d]; };
  const auto all = [&] {
    size_t product = 1;
    for (size_t d = 0; d < dims.size(); ++d) product *= static_cast<size_t>(blocks(d));
    return product;
  };
  while (all() > kMostBlocks) {
    size_t longest = 0;
    for (size_t d = 1; d < dims.size(); ++d) longest = blocks(d) > blocks(longest) ? d : longest;
    length[longest] *= 2;
  }
  std::vector<std::vector<int>> of_cell;
  for (size_t v = 0; v < parting.vertices().size(); ++v) {
    const Vertex& vertex = parting.vertices()[v];
    if (v >= places.size()) {
      parting.AddToLayer(vertex);
      continue;
    }
    std::vector<int> block(dims.size()), from(dims.size()), to(dims.size());
    int number = 0;
    for (size_t d = dims.size(); d-- > 0;) {
      block[d] = places[v][d] / length[d], number = number * blocks(d) + block[d];
      from[d] = block[d] * length[d], to[d] = std::min(dims[d], from[d] + length[d]) - 1;
    }
    parting.Add(vertex, {-2, number, 0}, PlaceName(from, to), "device", 0);
    if (parting.cells().size() > of_cell.size()) of_cell.resize(parting.cells().size());
    network::Cell& cell = parting.cells()[of_cell.size() - 1];
    if (cell.place().empty() && cell.parts() == 1) cell.mutable_place()->Add(block.begin(), block.end());
  }
  return parting.Finish();
}

void SetPlaces(const std::vector<std::vector<int>>& places, Partition& partition) {
  for (size_t v = 0; v < places.size(); ++v) {
    network::Cell& cell = partition.cells[static_cast<size_t>(partition.cell_of[v])];
    if (cell.parts() == 1) cell.mutable_place()->Add(places[v].begin(), places[v].end());
  }
}

// What the links of one edge carry: how many links have which number and bandwidth.
struct Carried {
  int64_t links = 0;
  double bandwidth = 0;
  absl::flat_hash_map<std::pair<int, double>, int64_t> by_number;
};

std::vector<int64_t> Millionths(const std::vector<double>& shares) {
  std::vector<int64_t> rounded;
  for (const double share : shares) rounded.push_back(std::llround(share * kMillionths));
  while (!rounded.empty() && rounded.back() == 0) rounded.pop_back();
  return rounded;
}

class Drawing {
 public:
  Drawing(const Topology& topology, double width, const NumberOf& number_of, const BytesOf& bytes_of)
      : topology_(topology), width_(width), number_of_(number_of), bytes_of_(bytes_of) {}

  void Add(const Partition& partition, bool whatever, network::Pictures& pictures) {
    std::map<std::pair<int, int>, Carried> edges;
    for (size_t l = 0; l < topology_.links().size(); ++l) {
      const Link& link = topology_.links()[l];
      if (link.from < 0 || link.to < 0) continue;
      Carried& edge =
          edges[{partition.cell_of[static_cast<size_t>(link.from)], partition.cell_of[static_cast<size_t>(link.to)]}];
      ++edge.links, edge.bandwidth += link.bandwidth.value();
      ++edge.by_number[{number_of_(static_cast<int>(l)), link.bandwidth.value()}];
    }
    if (edges.size() > kMostEdges && !whatever) return;
    network::Picture& picture = *pictures.add_pictures();
    picture.set_detail(std::string(partition.detail));
    picture.mutable_cells()->Add(partition.cells.begin(), partition.cells.end());
    for (const auto& [between, carried] : edges) {
      network::Edge& edge = *picture.add_edges();
      edge.set_from(between.first), edge.set_to(between.second);
      edge.set_links(carried.links), edge.set_bandwidth(carried.bandwidth);
      SetSeries(carried, edge, pictures);
    }
  }

 private:
  void SetSeries(const Carried& carried, network::Edge& edge, network::Pictures& pictures) {
    std::vector<double> load, highest;
    double sum = 0;
    for (const auto& [of, links] : carried.by_number) {
      if (of.first == 0) continue;
      const std::vector<double> bytes = bytes_of_(of.first);
      if (bytes.size() > load.size()) load.resize(bytes.size()), highest.resize(bytes.size());
      for (size_t b = 0; b < bytes.size(); ++b) {
        sum += bytes[b] * static_cast<double>(links);
        load[b] += bytes[b] * static_cast<double>(links) / (width_ * carried.bandwidth);
        highest[b] = std::max(highest[b], bytes[b] / (width_ * of.second));
      }
    }
    edge.set_bytes(sum);
    edge.set_series(-1);
    std::vector<int64_t> of_all = Millionths(load), of_one = Millionths(highest);
    if (of_one.empty()) return;
    if (of_all == of_one) of_one.clear();
    const auto [at, fresh] = series_.try_emplace({of_all, of_one}, pictures.series_size());
    if (fresh) {
      network::Series& series = *pictures.add_series();
      series.mutable_load()->Add(of_all.begin(), of_all.end());
      series.mutable_highest()->Add(of_one.begin(), of_one.end());
    }
    edge.set_series(at->second);
  }

  const Topology& topology_;
  const double width_;
  const NumberOf& number_of_;
  const BytesOf& bytes_of_;
  std::map<std::pair<std::vector<int64_t>, std::vector<int64_t>>, int> series_;  // places in the pictures' series
};

}  // namespace

std::string VertexKind(const Vertex& vertex) {
  switch (vertex.kind) {
    case Vertex::kDevice: return "device";
    case Vertex::kNic: return "NIC";
    case Vertex::kHost: return "host";
    case Vertex::kSwitch: return vertex.node >= 0 ? "switch in a node" : StrCat("switch of level ", vertex.level);
  }
  return "";
}

std::vector<Partition> PartitionsOf(const Topology& topology, int node) {
  std::vector<Partition> all;
  size_t before = 0;
  const auto add = [&](Partition partition) {
    const size_t cells = partition.cells.size();
    const bool one = partition.detail == kOneNode || partition.detail == kOneGroup;
    if ((cells <= before && !one) || (!all.empty() && cells > kMostCells)) return;
    before = one ? before : cells;
    all.push_back(std::move(partition));
  };
  const size_t vertices = topology.vertices().size();
  const std::vector<std::vector<int>> places = PlacesOf(topology);
  std::set<int> groups, nodes;
  int between = 0;  // vertices between nodes
  for (const Vertex& v : topology.vertices()) {
    groups.insert(v.group);
    v.node < 0 ? void(++between) : void(nodes.insert(v.node));
  }
  add(Levels(topology));
  if (places.empty() && groups.size() > 1 && groups.size() <= kMostCells) add(Groups(topology));
  const bool nodes_fit = nodes.size() + static_cast<size_t>(between) <= kMostCells;
  if (places.empty() && groups.size() > 1 && GroupOf(topology, node) >= 0 && !nodes_fit) add(OneGroup(topology, node));
  if (!places.empty() && vertices > kMostCells) add(Blocks(topology, places));
  if (nodes.size() > 1 && nodes_fit) {
    Partition of_nodes = Nodes(topology);
    SetPlaces(places, of_nodes);
    add(std::move(of_nodes));
  }
  if (nodes.size() > 1 && vertices > nodes.size() + static_cast<size_t>(between)) add(OneNode(topology, node));
  if (vertices <= kMostCells) {
    Partition parts = AllParts(topology);
    SetPlaces(places, parts);
    add(std::move(parts));
  }
  return all;
}

network::Pictures PicturesOf(const Topology& topology, int node, double begin, double width, const NumberOf& number_of,
                             const BytesOf& bytes_of) {
  network::Pictures pictures;
  pictures.set_begin(begin), pictures.set_width(width);
  Drawing drawing(topology, width, number_of, bytes_of);
  bool first = true;
  for (const Partition& partition : PartitionsOf(topology, node))
    drawing.Add(partition, std::exchange(first, false), pictures);
  return pictures;
}

}  // namespace twofold::sim
