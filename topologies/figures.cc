#include "topologies/figures.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <span>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "core/base/strings.h"
#include "topologies/max_flow.h"

namespace twofold {
namespace {

// The neighbours of all vertices in one list.
class Neighbours {
 public:
  explicit Neighbours(const Topology& t) : first_(t.vertices().size() + 1), to_(t.links().size()) {
    const auto drawn = [](const Link& l) { return l.from >= 0 && l.to >= 0 && l.from != l.to; };
    for (const Link& l : t.links()) {
      if (drawn(l)) ++first_[static_cast<size_t>(l.from) + 1];
    }
    for (size_t v = 1; v < first_.size(); ++v) first_[v] += first_[v - 1];
    std::vector<size_t> next(first_.begin(), first_.end() - 1);
    for (const Link& l : t.links()) {
      if (drawn(l)) to_[next[static_cast<size_t>(l.from)]++] = l.to;
    }
  }
  std::span<const int> Of(int v) const {
    const size_t i = static_cast<size_t>(v);
    return {to_.data() + first_[i], to_.data() + first_[i + 1]};
  }

 private:
  std::vector<size_t> first_;
  std::vector<int> to_;
};

// Breadth-first search from many endpoints at once, one bit for each.
constexpr size_t kWords = 8;
constexpr int kSources = 64 * kWords;
using Bits = std::array<uint64_t, kWords>;

bool Any(const Bits& bits) {
  uint64_t any = 0;
  for (uint64_t word : bits) any |= word;
  return any != 0;
}

class Eccentricity {
 public:
  Eccentricity(const Topology& t, bool endpoints_forward)
      : endpoints_(t.endpoints()),
        endpoints_forward_(endpoints_forward),
        neighbours_(t),
        seen_(t.vertices().size()),
        now_(seen_),
        next_(seen_) {}

  // The largest distance in links from any of `sources` (at most kSources) to any endpoint; 0 if one of them does not
  // reach all.
  int Of(std::span<const int> sources) {
    for (std::vector<Bits>* bits : {&seen_, &now_, &next_}) std::fill(bits->begin(), bits->end(), Bits{});
    for (size_t i = 0; i < sources.size(); ++i) {
      const size_t v = static_cast<size_t>(sources[i]);
      seen_[v][i / 64] |= uint64_t{1} << (i % 64);
      now_[v] = seen_[v];
    }
    int64_t missing = static_cast<int64_t>(sources.size()) * (endpoints_ - 1);
    int distance = 0;
    for (int step = 1; Spread(step == 1); ++step) {
      if (const int64_t reached = Arrive(); reached > 0) missing -= reached, distance = step;
    }
    return missing == 0 ? distance : 0;
  }

 private:
  // Advances by one step from every vertex that was just reached and forwards; returns whether there was any.
  bool Spread(bool first) {
    bool any = false;
    const int vertices = static_cast<int>(now_.size());
    for (int v = first || endpoints_forward_ ? 0 : endpoints_; v < vertices; ++v) {
      const Bits& from = now_[static_cast<size_t>(v)];
      if (!Any(from)) continue;
      any = true;
      for (int w : neighbours_.Of(v)) {
        Bits& to = next_[static_cast<size_t>(w)];
        for (size_t i = 0; i < kWords; ++i) to[i] |= from[i];
      }
    }
    return any;
  }
  // The newly reached vertices become those just reached; returns how many endpoints are among them.
  int64_t Arrive() {
    int64_t endpoints = 0;
    for (size_t v = 0; v < now_.size(); ++v) {
      for (size_t i = 0; i < kWords; ++i) {
        now_[v][i] = next_[v][i] & ~seen_[v][i];
        seen_[v][i] |= now_[v][i];
        next_[v][i] = 0;
        if (v < static_cast<size_t>(endpoints_)) endpoints += __builtin_popcountll(now_[v][i]);
      }
    }
    return endpoints;
  }

  const int endpoints_;
  const bool endpoints_forward_;
  const Neighbours neighbours_;
  std::vector<Bits> seen_, now_, next_;  // by vertex: the sources that reach it
};

// The vertices of each node that has endpoints, in their order; an endpoint outside of nodes is alone.
std::vector<std::vector<int>> NodesOf(const Topology& t) {
  std::map<int, std::vector<int>> nodes;
  for (int v = 0; v < static_cast<int>(t.vertices().size()); ++v) {
    const int node = t.vertices()[static_cast<size_t>(v)].node;
    if (node >= 0 || v < t.endpoints()) nodes[node >= 0 ? node : -1 - v].push_back(v);
  }
  std::vector<std::vector<int>> found;
  for (auto& [id, vertices] : nodes) {
    if (vertices.front() < t.endpoints()) found.push_back(std::move(vertices));
  }
  return found;
}

// How a node's vertices are joined: to each other, by their places in the node, and to vertices outside.
std::vector<int> Joints(const std::vector<int>& node, const Neighbours& neighbours, int endpoints) {
  const int outside = static_cast<int>(node.size());
  std::vector<int> joints;
  for (const int v : node) {
    const size_t begin = joints.size() + 2;
    const std::span<const int> to = neighbours.Of(v);
    joints.insert(joints.end(), {v < endpoints ? 1 : 0, static_cast<int>(to.size())});
    for (const int w : to) {
      const auto place = std::lower_bound(node.begin(), node.end(), w);
      const bool within = place != node.end() && *place == w;
      joints.push_back(within ? static_cast<int>(place - node.begin()) : outside + w);
    }
    std::sort(joints.begin() + static_cast<std::ptrdiff_t>(begin), joints.end());
  }
  return joints;
}

// How an endpoint is joined. In place of a vertex of the node that only it is joined to, a NIC of its own, stand that
// vertex's joints outside.
std::vector<std::vector<int>> JointsOf(int endpoint, const std::vector<int>& node, const Neighbours& neighbours,
                                       int endpoints) {
  const auto within = [&node](int w) { return std::binary_search(node.begin(), node.end(), w); };
  std::vector<std::vector<int>> joints;
  for (const int v : neighbours.Of(endpoint)) {
    std::vector<int>& joint = joints.emplace_back();
    bool own = within(v) && v >= endpoints;
    for (const int w : neighbours.Of(v)) {
      if (!within(w)) joint.push_back(w);
      own = own && (w == endpoint || !within(w));
    }
    if (!own) joint = {-1, v};  // -1: the vertex itself
    std::sort(joint.begin(), joint.end());
  }
  std::sort(joints.begin(), joints.end());
  return joints;
}

// The endpoints from which distances are computed: of all nodes that are joined alike those of one, and of them, of all
// that are joined alike, one. To exchange two such nodes, or two such endpoints with what is theirs alone, changes no
// distance.
std::vector<int> Sources(const Topology& t) {
  const Neighbours neighbours(t);
  std::set<std::vector<int>> seen;
  std::vector<int> sources;
  for (const std::vector<int>& node : NodesOf(t)) {
    if (!seen.insert(Joints(node, neighbours, t.endpoints())).second) continue;
    std::set<std::vector<std::vector<int>>> seen_here;
    for (const int v : node) {
      if (v < t.endpoints() && seen_here.insert(JointsOf(v, node, neighbours, t.endpoints())).second)
        sources.push_back(v);
    }
  }
  return sources;
}

int Diameter(const Topology& t, bool endpoints_forward) {
  Eccentricity eccentricity(t, endpoints_forward);
  const std::vector<int> sources = Sources(t);
  int diameter = 0;
  for (size_t i = 0; i < sources.size(); i += kSources) {
    const int most = eccentricity.Of(std::span(sources).subspan(i, std::min<size_t>(kSources, sources.size() - i)));
    if (most == 0) return 0;
    diameter = std::max(diameter, most);
  }
  return diameter;
}

BytesPerSecond Bisection(const Topology& t, bool endpoints_forward) {
  const int n = t.endpoints(), half = n / 2, vertices = static_cast<int>(t.vertices().size());
  const int source = vertices, sink = vertices + 1;
  const auto side = [&](int v) { return v < half ? source : v < n && v >= n - half ? sink : v; };
  double all = 0;
  for (const Link& l : t.links()) all += l.bandwidth.value();
  const double unit = std::max(1.0, all / 4e18);  // so that sums fit an int64_t
  MaxFlow flow(vertices + 2);
  for (const Link& l : t.links()) {
    if (l.from < 0 || l.to < 0) continue;
    const int from = side(l.from), to = side(l.to);      // each half is merged into one vertex
    const bool middle = from < n && !endpoints_forward;  // the middle endpoint of an odd number does not forward
    if (middle || from == to || to == source || from == sink) continue;
    flow.AddArc(from, to, std::llround(l.bandwidth.value() / unit));
  }
  return BytesPerSecond(static_cast<double>(flow.Run(source, sink)) * unit);
}

void CountVertices(const Topology& t, Figures& f) {
  for (const Vertex& v : t.vertices()) {
    f.nics += v.kind == Vertex::kNic;
    if (v.kind != Vertex::kSwitch) continue;
    if (v.node >= 0) {
      ++f.node_switches;
      continue;
    }
    f.switches.resize(std::max(f.switches.size(), static_cast<size_t>(v.level) + 1));
    ++f.switches[static_cast<size_t>(v.level)];
  }
}

void CountCables(const Topology& t, Figures& f) {
  const std::vector<Link>& links = t.links();
  f.links = static_cast<int64_t>(links.size());
  for (size_t i = 0; i + 1 < links.size(); ++i) {
    const Link &there = links[i], &back = links[i + 1];
    if (there.from < 0 || there.from != back.to || there.to != back.from || there.from == there.to) continue;
    const int a = t.vertices()[static_cast<size_t>(there.from)].node,
              b = t.vertices()[static_cast<size_t>(there.to)].node;
    ++(a >= 0 && a == b ? f.node_cables : f.cables);
    ++i;
  }
}

std::string Rate(double bytes_per_second) {
  if (bytes_per_second >= 1e12) return absl::StrFormat("%.4g TB/s", bytes_per_second / 1e12);
  return absl::StrFormat("%.4g GB/s", bytes_per_second / 1e9);
}

}  // namespace

Figures FiguresOf(const Topology& t) {
  Figures f;
  f.endpoints = t.endpoints(), f.nodes = t.nodes();
  CountVertices(t, f);
  CountCables(t, f);
  if (t.endpoints() < 2) return f;
  bool endpoints_forward = t.endpoints_forward();
  f.diameter = Diameter(t, endpoints_forward);
  if (f.diameter == 0 && !endpoints_forward) {
    endpoints_forward = true;
    f.diameter = Diameter(t, true);
  }
  if (f.diameter > 0) f.bisection = Bisection(t, endpoints_forward);
  return f;
}

std::string FiguresText(const Topology& t, const Figures& f) {
  std::string text;
  const auto line = [&](std::string_view what, const std::string& value) {
    StrAppend(&text, absl::StrFormat("%-12s%s\n", std::string(what), value));
  };
  line("kind", std::string(t.kind()));
  line("devices", f.nodes == f.endpoints ? StrCat(f.endpoints) : StrCat(f.endpoints, " on ", f.nodes, " nodes"));
  if (f.nics > 0) line("NICs", StrCat(f.nics, ", ", t.rails(), " per node"));
  int switches = 0;
  for (int of_level : f.switches) switches += of_level;
  line("switches", f.switches.size() < 2
                       ? StrCat(switches)
                       : StrCat(switches, " (by level, from the devices up: ", absl::StrJoin(f.switches, ", "), ")"));
  line("cables", StrCat(f.cables));
  if (f.node_switches + f.node_cables > 0) {
    line("in nodes", StrCat(f.node_switches, " switches, ", f.node_cables, " cables"));
  }
  line("links", StrCat(f.links));
  if (f.diameter == 0) return text;
  line("diameter", StrCat(f.diameter, " links"));
  const double bisection = f.bisection.value();
  line("bisection",
       StrCat(Rate(bisection), " each way, ", Rate(bisection / (f.endpoints / 2)), " per device in each half"));
  line("latency", absl::StrFormat("%.4g µs between the first and the last device", t.alpha().value() * 1e6));
  line("bandwidth", StrCat(Rate(t.bandwidth().value()), " between the first and the last device"));
  return text;
}

}  // namespace twofold
