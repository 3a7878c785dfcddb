// Draws one node: hosts at the bottom, PCIe switches above them, devices and NICs above those, NVSwitches on top.
// Direct links between devices are arcs.
#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "absl/strings/str_format.h"
#include "core/base/strings.h"
#include "experiments/program/pictures/topology_layouts.h"

namespace twofold::pictures {
namespace {

constexpr double kSlot = 62, kGap = 84;

class Drawing {
 public:
  explicit Drawing(const NodeType& node)
      : graph_(node.graph), next_(graph_.vertices.size()), seen_(graph_.vertices.size()) {
    for (size_t l = 0; l < graph_.links.size(); ++l) {
      next_[static_cast<size_t>(graph_.links[l].from)].push_back(static_cast<int>(l));
    }
  }

  Scene Draw() {
    for (size_t v = 0; v < graph_.vertices.size(); ++v) {
      if (Kind(static_cast<int>(v)) == Vertex::kHost) Descend(static_cast<int>(v), 0);
    }
    for (size_t v = 0; v < graph_.vertices.size(); ++v) {  // vertices connected to no host
      if (!seen_[v] && !Hub(static_cast<int>(v))) Descend(static_cast<int>(v), 0);
    }
    Scene scene;
    Settle();
    scene.width = std::max(kSlot * leaves_, 220.0);
    const double arcs = Arcs(), top = Hubs() ? kGap : arcs;
    for (size_t v = 0; v < graph_.vertices.size(); ++v) {
      if (!Hub(static_cast<int>(v)))
        place_[v] = {column_[v] * kSlot + (scene.width - kSlot * leaves_) / 2, top + 24 + kGap * row_[v]};
    }
    int hub = 0, hubs = 0;
    for (size_t v = 0; v < graph_.vertices.size(); ++v) hubs += Hub(static_cast<int>(v));
    for (size_t v = 0; v < graph_.vertices.size(); ++v) {
      if (Hub(static_cast<int>(v))) place_[v] = {scene.width * (hub++ + 0.5) / hubs, 16};
    }
    scene.height = top + 48 + kGap * rows_;
    Wires(scene, hubs);
    Boxes(scene, hubs);
    return scene;
  }

 private:
  const Vertex& At(int v) const { return graph_.vertices[static_cast<size_t>(v)]; }
  Vertex::Kind Kind(int v) const { return At(v).kind; }
  // A switch with NVLinks only.
  bool Hub(int v) const {
    const auto& links = next_[static_cast<size_t>(v)];
    return Kind(v) == Vertex::kSwitch && !links.empty() && std::all_of(links.begin(), links.end(), [&](int l) {
             return graph_.links[static_cast<size_t>(l)].medium == Medium::kNvlink ||
                    graph_.links[static_cast<size_t>(l)].medium == Medium::kNetwork;
           });
  }
  bool Hubs() const {
    for (size_t v = 0; v < next_.size(); ++v) {
      if (Hub(static_cast<int>(v))) return true;
    }
    return false;
  }

  // Assigns columns to the subtree of `v`, in the order of its cables; hosts and hubs are not entered.
  double Descend(int v, int depth) {
    seen_[static_cast<size_t>(v)] = true;
    depth_[static_cast<size_t>(v)] = depth;
    double sum = 0;
    int below = 0;
    for (const int l : next_[static_cast<size_t>(v)]) {
      const int to = graph_.links[static_cast<size_t>(l)].to;
      if (seen_[static_cast<size_t>(to)] || Kind(to) == Vertex::kHost || Hub(to)) continue;
      // a device's subtree contains its NICs only
      if (Kind(v) == Vertex::kDevice && Kind(to) != Vertex::kNic) continue;
      if (Kind(v) == Vertex::kNic) continue;
      const double c = Descend(to, depth + 1);
      sum += c;
      ++below;
    }
    const double column = below > 0 ? sum / below : leaves_ + 0.5;
    if (below == 0) ++leaves_;
    return column_[static_cast<size_t>(v)] = column;
  }

  // Rows from the top: devices and NICs, then switches by their depth, then hosts. NICs attached to devices are below
  // them.
  void Settle() {
    int deepest = 0, shallowest = 1 << 20;
    for (size_t v = 0; v < next_.size(); ++v) {
      if (Kind(static_cast<int>(v)) == Vertex::kSwitch && !Hub(static_cast<int>(v))) {
        deepest = std::max(deepest, depth_[v]);
        shallowest = std::min(shallowest, depth_[v]);
      }
    }
    for (size_t v = 0; v < next_.size(); ++v) {
      const Vertex::Kind kind = Kind(static_cast<int>(v));
      int row = 0;
      if (kind == Vertex::kSwitch && !Hub(static_cast<int>(v))) row = 1 + deepest - depth_[v];
      if (kind == Vertex::kHost) row = 1 + (deepest == 0 && shallowest > deepest ? 0 : deepest - shallowest + 1);
      if (kind == Vertex::kNic && OnDevice(static_cast<int>(v))) row = 1;
      row_[v] = row;
      rows_ = std::max(rows_, row);
    }
  }
  bool OnDevice(int nic) const {
    const auto& links = next_[static_cast<size_t>(nic)];
    return !links.empty() && std::all_of(links.begin(), links.end(), [&](int l) {
      return Kind(graph_.links[static_cast<size_t>(l)].to) == Vertex::kDevice;
    });
  }

  bool Arc(const Link& link) const { return Kind(link.from) == Vertex::kDevice && Kind(link.to) == Vertex::kDevice; }
  double Height(const Link& link) const {
    return 14 + 13 * std::abs(column_.at(static_cast<size_t>(link.from)) - column_.at(static_cast<size_t>(link.to)));
  }
  double Arcs() const {  // their height
    double highest = 0;
    for (const Link& link : graph_.links) {
      if (Arc(link)) highest = std::max(highest, Height(link));
    }
    return highest;
  }

  void Wires(Scene& scene, int hubs) const {
    for (const Link& link : graph_.links) {
      if (link.from > link.to) continue;
      const Point a = place_.at(static_cast<size_t>(link.from)), b = place_.at(static_cast<size_t>(link.to));
      Wire wire{.medium = link.medium,
                .bandwidth = link.bandwidth,
                .title = StrCat(At(link.from).name, " - ", At(link.to).name, ": ",
                                absl::StrFormat("%.4g", link.bandwidth.value() / 1e9), " GB/s each way")};
      if (Arc(link)) {  // a flat curve reaches three quarters of the height of its control points
        const double up = Height(link) / 0.75;
        wire.path = StrCat("M", a.x, " ", a.y - 12, "C", a.x, " ", a.y - 12 - up, " ", b.x, " ", b.y - 12 - up, " ",
                           b.x, " ", b.y - 12);
      } else if (hubs == 1 && (Hub(link.from) || Hub(link.to))) {  // straight up into the wide switch
        const Point device = Hub(link.from) ? b : a;
        wire.path = Line(device, {device.x, 16});
      } else if (Kind(link.from) == Vertex::kHost && Kind(link.to) == Vertex::kHost) {
        wire.path = Curve(a, {(a.x + b.x) / 2, a.y + 0.09 * std::abs(b.x - a.x)}, b);
      } else {
        wire.path = Line(a, b);
      }
      scene.wires.push_back(std::move(wire));
    }
  }

  void Boxes(Scene& scene, int hubs) const {
    static constexpr Box::Kind kKinds[] = {Box::kDevice, Box::kNic, Box::kHost, Box::kSwitch};  // by Vertex::Kind
    for (size_t v = 0; v < next_.size(); ++v) {
      const Vertex& vertex = graph_.vertices[v];
      std::string label = vertex.name;
      if (label.starts_with("nic ")) label = label.substr(4);
      if (label.starts_with("pci 0000:")) label = StrCat("pci ", label.substr(9, 2));
      const bool wide = Hub(static_cast<int>(v)) && hubs == 1;
      const double width = wide ? scene.width - 8 : std::max(46.0, 7.0 * static_cast<double>(label.size()) + 8);
      scene.boxes.push_back({.kind = kKinds[vertex.kind],
                             .at = place_.at(v),
                             .w = std::min(width, wide ? width : kSlot + 6),
                             .h = 24,
                             .label = label,
                             .title = vertex.name});
    }
  }

  const Graph& graph_;
  std::vector<std::vector<int>> next_;  // links, by vertex
  std::vector<bool> seen_;
  std::map<size_t, double> column_;
  std::map<size_t, int> depth_, row_;
  std::map<size_t, Point> place_;
  int leaves_ = 0, rows_ = 0;
};

}  // namespace

Scene NodeScene(const NodeType& node) { return Drawing(node).Draw(); }

}  // namespace twofold::pictures
