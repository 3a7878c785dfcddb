#include "experiments/program/pictures/layout_parts.h"

#include <cmath>
#include <numbers>
#include <utility>

#include "absl/strings/str_format.h"
#include "core/base/format.h"
#include "core/base/strings.h"

namespace twofold::pictures {
namespace {

std::string TitleOf(const Thing& thing) {
  if (thing.is_switch) return thing.group >= 0 ? StrCat(thing.name, ", group ", thing.group) : thing.name;
  if (thing.named) return thing.name;
  return StrCat(thing.name, ": ", Counted(thing.devices, "device"),
                thing.nics > 0 ? StrCat(", ", Counted(thing.nics, "NIC")) : "");
}

}  // namespace

Point OnCircle(Point centre, double radius, double turns) {
  const double angle = 2 * std::numbers::pi * (turns - 0.25);
  return {centre.x + radius * std::cos(angle), centre.y + radius * std::sin(angle)};
}
Point Between(Point a, Point b, double share) { return {a.x + (b.x - a.x) * share, a.y + (b.y - a.y) * share}; }

std::vector<int> Spread(const std::vector<int>& from, size_t most) {
  if (from.size() <= most) return from;
  std::vector<int> some;
  for (size_t i = 0; i < most; ++i) some.push_back(from[i * from.size() / most]);
  return some;
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

Wire WireOf(const Contracted& net, const Bundle& bundle, std::string path) {
  const auto name = [&](int t) { return net.things[static_cast<size_t>(t)].name; };
  std::string title = StrCat(name(bundle.a), " - ", name(bundle.b), ": ",
                             absl::StrFormat("%.4g", bundle.bandwidth.value() / 1e9), " GB/s each way");
  if (bundle.cables > 1) StrAppend(&title, ", ", bundle.cables, " cables");
  return {.path = std::move(path), .medium = bundle.medium, .bandwidth = bundle.bandwidth, .title = std::move(title)};
}

}  // namespace twofold::pictures
