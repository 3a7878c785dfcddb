#include "topologies/graph/graph.h"

#include <algorithm>
#include <limits>
#include <queue>
#include <tuple>
#include <utility>

#include "core/base/check.h"
#include "core/base/strings.h"
#include "topologies/graph/route_table.h"

namespace twofold {

int Graph::AddVertex(Vertex vertex) {
  vertices.push_back(std::move(vertex));
  return static_cast<int>(vertices.size()) - 1;
}

int Graph::AddCable(int a, int b, BytesPerSecond bandwidth, Seconds latency, Medium medium) {
  const std::string &from = vertices[static_cast<size_t>(a)].name, &to = vertices[static_cast<size_t>(b)].name;
  links.push_back({StrCat(from, ">", to), bandwidth, latency, a, b, medium});
  links.push_back({StrCat(to, ">", from), bandwidth, latency, b, a, medium});
  return static_cast<int>(links.size()) - 2;
}

std::vector<int> Graph::Of(Vertex::Kind kind) const {
  std::vector<int> of;
  for (size_t v = 0; v < vertices.size(); ++v) {
    if (vertices[v].kind == kind) of.push_back(static_cast<int>(v));
  }
  return of;
}

// Breadth-first search: a vertex's width is known before any farther vertex is reached.
ShortestRoutes::ShortestRoutes(const Graph& graph, int from)
    : graph_(graph),
      from_(from),
      hops_(graph.vertices.size(), -1),
      arrivals_(graph.vertices.size()),
      width_(graph.vertices.size()) {
  std::vector<std::vector<int>> leaving(graph.vertices.size());
  for (size_t l = 0; l < graph.links.size(); ++l) {
    leaving[static_cast<size_t>(graph.links[l].from)].push_back(static_cast<int>(l));
  }
  hops_[static_cast<size_t>(from)] = 0;
  width_[static_cast<size_t>(from)] = std::numeric_limits<double>::infinity();
  std::vector<int> reached = {from};
  for (size_t next = 0; next < reached.size(); ++next) {
    const size_t v = static_cast<size_t>(reached[next]);
    const Vertex::Kind kind = graph.vertices[v].kind;
    if (reached[next] != from && (kind == Vertex::kDevice || kind == Vertex::kNic)) continue;
    for (int l : leaving[v]) {
      const Link& link = graph.links[static_cast<size_t>(l)];
      const size_t to = static_cast<size_t>(link.to);
      if (hops_[to] < 0) {
        hops_[to] = hops_[v] + 1;
        reached.push_back(link.to);
      }
      if (hops_[to] != hops_[v] + 1) continue;
      arrivals_[to].push_back(l);
      width_[to] = std::max(width_[to], std::min(width_[v], link.bandwidth.value()));
    }
  }
  for (std::vector<int>& links : arrivals_) std::sort(links.begin(), links.end());
}

// Best-first search backwards from the end. An unfinished route can be no wider than the widest path to its current
// vertex, so routes are completed in the order of their widths.
std::vector<std::vector<int>> ShortestRoutes::To(int to, size_t most) const {
  struct Part {
    double width;     // upper bound for the routes that it can become
    uint64_t number;  // for ties in width: the longest part goes first, then the one found first
    int vertex;
    std::vector<int> links;  // from `to` back to `vertex`
    bool operator<(const Part& o) const {
      return std::tuple(width, links.size(), o.number) < std::tuple(o.width, o.links.size(), number);
    }
  };
  std::vector<std::vector<int>> routes;
  if (!Reaches(to) || to == from_) return routes;
  uint64_t parts = 0;
  std::priority_queue<Part> open;
  open.push({width_[static_cast<size_t>(to)], parts++, to, {}});
  while (!open.empty() && routes.size() < most) {
    Part part = open.top();
    open.pop();
    if (part.vertex == from_) {
      routes.emplace_back(part.links.rbegin(), part.links.rend());
      continue;
    }
    for (int l : arrivals_[static_cast<size_t>(part.vertex)]) {
      const Link& link = graph_.links[static_cast<size_t>(l)];
      Part longer = part;
      longer.width = std::min({part.width, link.bandwidth.value(), width_[static_cast<size_t>(link.from)]});
      longer.number = parts++, longer.vertex = link.from;
      longer.links.push_back(l);
      open.push(std::move(longer));
    }
  }
  return routes;
}

namespace {

// `first`, followed by the other vertices in order.
Graph WithFirst(Graph graph, const std::vector<int>& first) {
  std::vector<int> place(graph.vertices.size(), -1);
  std::vector<Vertex> vertices;
  auto put = [&](size_t v) {
    place[v] = static_cast<int>(vertices.size());
    vertices.push_back(std::move(graph.vertices[v]));
  };
  for (int v : first) {
    TWOFOLD_CHECK_EQ(place[static_cast<size_t>(v)], -1);  // a terminal must be listed once
    put(static_cast<size_t>(v));
  }
  for (size_t v = 0; v < place.size(); ++v) {
    if (place[v] < 0) put(v);
  }
  graph.vertices = std::move(vertices);
  for (Link& link : graph.links) {
    link.from = place[static_cast<size_t>(link.from)], link.to = place[static_cast<size_t>(link.to)];
  }
  return graph;
}

class GraphTopology : public Topology {
 public:
  GraphTopology(std::string kind, Graph graph, const std::vector<int>& terminals)
      : kind_(std::move(kind)),
        endpoints_(static_cast<int>(terminals.size())),
        graph_(WithFirst(std::move(graph), terminals)),
        routes_(endpoints_) {
    for (int from = 0; from < endpoints_; ++from) {
      const ShortestRoutes shortest(graph_, from);
      for (int to = 0; to < endpoints_; ++to) {
        TWOFOLD_CHECK(shortest.Reaches(to), StrCat("no route from ", Of(from).name, " to ", Of(to).name));
        routes_.Add(shortest.To(to));
      }
    }
    symmetric_ = AllAlike(routes_, endpoints_, graph_.links);
    for (int e = 0; e < endpoints_; ++e) own_nodes_ |= Of(e).node < 0, nodes_ = std::max(nodes_, Of(e).node + 1);
    if (own_nodes_) nodes_ = endpoints_;
  }
  std::string_view kind() const override { return kind_; }
  int endpoints() const override { return endpoints_; }
  const std::vector<Vertex>& vertices() const override { return graph_.vertices; }
  const std::vector<Link>& links() const override { return graph_.links; }
  int64_t MinimalRoutes(Pair pair) const override { return routes_.Count(pair.from, pair.to); }
  void Route(Pair pair, int64_t number, std::vector<int>& route) const override {
    const int n = static_cast<int>(number);
    route.assign(routes_.Begin(pair.from, pair.to, n), routes_.End(pair.from, pair.to, n));
  }
  int nodes() const override { return nodes_; }
  int NodeOf(int endpoint) const override { return own_nodes_ ? endpoint : Of(endpoint).node; }
  int GroupOf(int endpoint) const override { return std::max(Of(endpoint).group, 0); }
  bool symmetric() const override { return symmetric_; }

 private:
  const Vertex& Of(int endpoint) const { return graph_.vertices[static_cast<size_t>(endpoint)]; }

  const std::string kind_;
  const int endpoints_;
  const Graph graph_;
  RouteTable routes_;
  bool symmetric_ = false, own_nodes_ = false;
  int nodes_ = 0;
};

}  // namespace

std::unique_ptr<Topology> MakeGraphTopology(std::string kind, Graph graph, std::vector<int> terminals) {
  return std::make_unique<GraphTopology>(std::move(kind), std::move(graph), terminals);
}

}  // namespace twofold
