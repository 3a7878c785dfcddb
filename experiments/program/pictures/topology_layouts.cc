#include "experiments/program/pictures/topology_layouts.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>
#include <set>
#include <utility>

#include "absl/strings/str_format.h"
#include "core/base/format.h"
#include "core/base/strings.h"

namespace twofold::pictures {
namespace {

constexpr double kRowGap = 118;

Point OnCircle(Point centre, double radius, double turns) {  // turns count from the top, clockwise
  const double angle = 2 * std::numbers::pi * (turns - 0.25);
  return {centre.x + radius * std::cos(angle), centre.y + radius * std::sin(angle)};
}
Point Between(Point a, Point b, double share) { return {a.x + (b.x - a.x) * share, a.y + (b.y - a.y) * share}; }

// `most` elements of `from`, evenly spaced, including the first.
std::vector<int> Spread(const std::vector<int>& from, size_t most) {
  if (from.size() <= most) return from;
  std::vector<int> some;
  for (size_t i = 0; i < most; ++i) some.push_back(from[i * from.size() / most]);
  return some;
}

std::string TitleOf(const Thing& thing) {
  if (thing.is_switch) return thing.group >= 0 ? StrCat(thing.name, ", group ", thing.group) : thing.name;
  if (thing.named) return thing.name;
  return StrCat(thing.name, ": ", Counted(thing.devices, "device"),
                thing.nics > 0 ? StrCat(", ", Counted(thing.nics, "NIC")) : "");
}

Box BoxOf(const Thing& thing, Point at, double w, double h, std::string label) {
  return {.kind = thing.is_switch ? Box::kSwitch
                  : thing.named   ? Box::kDevice
                                  : Box::kNode,
          .at = at,
          .w = w,
          .h = h,
          .label = std::move(label),
          .title = TitleOf(thing)};
}

// ---- levels ----

// The content of a picture of levels: nodes of some groups, the switches that they reach, and so on upwards.
class Levels {
 public:
  explicit Levels(const Contracted& net) : net_(net) {
    for (const Thing& t : net.things) {
      if (t.is_switch) top_ = std::max(top_, t.level);
    }
    totals_.resize(static_cast<size_t>(top_) + 1);
    for (const Thing& t : net.things) {
      if (t.is_switch) ++totals_[static_cast<size_t>(t.level)];
    }
  }

  Scene Draw() {
    Choose();
    Scene scene{.width = kSceneWidth, .height = kRowGap * (top_ + 1) + 80};
    const double left = 118, right = kSceneWidth - 8;
    Panels(scene, left, right);
    for (int level = top_; level >= -1; --level) Row(scene, level, left, right);
    for (const Bundle& bundle : net_.bundles) {
      const auto a = place_.find(bundle.a), b = place_.find(bundle.b);
      if (a != place_.end() && b != place_.end())
        scene.wires.push_back(WireOf(net_, bundle, Line(a->second, b->second)));
    }
    return scene;
  }

 private:
  static constexpr size_t kMostNodes = 24, kMostInARow = 16, kMostCables = 140;
  const Thing& At(int t) const { return net_.things[static_cast<size_t>(t)]; }

  // Chooses as many nodes of a few groups as fit into readable rows.
  void Choose() {
    std::map<int, std::vector<int>> groups;  // nodes, by group
    for (int n = 0; n < net_.nodes; ++n) groups[At(n).group].push_back(n);
    std::vector<int> keys;
    for (const auto& [key, list] : groups) keys.push_back(key);
    for (const size_t each :
         {kMostNodes, size_t{16}, size_t{8}, size_t{6}, size_t{4}, size_t{3}, size_t{2}, size_t{1}}) {
      for (size_t most_groups = std::min<size_t>(4, keys.size());
           most_groups >= std::min<size_t>(2, keys.size()) && most_groups > 0; --most_groups) {
        bands_ = Spread(keys, most_groups);
        rows_.assign(static_cast<size_t>(top_) + 2, {});
        for (const int key : bands_) {
          const std::vector<int> some = Spread(groups[key], each);
          rows_[0].insert(rows_[0].end(), some.begin(), some.end());
        }
        Climb();
        if (rows_[0].size() <= kMostNodes && (rows_.size() < 2 || rows_[1].size() <= kMostInARow)) return;
      }
    }
  }

  // Adds the switches that the row below reaches; above the first level, no more than keep the cables apart.
  void Climb() {
    for (size_t row = 1; row < rows_.size(); ++row) {
      std::set<int> above;
      size_t cables = 0;
      for (const int t : rows_[row - 1]) {
        for (const int b : net_.of[static_cast<size_t>(t)]) {
          const int other = net_.Other(b, t);
          if (!At(other).is_switch || At(other).level != static_cast<int>(row) - 1) continue;
          above.insert(other);
          ++cables;
        }
      }
      rows_[row] = {above.begin(), above.end()};
      if (row == 1 || above.empty()) continue;
      const size_t room = std::max<size_t>(4, kMostCables * above.size() / std::max<size_t>(cables, 1));
      rows_[row] = Spread(rows_[row], std::min(kMostInARow, room));
    }
  }

  size_t BandOf(int t) const {
    return static_cast<size_t>(std::find(bands_.begin(), bands_.end(), At(t).group) - bands_.begin());
  }

  std::pair<double, double> BandRange(size_t band, double left, double right) const {
    const double width = (right - left) / static_cast<double>(bands_.size());
    return {left + width * static_cast<double>(band) + 6, left + width * static_cast<double>(band + 1) - 6};
  }

  void Panels(Scene& scene, double left, double right) {
    if (bands_.size() < 2) return;
    int highest = -1;
    for (int level = 0; level <= top_; ++level) {
      for (const int t : rows_[static_cast<size_t>(level) + 1]) {
        if (BandOf(t) < bands_.size()) highest = level;
      }
    }
    const double top = kRowGap * (top_ - highest) + 10, bottom = kRowGap * (top_ + 1) + 76;
    for (size_t band = 0; band < bands_.size(); ++band) {
      const auto [from, to] = BandRange(band, left, right);
      scene.boxes.push_back(
          {.kind = Box::kPanel, .at = {(from + to) / 2, (top + bottom) / 2}, .w = to - from, .h = bottom - top});
      scene.words.push_back({{(from + to) / 2, bottom - 5}, StrCat("group ", bands_[band]), "soft mid"});
    }
  }

  void Row(Scene& scene, int level, double left, double right) {
    const std::vector<int>& row = rows_[static_cast<size_t>(level + 1)];
    const double y = kRowGap * (top_ - level) + 40;
    std::map<size_t, std::vector<int>> by_band;
    for (const int t : row) by_band[bands_.size() < 2 ? bands_.size() : BandOf(t)].push_back(t);
    bool names = true;
    for (const auto& [band, list] : by_band) {
      const auto [from, to] = band < bands_.size() ? BandRange(band, left, right) : std::pair(left, right);
      for (const int t : list)
        names =
            names && (to - from) / static_cast<double>(list.size()) > 7.2 * static_cast<double>(At(t).name.size()) + 12;
    }
    for (const auto& [band, list] : by_band) {
      const auto [from, to] = band < bands_.size() ? BandRange(band, left, right) : std::pair(left, right);
      for (size_t i = 0; i < list.size(); ++i) {
        const double slot = (to - from) / static_cast<double>(list.size());
        const Point at{from + slot * (static_cast<double>(i) + 0.5), y};
        place_[list[i]] = at;
        scene.boxes.push_back(BoxOf(At(list[i]), at, std::min(slot - 6, level < 0 ? 56.0 : 64.0), level < 0 ? 24 : 20,
                                    LabelOf(list[i], names)));
      }
    }
    const int64_t total = level < 0 ? net_.nodes : totals_[static_cast<size_t>(level)];
    const std::string what = level < 0 ? (net_.nodes > 0 && At(0).named ? "endpoint" : "node") : "switch";
    const std::string shown = static_cast<int64_t>(row.size()) == total
                                  ? Counted(total, what)
                                  : StrCat(row.size(), " of ", Counted(total, what));
    scene.words.push_back({{0, y - 1}, level < 0 ? "" : top_ == 0 ? "" : StrCat("level ", level), "soft"});
    scene.words.push_back({{0, level < 0 || top_ == 0 ? y + 4 : y + 14}, shown, "soft"});
    if (static_cast<int64_t>(row.size()) < total) cut_ = true;
    if (level < 0 && cut_) scene.notes.push_back("a part is drawn: cables to what is not drawn are left out");
  }

  // The name if all names have room, else the part after its leading letters.
  std::string LabelOf(int t, bool names) const {
    const std::string& name = At(t).name;
    if (names) return name;
    if (!At(t).is_switch) return StrCat(At(t).number);
    const size_t digit = name.find_first_of("0123456789");
    return digit == std::string::npos ? name : name.substr(digit);
  }

  const Contracted& net_;
  int top_ = 0;
  std::vector<int64_t> totals_;
  std::vector<int> bands_;              // groups that are drawn
  std::vector<std::vector<int>> rows_;  // nodes, then switches by level
  std::map<int, Point> place_;
  bool cut_ = false;
};

// ---- groups ----

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
  std::map<int, Point> place, centres;
  std::vector<Wire> global;
  double turn = 0;
  for (const auto& [key, group] : groups) {
    const Point at = OnCircle(centre, ring, turn / n);
    centres[key] = at;
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
  std::map<std::pair<int, int>, Bundle> between;
  for (const Bundle& bundle : net.bundles) {
    const Thing &a = net.things[static_cast<size_t>(bundle.a)], &b = net.things[static_cast<size_t>(bundle.b)];
    if (!a.is_switch || a.group == b.group || !centres.contains(a.group) || !centres.contains(b.group)) continue;
    Bundle& sum =
        between
            .try_emplace(std::minmax(a.group, b.group), Bundle{.a = bundle.a, .b = bundle.b, .medium = bundle.medium})
            .first->second;
    sum.cables += bundle.cables;
    sum.bandwidth += bundle.bandwidth;
    sum.cable = std::max(sum.cable, bundle.cable);
  }
  for (const auto& [pair, bundle] : between) {
    const Point from = centres[pair.first], to = centres[pair.second];
    Wire wire = WireOf(net, bundle, Curve(from, Between(Between(from, to, 0.5), centre, 0.3), to));
    wire.title = StrCat("groups ", pair.first, " and ", pair.second, ": ", wire.title.substr(wire.title.find(':') + 2));
    wire.faint = between.size() > 60;
    scene.wires.push_back(std::move(wire));
  }
  for (const int key : shown) {
    const Group& group = groups.at(key);
    scene.boxes.push_back(
        {.kind = Box::kSwitch,
         .at = centres[key],
         .w = 2 * radius,
         .h = 2 * radius,
         .label = StrCat(key),
         .title = StrCat("group ", key, ": ", Counted(static_cast<int64_t>(group.switches.size()), "switch"), ", ",
                         Counted(group.ports, "port"))});
  }
  int least = between.empty() ? 0 : between.begin()->second.cables, most = least;
  for (const auto& [pair, bundle] : between)
    least = std::min(least, bundle.cables), most = std::max(most, bundle.cables);
  const Group& first = groups.begin()->second;
  const Point inset{750, 290};
  scene.boxes.push_back({.kind = Box::kPanel, .at = inset, .w = 390, .h = 390});
  std::map<int, Point> place;
  DrawGroup(net, first, inset, 155, 0, place, scene);
  scene.words.push_back({{centre.x, 22},
                         shown.size() == keys.size()
                             ? StrCat("the ", Counted(static_cast<int64_t>(keys.size()), "group"))
                             : StrCat(shown.size(), " of ", Counted(static_cast<int64_t>(keys.size()), "group")),
                         "head mid"});
  scene.words.push_back(
      {{inset.x, 70},
       StrCat("group ", groups.begin()->first, ": ", Counted(static_cast<int64_t>(first.switches.size()), "switch"),
              ", ", Counted(first.ports, "port"), " to nodes"),
       "head mid"});
  if (!between.empty())
    scene.notes.push_back(StrCat("between two groups: all their cables as one line (",
                                 least == most ? "" : StrCat(least, " to "), Counted(most, "cable"), ")"));
  if (shown.size() < keys.size()) scene.notes.push_back("groups that are not drawn are joined likewise");
  return scene;
}

}  // namespace

Wire WireOf(const Contracted& net, const Bundle& bundle, std::string path) {
  const auto name = [&](int t) { return net.things[static_cast<size_t>(t)].name; };
  std::string title = StrCat(name(bundle.a), " - ", name(bundle.b), ": ",
                             absl::StrFormat("%.4g", bundle.bandwidth.value() / 1e9), " GB/s each way");
  if (bundle.cables > 1) StrAppend(&title, ", ", bundle.cables, " cables");
  return {.path = std::move(path), .medium = bundle.medium, .bandwidth = bundle.bandwidth, .title = std::move(title)};
}

Scene LevelsScene(const Contracted& net) { return Levels(net).Draw(); }

Scene GroupsScene(const Contracted& net) {
  const std::map<int, Group> groups = GroupsOf(net);
  size_t largest = 0, all = 0;
  for (const auto& [key, group] : groups)
    largest = std::max(largest, group.switches.size()), all += group.switches.size();
  return groups.size() <= 12 && largest <= 10 && all <= 100 ? WholeGroups(net, groups) : DiscsOfGroups(net, groups);
}

Scene CircleScene(const Contracted& net) {
  constexpr int kMost = 32;
  const int shown = std::min(net.nodes, kMost);
  const Point centre{kSceneWidth / 2, 250};
  Scene scene{.width = kSceneWidth, .height = 500};
  const auto at = [&](int i) { return OnCircle(centre, 215, static_cast<double>(i) / shown); };
  for (const Bundle& bundle : net.bundles) {
    if (bundle.a >= shown || bundle.b >= shown) continue;
    scene.wires.push_back(WireOf(net, bundle, Line(at(bundle.a), at(bundle.b))));
    scene.wires.back().faint = shown > 12;
  }
  for (int i = 0; i < shown; ++i) {
    const Thing& thing = net.things[static_cast<size_t>(i)];
    scene.boxes.push_back(BoxOf(thing, at(i), shown > 16 ? 26 : 50, 22, shown > 16 ? StrCat(i) : thing.name));
  }
  if (shown < net.nodes) scene.notes.push_back(StrCat(shown, " of ", Counted(net.nodes, "node"), " are drawn"));
  return scene;
}

Scene GridScene(const Contracted& net, const std::vector<int>& dims, bool wrap) {
  const auto dim = [&](size_t d) { return d < dims.size() ? dims[d] : 1; };
  const bool flat = dims.size() < 3;
  const int most = flat ? 10 : 6;
  const int nx = std::min(dim(0), most), ny = std::min(dim(1), most), nz = std::min(dim(2), 4);
  const double slice = flat ? 560 : (kSceneWidth - 10) / nz,
               step = std::min(flat ? 58.0 : 50.0, (slice - 70) / std::max(nx - 1, 1));
  const double high = step * (ny - 1) + (flat ? 90 : 120);
  Scene scene{.width = kSceneWidth, .height = high};
  const double left = flat ? (kSceneWidth - step * (nx - 1)) / 2 : 36;
  const auto place = [&](int x, int y, int z) {
    return Point{left + slice * z + step * x, (flat ? 45 : 75) + step * y};
  };
  const auto number = [&](int x, int y, int z) { return x + dim(0) * (y + dim(1) * z); };
  const auto join = [&](int a, int b, const std::string& path) {
    if (const Bundle* bundle = net.Between(std::min(a, b), std::max(a, b)); bundle != nullptr)
      scene.wires.push_back(WireOf(net, *bundle, path));
  };
  for (int z = 0; z < nz; ++z) {
    for (int y = 0; y < ny; ++y) {
      for (int x = 0; x < nx; ++x) {
        const Point at = place(x, y, z);
        if (x + 1 < nx) join(number(x, y, z), number(x + 1, y, z), Line(at, place(x + 1, y, z)));
        if (y + 1 < ny) join(number(x, y, z), number(x, y + 1, z), Line(at, place(x, y + 1, z)));
        if (y == 0 && z + 1 < nz)
          join(number(x, y, z), number(x, y, z + 1),
               Curve(at, {(at.x + place(x, y, z + 1).x) / 2, at.y - 62}, place(x, y, z + 1)));
      }
    }
    for (int y = 0; y < ny && wrap && dim(0) > 2; ++y) {  // the wrap-around link; a stub if the row is cut off
      const Point a = place(0, y, z), b = place(nx - 1, y, z);
      if (nx == dim(0)) {
        join(
            number(0, y, z), number(nx - 1, y, z),
            StrCat("M", a.x, " ", a.y, "C", a.x - 30, " ", a.y - 24, " ", b.x + 30, " ", b.y - 24, " ", b.x, " ", b.y));
      } else {
        join(number(nx - 1, y, z), number(nx, y, z), Line(b, {b.x + 26, b.y}));
        join(number(0, y, z), number(dim(0) - 1, y, z), Line(a, {a.x - 26, a.y}));
      }
    }
    for (int x = 0; x < nx && wrap && dim(1) > 2; ++x) {
      const Point a = place(x, 0, z), b = place(x, ny - 1, z);
      if (ny == dim(1)) {
        join(
            number(x, 0, z), number(x, ny - 1, z),
            StrCat("M", a.x, " ", a.y, "C", a.x + 24, " ", a.y - 30, " ", b.x + 24, " ", b.y + 30, " ", b.x, " ", b.y));
      } else {
        join(number(x, ny - 1, z), number(x, ny, z), Line(b, {b.x, b.y + 26}));
        join(number(x, 0, z), number(x, dim(1) - 1, z), Line(a, {a.x, a.y - 26}));
      }
    }
    for (int y = 0; y < ny; ++y) {
      for (int x = 0; x < nx; ++x) {
        const int n = number(x, y, z);
        scene.boxes.push_back(BoxOf(net.things[static_cast<size_t>(n)], place(x, y, z), step * 0.55, step * 0.42,
                                    step > 40 || n < 100 ? StrCat(n) : ""));
      }
    }
    if (!flat)
      scene.words.push_back({{place(0, 0, z).x + step * (nx - 1) / 2, high - 8},
                             StrCat("slice ", z, " of the third dimension"),
                             "soft mid"});
  }
  if (nx < dim(0) || ny < dim(1))
    scene.notes.push_back(
        StrCat(nx, " of ", dim(0), " by ", ny, " of ", dim(1), " places are drawn; stubs lead to the others"));
  if (!flat) {
    scene.notes.push_back(
        StrCat(nz < dim(2) ? StrCat(nz, " of ", dim(2), " slices are drawn; ") : "",
               "every place is joined to the same place of the slices before and after (drawn for the top row)",
               wrap && dim(2) > 2 ? ", the last slice to the first" : ""));
  }
  if (dims.size() > 3)
    scene.notes.push_back(
        StrCat("the other ", Counted(static_cast<int64_t>(dims.size()) - 3, "dimension"), " are not drawn"));
  return scene;
}

Scene BoardsScene(const Contracted& net, int a, int b, int x, int y) {
  const int nx = std::min(x, std::max(2, 8 / a)), ny = std::min(y, std::max(2, 6 / b));
  const double step = a * nx > 12 ? 44 : 54, board_w = step * a + 24, board_h = step * b + 24, left = 30, top = 14;
  const double row_x = left + board_w * nx + 40, column_y = top + board_h * ny + 34;
  Scene scene{.width = row_x + 60, .height = column_y + 30};
  const auto port = [&](int bx, int by, int i, int j) { return (bx + x * by) * a * b + i + a * j; };
  const auto place = [&](int bx, int by, int i, int j) {
    return Point{left + board_w * bx + 11 + step * (i + 0.5), top + board_h * by + 11 + step * (j + 0.5)};
  };
  const auto first_switch = [&](int port, int mate) {  // the switch connected to both ports
    for (const int m : net.of[static_cast<size_t>(port)]) {
      const int s = net.Other(m, port);
      if (net.things[static_cast<size_t>(s)].is_switch && (port == mate || net.Between(mate, s) != nullptr)) return s;
    }
    return -1;
  };
  std::set<int> drawn;
  const auto add_switch = [&](int s, Point at) {
    if (s >= 0 && drawn.insert(s).second)
      scene.boxes.push_back(
          BoxOf(net.things[static_cast<size_t>(s)], at, 52, 22, net.things[static_cast<size_t>(s)].name));
  };
  for (int by = 0; by < ny; ++by) {
    for (int bx = 0; bx < nx; ++bx) {
      scene.boxes.push_back({.kind = Box::kPanel,
                             .at = {left + board_w * (bx + 0.5), top + board_h * (by + 0.5)},
                             .w = board_w - 10,
                             .h = board_h - 10});
      for (int j = 0; j < b; ++j) {
        for (int i = 0; i < a; ++i) {
          const int p = port(bx, by, i, j);
          if (i + 1 < a)
            scene.wires.push_back(
                WireOf(net, *net.Between(p, p + 1), Line(place(bx, by, i, j), place(bx, by, i + 1, j))));
          if (j + 1 < b)
            scene.wires.push_back(
                WireOf(net, *net.Between(p, p + a), Line(place(bx, by, i, j), place(bx, by, i, j + 1))));
        }
      }
    }
  }
  // Rows and columns: a lane beside the accelerators, which the edges of every board lead into.
  const auto lane = [&](int from, int s, Point at, Point corner, Point end) {
    const Bundle* bundle = s < 0 ? nullptr : net.Between(std::min(from, s), std::max(from, s));
    if (bundle == nullptr) return;
    Wire wire = WireOf(net, *bundle, StrCat(Line(at, corner), "L", end.x, " ", end.y));
    wire.bandwidth = bundle->cable;
    scene.wires.push_back(std::move(wire));
  };
  for (int by = 0; by < ny; ++by) {
    for (int j = 0; j < b; ++j) {
      const int s = first_switch(port(0, by, 0, j), x > 1 ? port(1, by, 0, j) : port(0, by, a - 1, j));
      const double y_lane = place(0, by, 0, j).y + step * 0.44;
      for (int bx = 0; bx < nx; ++bx) {
        for (const int i : a == 1 ? std::vector<int>{0} : std::vector<int>{0, a - 1}) {
          const Point at = place(bx, by, i, j);
          lane(port(bx, by, i, j), s, at, {at.x + (i == 0 ? -7.0 : 7.0), y_lane}, {row_x, y_lane});
        }
      }
      add_switch(s, {row_x + 20, y_lane});
    }
  }
  for (int bx = 0; bx < nx; ++bx) {
    for (int i = 0; i < a; ++i) {
      const int s = first_switch(port(bx, 0, i, 0), y > 1 ? port(bx, 1, i, 0) : port(bx, 0, i, b - 1));
      const double x_lane = place(bx, 0, i, 0).x + step * 0.46;
      for (int by = 0; by < ny; ++by) {
        for (const int j : b == 1 ? std::vector<int>{0} : std::vector<int>{0, b - 1}) {
          const Point at = place(bx, by, i, j);
          lane(port(bx, by, i, j), s, at, {x_lane, at.y + (j == 0 ? -5.0 : 5.0)}, {x_lane, column_y});
        }
      }
      if (s >= 0 && drawn.insert(s).second) {
        scene.boxes.push_back(BoxOf(net.things[static_cast<size_t>(s)], {x_lane, column_y + 8}, step - 6, 20,
                                    net.things[static_cast<size_t>(s)].name));
      }
    }
  }
  for (int by = 0; by < ny; ++by) {
    for (int bx = 0; bx < nx; ++bx) {
      for (int j = 0; j < b; ++j) {
        for (int i = 0; i < a; ++i) {
          const int p = port(bx, by, i, j);
          scene.boxes.push_back(
              BoxOf(net.things[static_cast<size_t>(p)], place(bx, by, i, j), 27, 20, p < 1000 ? StrCat(p) : ""));
        }
      }
    }
  }
  scene.notes.push_back(
      "both edges of every board lead into the lane of their row and of their column, a cable each, and so to its "
      "switch");
  if (nx < x || ny < y)
    scene.notes.push_back(
        StrCat(nx, " of ", x, " by ", ny, " of ", y, " boards are drawn; the others hang on the same switches"));
  return scene;
}

}  // namespace twofold::pictures
