// Draws nodes around a circle, with the cables between them inside it.
#include <algorithm>

#include "core/base/format.h"
#include "core/base/strings.h"
#include "experiments/program/pictures/layout_parts.h"
#include "experiments/program/pictures/topology_layouts.h"

namespace twofold::pictures {

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

}  // namespace twofold::pictures
