// Converts a SimGrid platform to one node: see simgrid_xml.h.
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "core/base/status.h"
#include "core/base/strings.h"
#include "topologies/import/simgrid_xml.h"
#include "topologies/import/union_find.h"

namespace twofold {
namespace {

struct LinkFacts {
  std::string name;
  BytesPerSecond bandwidth;
  Seconds latency;
};

class Converter {
 public:
  explicit Converter(const XmlDocument& document) : document_(document) {}

  absl::StatusOr<ImportedNode> Convert() {
    const XmlNode* zone = nullptr;
    if (absl::Status s = FindZone(document_.root(), zone); !s.ok()) return s;
    imported_.node.kind = "simgrid";
    if (absl::Status s = zone->name == "cluster" ? AddCluster(*zone) : AddZone(*zone); !s.ok()) return s;
    imported_.notes.push_back("SimGrid platform: its hosts are imported as the devices of one node without NICs");
    return std::move(imported_);
  }

 private:
  Graph& graph() { return imported_.node.graph; }
  absl::Status Error(const XmlNode& at, std::string_view attribute, const auto&... what) const {
    return XmlError(document_.file, at, attribute, StrCat(what...));
  }

  // Finds the single zone or cluster that contains hosts.
  absl::Status FindZone(const XmlNode& at, const XmlNode*& found) const {
    const XmlNode* inner = nullptr;
    for (const XmlNode& child : at.Elements()) {
      if (child.name != "zone" && child.name != "AS" && child.name != "cluster") continue;
      if (inner != nullptr)
        return Error(child, "id", "a second zone (the first is on line ", inner->line,
                     "); only one zone of hosts is supported");
      inner = &child;
    }
    if (inner == nullptr && at.name == "platform") return Error(at, "", "contains no zone of hosts");
    if (inner == nullptr) {
      found = &at;
      return absl::OkStatus();
    }
    if (std::any_of(at.children.begin(), at.children.end(), [](const XmlNode& n) { return n.name == "host"; })) {
      return Error(*inner, "id", "a zone next to hosts; only one zone of hosts is supported");
    }
    if (inner->name == "cluster") {
      found = inner;
      return absl::OkStatus();
    }
    return FindZone(*inner, found);
  }

  // ---- <cluster> ----

  absl::Status AddCluster(const XmlNode& cluster) {
    if (const std::string kind = cluster.Get("topology", "FLAT"); kind != "FLAT") {
      return Error(cluster, "topology",
                   "only a FLAT cluster can be imported as a node; describe others by Twofold's own torus, fat_tree or "
                   "dragonfly");
    }
    std::vector<int64_t> numbers;
    if (absl::Status s = Radical(cluster, numbers); !s.ok()) return s;
    const double rate = SimgridFigure(cluster.Get("bw"), SimgridUnit::kBandwidth);
    double latency = SimgridFigure(cluster.Get("lat"), SimgridUnit::kTime);
    if (cluster.Find("bb_bw") != nullptr) {
      const bool fat = cluster.Get("bb_sharing_policy") == "FATPIPE";
      if (SimgridFigure(cluster.Get("bb_bw"), SimgridUnit::kBandwidth) <
          rate * (fat ? 1 : static_cast<double>(numbers.size()))) {
        return Error(cluster, "bb_bw", "a backbone that limits its hosts is not supported; give it at least ",
                     fat ? "a host's bw" : "the sum of the hosts' bw");
      }
      latency += SimgridFigure(cluster.Get("bb_lat", "0s"), SimgridUnit::kTime) / 2;
      imported_.notes.push_back(
          "the cluster's backbone is never the bottleneck; its latency is added to the hosts' links");
    }
    if (const std::string policy = cluster.Get("sharing_policy", "SPLITDUPLEX"); policy == "SHARED") {
      NoteShared();
    } else if (policy != "SPLITDUPLEX") {
      return Error(cluster, "sharing_policy", "must be SPLITDUPLEX or SHARED");
    }
    for (const int64_t i : numbers) {
      imported_.node.devices.push_back(graph().AddVertex(
          {.kind = Vertex::kDevice, .name = StrCat(cluster.Get("prefix"), i, cluster.Get("suffix")), .node = 0}));
    }
    const int hub =
        graph().AddVertex({.kind = Vertex::kSwitch, .name = cluster.Get("router_id", "cluster router"), .node = 0});
    for (const int host : imported_.node.devices)
      graph().AddCable(host, hub, BytesPerSecond(rate), Seconds(latency), Medium::kNetwork);
    return absl::OkStatus();
  }

  // "0-15,20,30-31"
  absl::Status Radical(const XmlNode& cluster, std::vector<int64_t>& numbers) const {
    const std::string text = cluster.Get("radical");
    for (const absl::string_view part : absl::StrSplit(text, ',')) {
      const std::vector<std::string> ends = absl::StrSplit(part, '-');
      int64_t first = 0, last = 0;
      if (ends.size() > 2 || !absl::SimpleAtoi(ends.front(), &first) || !absl::SimpleAtoi(ends.back(), &last) ||
          first < 0 || last < first) {
        return Error(cluster, "radical", "must be numbers and ranges, such as 0-15,20");
      }
      if (last - first >= kMostSimgridHosts - static_cast<int64_t>(numbers.size())) {
        return Error(cluster, "radical", "must name at most ", kMostSimgridHosts, " hosts");
      }
      for (int64_t i = first; i <= last; ++i) numbers.push_back(i);
    }
    if (std::set<int64_t>(numbers.begin(), numbers.end()).size() != numbers.size())
      return Error(cluster, "radical", "must name each host once");
    return absl::OkStatus();
  }

  // ---- Zones of hosts, routers, links and routes ----

  // A link of the file, or one direction of a SPLITDUPLEX link, as routes use it: from point `a` to point `b`, or back.
  struct Wire {
    const XmlNode* xml;
    std::string name;
    int a = -1, b = -1;
    bool there = false, back = false;
  };
  struct Route {
    const XmlNode* xml;
    int from, to;  // points
    std::vector<size_t> wires;
    bool done = false;
  };

  absl::Status AddZone(const XmlNode& zone) {
    const std::string routing = zone.Get("routing");
    const bool full = routing == "Full", graph_of_cables = routing == "Floyd" || routing.starts_with("Dijkstra");
    if (!full && !graph_of_cables) return Error(zone, "routing", "must be Full, Floyd or Dijkstra");
    if (absl::Status s = AddPlaces(zone); !s.ok()) return s;
    if (absl::Status s = ReadRoutes(zone, full); !s.ok()) return s;
    if (absl::Status s = Follow(); !s.ok()) return s;
    if (absl::Status s = AddCables(); !s.ok()) return s;
    return CheckShortest(zone, full);
  }

  absl::Status AddPlaces(const XmlNode& zone) {
    for (const XmlNode& at : zone.children) {
      if (at.name == "host" || at.name == "router") {
        const bool host = at.name == "host";
        const int vertex =
            graph().AddVertex({.kind = host ? Vertex::kDevice : Vertex::kSwitch, .name = at.Get("id"), .node = 0});
        places_[at.Get("id")] = points_.New();  // the first points are the places, in order
        if (host) imported_.node.devices.push_back(vertex);
      } else if (at.name == "link") {
        if (const std::string policy = at.Get("sharing_policy", "SHARED");
            policy != "SHARED" && policy != "SPLITDUPLEX") {
          return Error(at, "sharing_policy", "must be SHARED or SPLITDUPLEX");
        }
        links_[at.Get("id")] = &at;
      } else if (at.kind == XmlNode::kElement && at.name != "route" && at.name != "prop") {
        return Error(at, "", "cannot be imported; a node consists of hosts, routers, links and routes");
      }
    }
    if (imported_.node.devices.empty()) return Error(zone, "id", "contains no hosts");
    if (imported_.node.devices.size() > kMostSimgridHosts) {
      return Error(zone, "id", "contains ", imported_.node.devices.size(), " hosts; a node can have at most ",
                   kMostSimgridHosts);
    }
    return absl::OkStatus();
  }

  // The two directions of a SPLITDUPLEX link are two wires between the same ends.
  size_t WireOf(const XmlNode& link, const std::string& direction) {
    const std::string id = link.Get("id"), name = direction.empty() ? id : StrCat(id, "_", direction);
    const auto [at, added] = wire_of_.try_emplace(name, wires_.size());
    if (!added) return at->second;
    const Wire wire{.xml = &link, .name = name, .a = points_.New(), .b = points_.New()};
    wires_.push_back(wire);
    if (direction.empty()) return at->second;
    const std::string other = StrCat(id, direction == "UP" ? "_DOWN" : "_UP");
    wire_of_[other] = wires_.size();
    wires_.push_back({.xml = &link, .name = other, .a = wire.b, .b = wire.a});
    return at->second;
  }

  absl::Status ReadRoutes(const XmlNode& zone, bool full) {
    for (const XmlNode& at : zone.children) {
      if (at.name != "route") continue;
      const auto from = places_.find(at.Get("src")), to = places_.find(at.Get("dst"));
      if (from == places_.end() || to == places_.end())
        return Error(at, from == places_.end() ? "src" : "dst", "is not a host or router of this zone");
      if (from == to) continue;  // a loopback
      Route there{&at, from->second, to->second, {}}, back{&at, to->second, from->second, {}};
      for (const XmlNode& part : at.Elements()) {
        const auto link = links_.find(part.Get("id"));
        if (link == links_.end()) return Error(part, "id", "no link of this zone has this id");
        const std::string direction = part.Get("direction");
        there.wires.push_back(WireOf(*link->second, direction));
        back.wires.push_back(direction.empty() ? there.wires.back()
                                               : WireOf(*link->second, direction == "UP" ? "DOWN" : "UP"));
      }
      if (there.wires.empty()) return Error(at, "", "contains no links; list the links between its ends");
      if (!full && there.wires.size() != 1) {
        return Error(at, "", "has ", there.wires.size(),
                     " links; with Floyd or Dijkstra routing a route is one cable and has exactly one link");
      }
      std::reverse(back.wires.begin(), back.wires.end());
      routes_.push_back(std::move(there));
      if (const std::string both = at.Get("symmetrical", "YES"); both != "NO" && both != "no")
        routes_.push_back(std::move(back));
    }
    return absl::OkStatus();
  }

  // Lays the wires of every route end to end. If a route does not determine the direction of a wire yet, it waits for
  // other routes.
  absl::Status Follow() {
    for (bool moved = true; moved;) {
      moved = false;
      for (Route& route : routes_) {
        if (route.done || !Lay(route)) continue;
        route.done = moved = true;
      }
    }
    for (const Route& route : routes_) {
      if (!route.done)
        return Error(*route.xml, "src",
                     "the direction of its links is ambiguous; use SPLITDUPLEX links with directions");
    }
    std::map<int, std::string> vertex;  // root -> place
    for (const auto& [name, point] : places_) {
      const auto [first, added] = vertex.try_emplace(points_.Of(point), name);
      if (!added) {
        return InvalidArgument(document_.file, ": the links of the routes put ", first->second, " and ", name,
                               " in the same place; give each link two different ends");
      }
    }
    return absl::OkStatus();
  }

  bool Lay(const Route& route) {
    int at = route.from;
    for (size_t i = 0; i < route.wires.size(); ++i) {
      Wire& wire = wires_[route.wires[i]];
      const bool last = i + 1 == route.wires.size();
      bool forward = false;
      // SPLITDUPLEX links give their direction
      if ((!wire.there && !wire.back) || wire.name != wire.xml->Get("id")) {
        forward = true;
      } else if (points_.Same(at, wire.a) != points_.Same(at, wire.b)) {
        forward = points_.Same(at, wire.a);
      } else if (last && points_.Same(route.to, wire.b) != points_.Same(route.to, wire.a)) {
        forward = points_.Same(route.to, wire.b);
      } else if (OneWay(route)) {
        forward = wire.there;
      } else {
        return false;
      }
      (forward ? wire.there : wire.back) = true;
      points_.Join(at, forward ? wire.a : wire.b);
      at = forward ? wire.b : wire.a;
      if (last) points_.Join(at, route.to);
    }
    return true;
  }
  // If routes are written for one direction only, a link keeps the direction of its first use.
  bool OneWay(const Route& route) const {
    const std::string both = route.xml->Get("symmetrical", "YES");
    return both == "NO" || both == "no";
  }

  static LinkFacts Facts(const Wire& wire) {
    return {wire.name, BytesPerSecond(SimgridFigure(wire.xml->Get("bandwidth"), SimgridUnit::kBandwidth)),
            Seconds(SimgridFigure(wire.xml->Get("latency", "0s"), SimgridUnit::kTime))};
  }

  int VertexOf(int point) {
    const int root = points_.Of(point);
    if (root < static_cast<int>(places_.size())) return root;  // places are the first points and the first vertices
    const auto [at, added] = switches_.try_emplace(root, -1);
    if (added)
      at->second =
          graph().AddVertex({.kind = Vertex::kSwitch, .name = StrCat("switch ", switches_.size() - 1), .node = 0});
    return at->second;
  }

  // A wire that is used both ways is a cable, and so is a pair of wires that are each other's reverse.
  absl::Status AddCables() {
    std::map<std::pair<int, int>, std::vector<size_t>> one_way;
    for (size_t w = 0; w < wires_.size(); ++w) {
      Wire& wire = wires_[w];
      if (!wire.there && !wire.back) continue;
      const int a = VertexOf(wire.a), b = VertexOf(wire.b);
      if (a == b) return Error(*wire.xml, "id", "the routes put both of its ends in the same place");
      if (wire.there && wire.back) {
        NoteShared();
        Push(Facts(wire), a, b);
        Push(Facts(wire), b, a);
      } else {
        one_way[wire.there ? std::pair(a, b) : std::pair(b, a)].push_back(w);
      }
    }
    for (auto& [ends, there] : one_way) {
      auto& back = one_way[{ends.second, ends.first}];
      if (there.size() != back.size()) {
        const Wire& wire = wires_[there.size() > back.size() ? there.back() : back.back()];
        return Error(*wire.xml, "id",
                     "is used in one direction only, and no other link goes back; a cable needs both directions");
      }
      if (ends.first > ends.second) continue;
      for (size_t i = 0; i < there.size(); ++i) {
        Push(Facts(wires_[there[i]]), ends.first, ends.second);
        Push(Facts(wires_[back[i]]), ends.second, ends.first);
      }
    }
    return absl::OkStatus();
  }

  void Push(const LinkFacts& facts, int from, int to) {
    graph().links.push_back(
        {.name = facts.name, .bandwidth = facts.bandwidth, .latency = facts.latency, .from = from, .to = to});
  }

  void NoteShared() {
    if (std::exchange(noted_shared_, true)) return;
    imported_.notes.push_back(
        "SHARED links that are used in both directions have their full bandwidth in each; SimGrid shares it between "
        "the two directions");
  }

  absl::Status CheckShortest(const XmlNode& zone, bool full) {
    std::map<int, std::vector<const Route*>> routes;
    if (full) {
      for (const Route& route : routes_) routes[VertexOf(route.from)].push_back(&route);
    }
    for (const int host : imported_.node.devices) {
      const ShortestRoutes shortest(graph(), host);
      for (const int other : imported_.node.devices) {
        if (shortest.Reaches(other)) continue;
        return Error(zone, "id", "no route connects ", graph().vertices[static_cast<size_t>(host)].name, " to ",
                     graph().vertices[static_cast<size_t>(other)].name);
      }
      for (const Route* route : routes[host]) {
        const int least = shortest.Hops(VertexOf(route->to));
        if (least == static_cast<int>(route->wires.size())) continue;
        return Error(*route->xml, "src", "has ", route->wires.size(), " links, but the shortest route has ", least,
                     "; the routes of a node must be shortest routes");
      }
    }
    return absl::OkStatus();
  }

  const XmlDocument& document_;
  ImportedNode imported_;
  UnionFind points_;                   // joined points are one vertex
  std::map<std::string, int> places_;  // host or router -> point
  std::map<std::string, const XmlNode*> links_;
  std::map<std::string, size_t> wire_of_;
  std::vector<Wire> wires_;
  std::vector<Route> routes_;
  std::map<int, int> switches_;  // root point -> vertex
  bool noted_shared_ = false;
};

}  // namespace

absl::StatusOr<ImportedNode> NodeOf(const SimgridXml& xml, const ImportAssumptions&) {
  return Converter(xml.document).Convert();
}

}  // namespace twofold
