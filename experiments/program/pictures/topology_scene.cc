#include "experiments/program/pictures/topology_scene.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <utility>

#include "absl/strings/str_cat.h"
#include "experiments/program/pictures/format.h"

namespace twofold::pictures {
namespace {

// Path data of absolute M, L, C and Q commands: pairs of numbers after letters.
std::string Moved(const std::string& path, double dx, double dy) {
  std::string out;
  bool x = true;
  for (size_t i = 0; i < path.size();) {
    const char c = path[i];
    if ((c >= '0' && c <= '9') || c == '-' || c == '.') {
      char* end = nullptr;
      const double value = std::strtod(path.c_str() + i, &end);
      absl::StrAppend(&out, Px(value + (x ? dx : dy)));
      x = !x;
      i = static_cast<size_t>(end - path.c_str());
    } else {
      out += c;
      ++i;
    }
  }
  return out;
}

}  // namespace

void Scene::SetWidths(size_t comfortable) {
  const auto count = static_cast<double>(std::max(wires.size(), comfortable));
  const double scale = std::max(0.22, std::sqrt(static_cast<double>(comfortable) / count));
  double most = 1;
  for (const Wire& wire : wires) most = std::max(most, wire.bandwidth.value());
  for (Wire& wire : wires) wire.width = std::max(0.5, 5 * scale * wire.bandwidth.value() / most);
}

void Scene::Move(double dx, double dy) {
  for (Box& box : boxes) box.at.x += dx, box.at.y += dy;
  for (Words& word : words) word.at.x += dx, word.at.y += dy;
  for (Wire& wire : wires) wire.path = Moved(wire.path, dx, dy);
}

void Scene::Add(Scene other) {
  width = std::max(width, other.width);
  height = std::max(height, other.height);
  std::move(other.boxes.begin(), other.boxes.end(), std::back_inserter(boxes));
  std::move(other.wires.begin(), other.wires.end(), std::back_inserter(wires));
  std::move(other.words.begin(), other.words.end(), std::back_inserter(words));
  std::move(other.notes.begin(), other.notes.end(), std::back_inserter(notes));
}

std::string Line(Point a, Point b) { return absl::StrCat("M", Px(a.x), " ", Px(a.y), "L", Px(b.x), " ", Px(b.y)); }

std::string Curve(Point a, Point control, Point b) {
  return absl::StrCat("M", Px(a.x), " ", Px(a.y), "Q", Px(control.x), " ", Px(control.y), " ", Px(b.x), " ", Px(b.y));
}

}  // namespace twofold::pictures
