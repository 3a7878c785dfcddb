// Draws groups of switches around a circle: if they are few and small, every switch and cable; else groups as discs,
// the cables of two groups as one line, and one whole group beside them.
#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>
#include <utility>

#include "core/base/format.h"
#include "core/base/strings.h"
#include "experiments/program/pictures/layout_parts.h"
#include "experiments/program/pictures/topology_layouts.h"

namespace twofold::pictures {
namespace {

struct Group {
  std::vector<int> switches;
  int64_t ports = 0;  // cables to nodes
};

std::map<int, Group> GroupsOf(const Contracted& net) {
  std::map<int, Group> groups;
  for (size_t t = static_cast<size_t>(net.nodes); t < net.things.size(); ++t) {
    Group& group = groups[net.things[t].group];
    group.switches.push_back(static_cast<int>(t));
    for (const int b : net.of[t]) {
      if (!net.things[static_cast<size_t>(net.Other(b, static_cast<int>(t)))].is_switch)
        group.ports += net.bundles[static_cast<size_t>(b)].cables;
    }
  }
  return groups;
}

// Draws the switches of one group around `centre`, the cables between them, and a tick for each of their nodes.
void DrawGroup(const Contracted& net, const Group& group, Point centre, double radius, double turn,
               std::map<int, Point>& place, Scene& scene) {
  const size_t n = group.switches.size();
  const double size = std::clamp(2.4 * radius / static_cast<double>(n), 5.0, 15.0);
  for (size_t i = 0; i < n; ++i) {
    const Point at = OnCircle(centre, radius, turn + static_cast<double>(i) / static_cast<double>(n));
    place[group.switches[i]] = at;
    scene.boxes.push_back(BoxOf(net.things[static_cast<size_t>(group.switches[i])], at, size, size, ""));
    std::vector<const Bundle*> down;
    for (const int b : net.of[static_cast<size_t>(group.switches[i])]) {
      if (!net.things[static_cast<size_t>(net.Other(b, group.switches[i]))].is_switch)
        down.push_back(&net.bundles[static_cast<size_t>(b)]);
    }
    if (down.size() > 8) continue;
    for (size_t k = 0; k < down.size(); ++k) {
      const double share = down.size() < 2 ? 0 : static_cast<double>(k) / static_cast<double>(down.size() - 1) - 0.5;
      const double angle = turn + (static_cast<double>(i) + 0.62 * share) / static_cast<double>(n);
      const Point port = OnCircle(centre, radius + 17, angle);
      scene.wires.push_back(WireOf(net, *down[k], Line(at, port)));
      const Thing& node = net.things[static_cast<size_t>(down[k]->a)];
      scene.boxes.push_back(BoxOf(node, port, 6, 6, ""));
    }
  }
  for (size_t i = 0; i < n; ++i) {
    for (size_t k = i + 1; k < n; ++k) {
      const Bundle* bundle = net.Between(group.switches[i], group.switches[k]);
      if (bundle == nullptr) continue;
      scene.wires.push_back(WireOf(net, *bundle, Line(place[group.switches[i]], place[group.switches[k]])));
      scene.wires.back().faint = n > 10;
    }
  }
}

// Draws every switch of every group.
Scene WholeGroups(const Contracted& net, const std::map<int, Group>& groups) {
  const auto n = static_cast<double>(groups.size());
  const double middle = 352, ring = 240;
  const double radius = std::min(62.0, ring * std::sin(std::numbers::pi / std::max(n, 2.0)) - 30);
  const Point centre{kSceneWidth / 2, middle};
  Scene scene{.width = kSceneWidth, .height = 2 * middle};
  std::map<int, Point> place;
  std::vector<Wire> global;
  double turn = 0;
  for (const auto& [key, group] : groups) {
    const Point at = OnCircle(centre, ring, turn / n);
    scene.boxes.push_back({.kind = Box::kPanel, .at = at, .w = 2 * radius + 50, .h = 2 * radius + 50, .round = true});
    DrawGroup(net, group, at, radius, turn / n, place, scene);
    const Point label = OnCircle(centre, ring + radius + 38, turn / n);
    scene.words.push_back({{label.x, label.y + 4}, StrCat(key), "head mid"});
    ++turn;
  }
  for (const Bundle& bundle : net.bundles) {
    const int a = net.things[static_cast<size_t>(bundle.a)].group, b = net.things[static_cast<size_t>(bundle.b)].group;
    if (!net.things[static_cast<size_t>(bundle.a)].is_switch || a == b) continue;
    const Point from = place[bundle.a], to = place[bundle.b];
    global.push_back(WireOf(net, bundle, Curve(from, Between(Between(from, to, 0.5), centre, 0.55), to)));
    global.back().faint = true;
  }
  scene.wires.insert(scene.wires.begin(), global.begin(), global.end());
  return scene;
}

// Of each two groups that are `shown`: all cables between them, as one bundle.
std::map<std::pair<int, int>, Bundle> CablesBetween(const Contracted& net, const std::map<int, Point>& shown) {
  std::map<std::pair<int, int>, Bundle> between;
  for (const Bundle& bundle : net.bundles) {
    const Thing &a = net.things[static_cast<size_t>(bundle.a)], &b = net.things[static_cast<size_t>(bundle.b)];
    if (!a.is_switch || a.group == b.group || !shown.contains(a.group) || !shown.contains(b.group)) continue;
    Bundle& sum =
        between
            .try_emplace(std::minmax(a.group, b.group), Bundle{.a = bundle.a, .b = bundle.b, .medium = bundle.medium})
            .first->second;
    sum.cables += bundle.cables;
    sum.bandwidth += bundle.bandwidth;
    sum.cable = std::max(sum.cable, bundle.cable);
  }
  return between;
}

// Draws those cables, and notes how many they are.
void DrawCables(const Contracted& net, const std::map<int, Point>& centres, Point centre, Scene& scene) {
  const std::map<std::pair<int, int>, Bundle> between = CablesBetween(net, centres);
  if (between.empty()) return;
  int least = between.begin()->second.cables, most = least;
  for (const auto& [pair, bundle] : between) {
    const Point from = centres.at(pair.first), to = centres.at(pair.second);
    Wire wire = WireOf(net, bundle, Curve(from, Between(Between(from, to, 0.5), centre, 0.3), to));
    wire.title = StrCat("groups ", pair.first, " and ", pair.second, ": ", wire.title.substr(wire.title.find(':') + 2));
    wire.faint = between.size() > 60;
    scene.wires.push_back(std::move(wire));
    least = std::min(least, bundle.cables), most = std::max(most, bundle.cables);
  }
  scene.notes.push_back(StrCat("between two groups: all their cables as one line (",
                               least == most ? "" : StrCat(least, " to "), Counted(most, "cable"), ")"));
}

void DrawDisc(int key, const Group& group, Point at, double radius, Scene& scene) {
  scene.boxes.push_back(
      {.kind = Box::kSwitch,
       .at = at,
       .w = 2 * radius,
       .h = 2 * radius,
       .label = StrCat(key),
       .title = StrCat("group ", key, ": ", Counted(static_cast<int64_t>(group.switches.size()), "switch"), ", ",
                       Counted(group.ports, "port"))});
}

// Draws one whole group beside the discs.
void DrawInset(const Contracted& net, int key, const Group& group, Scene& scene) {
  const Point inset{750, 290};
  scene.boxes.push_back({.kind = Box::kPanel, .at = inset, .w = 390, .h = 390});
  std::map<int, Point> place;
  DrawGroup(net, group, inset, 155, 0, place, scene);
  scene.words.push_back({{inset.x, 70},
                         StrCat("group ", key, ": ", Counted(static_cast<int64_t>(group.switches.size()), "switch"),
                                ", ", Counted(group.ports, "port"), " to nodes"),
                         "head mid"});
}

// Draws groups as discs, and one whole group beside them.
Scene DiscsOfGroups(const Contracted& net, const std::map<int, Group>& groups) {
  constexpr size_t kMostDiscs = 28;
  std::vector<int> keys;
  for (const auto& [key, group] : groups) keys.push_back(key);
  const std::vector<int> shown = Spread(keys, kMostDiscs);
  const auto n = static_cast<double>(shown.size());
  const Point centre{270, 290};
  const double ring = 225, radius = std::min(40.0, ring * std::sin(std::numbers::pi / std::max(n, 2.0)) - 5);
  Scene scene{.width = kSceneWidth, .height = 580};
  std::map<int, Point> centres;
  for (size_t i = 0; i < shown.size(); ++i) centres[shown[i]] = OnCircle(centre, ring, static_cast<double>(i) / n);
  DrawCables(net, centres, centre, scene);
  for (const int key : shown) DrawDisc(key, groups.at(key), centres[key], radius, scene);
  scene.words.push_back({{centre.x, 22},
                         shown.size() == keys.size()
                             ? StrCat("the ", Counted(static_cast<int64_t>(keys.size()), "group"))
                             : StrCat(shown.size(), " of ", Counted(static_cast<int64_t>(keys.size()), "group")),
                         "head mid"});
  DrawInset(net, groups.begin()->first, groups.begin()->second, scene);
  if (shown.size() < keys.size()) scene.notes.push_back("groups that are not drawn are joined likewise");
  return scene;
}

}  // namespace

Scene GroupsScene(const Contracted& net) {
  const std::map<int, Group> groups = GroupsOf(net);
  size_t largest = 0, all = 0;
  for (const auto& [key, group] : groups)
    largest = std::max(largest, group.switches.size()), all += group.switches.size();
  return groups.size() <= 12 && largest <= 10 && all <= 100 ? WholeGroups(net, groups) : DiscsOfGroups(net, groups);
}

}  // namespace twofold::pictures
