#include "topologies/graph/cluster_topology.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "core/base/check.h"
#include "core/base/status.h"
#include "core/base/strings.h"
#include "topologies/graph/on_demand.h"
#include "topologies/graph/route_table.h"

namespace twofold {
namespace {

// The routes within one node: between its devices, and between devices and NICs both ways. Links are numbered as in the
// node's graph.
struct NodeRoutes {
  RouteTable devices, out, in;
};

BytesPerSecond Narrowest(const std::vector<int>& route, const Graph& graph) {
  auto bandwidth = [&](int l) { return graph.links[static_cast<size_t>(l)].bandwidth; };
  BytesPerSecond least = bandwidth(route[0]);
  for (int l : route) least = std::min(least, bandwidth(l));
  return least;
}

// The wider of the direct path and the path `first` followed by `then`, over an intermediate vertex. Any of the three
// may be missing.
std::vector<std::vector<int>> Wider(std::vector<std::vector<int>> direct, const std::vector<std::vector<int>>& first,
                                    const std::vector<std::vector<int>>& then, const Graph& graph) {
  if (first.empty() || then.empty()) return direct;
  std::vector<int> detour = first[0];
  detour.insert(detour.end(), then[0].begin(), then[0].end());
  if (direct.empty() || Narrowest(detour, graph) > Narrowest(direct[0], graph)) return {detour};
  return direct;
}

NodeRoutes RoutesOf(const NodeType& node) {
  const int devices = static_cast<int>(node.devices.size()), nics = static_cast<int>(node.nics.size());
  TWOFOLD_CHECK_EQ(node.nic_of.size(), nics > 0 ? node.devices.size() : 0);
  std::vector<ShortestRoutes> from_device, from_nic;
  for (int v : node.devices) from_device.emplace_back(node.graph, v);
  for (int v : node.nics) from_nic.emplace_back(node.graph, v);
  auto device = [&](int d) { return node.devices[static_cast<size_t>(d)]; };
  auto nic = [&](int k) { return node.nics[static_cast<size_t>(k)]; };
  auto owner = [&](int k) {  // the device next to NIC k: the first one whose nearest NIC it is
    auto far = [&](int d) {
      const int hops = from_device[static_cast<size_t>(d)].Hops(nic(k));
      return std::pair(hops < 0 ? std::numeric_limits<int>::max() : hops, node.nic_of[static_cast<size_t>(d)] != k);
    };
    int best = 0;
    for (int d = 1; d < devices; ++d) best = far(d) < far(best) ? d : best;
    return best;
  };
  NodeRoutes routes{RouteTable(devices), RouteTable(nics), RouteTable(devices)};
  for (int a = 0; a < devices; ++a) {
    const ShortestRoutes& from = from_device[static_cast<size_t>(a)];
    for (int b = 0; b < devices; ++b) {
      TWOFOLD_CHECK(from.Reaches(device(b)), StrCat("a ", node.kind, " node has no route from device ", a, " to ", b));
      routes.devices.Add(from.To(device(b)));
    }
    for (int k = 0; k < nics; ++k) {
      const int o = owner(k);
      routes.out.Add(Wider(from.To(nic(k), 1), from.To(device(o), 1), from_device[static_cast<size_t>(o)].To(nic(k), 1),
                           node.graph));
      TWOFOLD_CHECK_EQ(routes.out.Count(a, k), 1);
    }
  }
  for (int k = 0; k < nics; ++k) {
    const ShortestRoutes& from = from_nic[static_cast<size_t>(k)];
    const int o = owner(k);
    for (int d = 0; d < devices; ++d) {
      routes.in.Add(Wider(from.To(device(d), 1), from.To(device(o), 1),
                          from_device[static_cast<size_t>(o)].To(device(d), 1), node.graph));
      TWOFOLD_CHECK_EQ(routes.in.Count(k, d), 1);
    }
  }
  return routes;
}

class ClusterTopology : public Topology {
 public:
  ClusterTopology(NodeType node, int nodes, std::unique_ptr<Topology> network, bool reduction)
      : node_(std::move(node)),
        nodes_(nodes),
        devices_(static_cast<int>(node_.devices.size())),
        nics_(static_cast<int>(node_.nics.size())),
        node_links_(static_cast<int>(node_.graph.links.size())),
        network_(std::move(network)),
        reduction_(reduction),
        routes_(RoutesOf(node_)) {
    TWOFOLD_CHECK_GE(nodes, 1);
    TWOFOLD_CHECK_GE(devices_, 1);
    TWOFOLD_CHECK(network_ != nullptr || nodes == 1, "several nodes need a network");
    TWOFOLD_CHECK(nics_ > 0 || devices_ == 1 || network_ == nullptr, "several devices need NICs");
    if (network_ != nullptr) TWOFOLD_CHECK_EQ(network_->endpoints(), nodes * rails());
    symmetric_ = network_ == nullptr ? AllAlike(routes_.devices, devices_, node_.graph.links)
                                     : devices_ == 1 && network_->symmetric();
  }

  std::string_view kind() const override {
    return network_ == nullptr ? std::string_view(node_.kind) : network_->kind();
  }
  int endpoints() const override { return nodes_ * devices_; }
  const std::vector<Vertex>& vertices() const override {
    listed_.Ensure();
    return vertices_;
  }
  const std::vector<Link>& links() const override {
    listed_.Ensure();
    return links_;
  }
  size_t link_count() const override {
    return static_cast<size_t>(nodes_) * static_cast<size_t>(node_links_) +
           (network_ == nullptr ? 0 : network_->link_count());
  }
  LinkRates RatesOf(int link) const override {
    if (link >= nodes_ * node_links_) return network_->RatesOf(link - nodes_ * node_links_);
    const Link& of = node_.graph.links[static_cast<size_t>(link % node_links_)];
    return {of.bandwidth, of.latency, of.medium};
  }

  int64_t MinimalRoutes(Pair pair) const override {
    if (SameNode(pair)) return routes_.devices.Count(LocalOf(pair.from), LocalOf(pair.to));
    return network_->MinimalRoutes(Ports(pair));
  }
  int64_t Detours(Pair pair) const override { return SameNode(pair) ? 0 : network_->Detours(Ports(pair)); }
  int64_t DefaultRoute(Pair pair) const override { return SameNode(pair) ? 0 : network_->DefaultRoute(Ports(pair)); }

  void Route(Pair pair, int64_t number, std::vector<int>& route) const override {
    const int from = LocalOf(pair.from), to = LocalOf(pair.to);
    if (SameNode(pair)) {
      route.clear();
      Append(routes_.devices, from, to, static_cast<int>(number), NodeOf(pair.from), route);
      return;
    }
    const Pair ports = Ports(pair);
    network_->Route(ports, number, route);
    for (int& link : route) link += nodes_ * node_links_;
    if (nics_ == 0) return;
    const int out = ports.from % nics_, in = ports.to % nics_;
    const int *begin = routes_.out.Begin(from, out, 0), *end = routes_.out.End(from, out, 0);
    route.insert(route.begin(), begin, end);
    for (int l = 0; l < end - begin; ++l) route[static_cast<size_t>(l)] += NodeOf(pair.from) * node_links_;
    Append(routes_.in, in, to, 0, NodeOf(pair.to), route);
  }

  // Between nodes: the links of each of the two nodes.
  Middle MiddleOf(Pair pair, std::vector<int>& head, std::vector<int>& tail) const override {
    head.clear(), tail.clear();
    if (SameNode(pair)) return {this, pair, 0};
    if (nics_ > 0) {
      Append(routes_.out, LocalOf(pair.from), RailFrom(pair), 0, NodeOf(pair.from), head);
      Append(routes_.in, RailTo(pair), LocalOf(pair.to), 0, NodeOf(pair.to), tail);
    }
    return {network_.get(), Ports(pair), nodes_ * node_links_};
  }

  Seconds Latency(Pair pair) const override {
    const int from = LocalOf(pair.from), to = LocalOf(pair.to);
    if (SameNode(pair)) return LatencyIn(routes_.devices, from, to);
    const Seconds between = network_->Latency(Ports(pair));
    if (nics_ == 0) return between;
    return LatencyIn(routes_.out, from, RailFrom(pair)) + between + LatencyIn(routes_.in, RailTo(pair), to);
  }

  int nodes() const override { return nodes_; }
  int NodeOf(int endpoint) const override { return endpoint / devices_; }
  int rails() const override { return std::max(1, nics_); }
  int RailOf(int endpoint) const override {
    return nics_ == 0 ? 0 : node_.nic_of[static_cast<size_t>(LocalOf(endpoint))];
  }
  bool rails_are_twins() const override {
    return network_ != nullptr && nics_ > 0 && (nics_ == 1 || network_->TwinPorts(nics_));
  }
  int links_of_node() const override { return node_links_; }
  int GroupOf(int endpoint) const override { return GroupOfNode(NodeOf(endpoint)); }
  std::vector<int> grid() const override {
    return endpoints_forward() && nodes_ == endpoints() ? network_->grid() : std::vector<int>();
  }
  int AtGrid(int position) const override { return network_->AtGrid(position); }
  bool multicast_in_node() const override { return node_.multicast; }
  bool reduction_in_network() const override { return reduction_; }
  bool endpoints_forward() const override { return nics_ == 0 && network_ != nullptr && network_->endpoints_forward(); }
  bool symmetric() const override { return symmetric_; }
  // The distant pair: the same device of the first and the last node.
  Seconds alpha() const override { return nodes_ == 1 ? Topology::alpha() : Latency(Far()); }
  BytesPerSecond bandwidth() const override {
    if (nodes_ == 1) return Topology::bandwidth();
    std::vector<int> route;
    Route(Far(), DefaultRoute(Far()), route);
    BytesPerSecond least = RatesOf(route[0]).bandwidth;
    for (int link : route) least = std::min(least, RatesOf(link).bandwidth);
    return least;
  }

 private:
  int LocalOf(int endpoint) const { return endpoint % devices_; }
  bool SameNode(Pair pair) const { return NodeOf(pair.from) == NodeOf(pair.to); }
  Pair Far() const { return {0, (nodes_ - 1) * devices_}; }
  int RailFrom(Pair pair) const { return pair.rail >= 0 ? pair.rail : RailOf(pair.from); }
  int RailTo(Pair pair) const { return pair.rail >= 0 ? pair.rail : RailOf(pair.to); }
  Pair Ports(Pair pair) const {
    return {NodeOf(pair.from) * rails() + RailFrom(pair), NodeOf(pair.to) * rails() + RailTo(pair)};
  }
  int GroupOfNode(int n) const { return network_ == nullptr ? 0 : network_->GroupOf(n * rails()); }

  void Append(const RouteTable& table, int from, int to, int number, int node, std::vector<int>& route) const {
    for (const int *l = table.Begin(from, to, number), *end = table.End(from, to, number); l != end; ++l) {
      route.push_back(node * node_links_ + *l);
    }
  }
  // Of all nodes.
  Seconds LatencyIn(const RouteTable& table, int from, int to) const {
    Seconds sum{0};
    for (const int *l = table.Begin(from, to, 0), *end = table.End(from, to, 0); l != end; ++l) {
      sum += node_.graph.links[static_cast<size_t>(*l)].latency;
    }
    return sum;
  }

  // The endpoints, then the other vertices of nodes, then those of the network.
  void PlaceVertices() {
    const size_t per_node = node_.graph.vertices.size();
    offset_in_node_.assign(per_node, -1);
    for (int d = 0; d < devices_; ++d) offset_in_node_[static_cast<size_t>(node_.devices[static_cast<size_t>(d)])] = d;
    int others = 0;
    for (int& place : offset_in_node_) place = place >= 0 ? place : devices_ + others++;
    others_ = others;
    const size_t extra =
        network_ == nullptr ? 0 : network_->vertices().size() - static_cast<size_t>(network_->endpoints());
    vertices_.resize(static_cast<size_t>(nodes_) * per_node + extra);
    for (int n = 0; n < nodes_; ++n) {
      const std::string prefix = Prefix(n);
      const int group = network_ == nullptr ? -1 : GroupOfNode(n);
      for (size_t v = 0; v < per_node; ++v) {
        Vertex vertex = node_.graph.vertices[v];
        vertex.name.insert(0, prefix);
        vertex.node = n, vertex.group = group;
        vertices_[static_cast<size_t>(PlaceOf(n, static_cast<int>(v)))] = std::move(vertex);
      }
    }
    if (network_ == nullptr) return;
    const std::vector<Vertex>& theirs = network_->vertices();
    std::copy(theirs.begin() + network_->endpoints(), theirs.end(), vertices_.end() - static_cast<int64_t>(extra));
  }

  // The index in vertices_ of vertex `v` of node `n`'s graph.
  int PlaceOf(int n, int v) const {
    const int offset = offset_in_node_[static_cast<size_t>(v)];
    return offset < devices_ ? n * devices_ + offset : nodes_ * devices_ + n * others_ + offset - devices_;
  }
  // The same for a vertex of the network; its endpoints are the nodes' ports.
  int PlaceOfNetwork(int v) const {
    if (v < 0) return v;
    const int ports = network_->endpoints();
    if (v >= ports) return nodes_ * (devices_ + others_) + v - ports;
    const int local = v % rails();
    return PlaceOf(v / rails(), nics_ == 0 ? node_.devices[0] : node_.nics[static_cast<size_t>(local)]);
  }

  void PlaceLinks() {
    const size_t theirs = network_ == nullptr ? 0 : network_->links().size();
    links_.reserve(static_cast<size_t>(nodes_) * static_cast<size_t>(node_links_) + theirs);
    for (int n = 0; n < nodes_; ++n) {
      const std::string prefix = Prefix(n);
      for (const Link& link : node_.graph.links) {
        Link& placed = links_.emplace_back(link);
        placed.name.insert(0, prefix);
        placed.from = PlaceOf(n, link.from), placed.to = PlaceOf(n, link.to);
      }
    }
    for (size_t l = 0; l < theirs; ++l) {
      Link& placed = links_.emplace_back(network_->links()[l]);
      placed.from = PlaceOfNetwork(placed.from), placed.to = PlaceOfNetwork(placed.to);
    }
  }

  std::string Prefix(int n) const { return network_ == nullptr ? "" : StrCat("n", n, "."); }

  const NodeType node_;
  const int nodes_, devices_, nics_, node_links_;
  const std::unique_ptr<Topology> network_;
  const bool reduction_;
  const NodeRoutes routes_;
  std::vector<int> offset_in_node_;  // by vertex of a node: devices first, in their order
  int others_ = 0;                   // vertices of a node that are not endpoints
  bool symmetric_ = false;
  std::vector<Vertex> vertices_;  // these and links_: once listed
  std::vector<Link> links_;
  const OnDemand listed_{[this] { PlaceVertices(), PlaceLinks(); }};
};

}  // namespace

absl::Status CheckNodeType(const NodeType& node) {
  const auto name = [&](int v) { return node.graph.vertices[static_cast<size_t>(v)].name; };
  if (node.devices.empty()) return InvalidArgument("the node has no device");
  std::vector<ShortestRoutes> from_nic;
  for (int nic : node.nics) from_nic.emplace_back(node.graph, nic);
  std::vector<bool> served(node.nics.size());
  for (int device : node.devices) {
    const ShortestRoutes from(node.graph, device);
    for (int other : node.devices) {
      if (!from.Reaches(other)) {
        return InvalidArgument("no route from ", name(device), " to ", name(other),
                               " avoids other devices (devices do not forward messages)");
      }
    }
    for (size_t k = 0; k < served.size(); ++k) {
      served[k] = served[k] || (from.Reaches(node.nics[k]) && from_nic[k].Reaches(device));
    }
  }
  for (size_t k = 0; k < served.size(); ++k) {
    if (served[k]) continue;
    return InvalidArgument("no device has a route to ", name(node.nics[k]), " and back");
  }
  return absl::OkStatus();
}

std::unique_ptr<Topology> MakeClusterTopology(NodeType node, int nodes, std::unique_ptr<Topology> network,
                                              bool reduction_in_network) {
  return std::make_unique<ClusterTopology>(std::move(node), nodes, std::move(network), reduction_in_network);
}

}  // namespace twofold
