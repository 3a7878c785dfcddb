// Draws a network by levels: nodes of some groups at the bottom, the switches that they reach, and so on upwards.
#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "core/base/format.h"
#include "core/base/strings.h"
#include "experiments/program/pictures/layout_parts.h"
#include "experiments/program/pictures/topology_layouts.h"

namespace twofold::pictures {
namespace {

constexpr double kRowGap = 118;

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

}  // namespace

Scene LevelsScene(const Contracted& net) { return Levels(net).Draw(); }

}  // namespace twofold::pictures
