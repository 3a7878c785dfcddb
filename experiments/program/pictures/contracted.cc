#include "experiments/program/pictures/contracted.h"

#include <algorithm>
#include <map>
#include <utility>

#include "core/base/strings.h"

namespace twofold::pictures {

int Contracted::Other(int bundle, int thing) const {
  const Bundle& b = bundles[static_cast<size_t>(bundle)];
  return b.a == thing ? b.b : b.a;
}

const Bundle* Contracted::Between(int a, int b) const {
  for (const int bundle : of[static_cast<size_t>(a)]) {
    if (Other(bundle, a) == b) return &bundles[static_cast<size_t>(bundle)];
  }
  return nullptr;
}

Contracted Contract(const Topology& topology) {
  Contracted c;
  std::vector<int> thing_of(topology.vertices().size(), -1);
  std::map<int, int> node_of;
  for (size_t v = 0; v < thing_of.size(); ++v) {
    const Vertex& vertex = topology.vertices()[v];
    if (vertex.node < 0) continue;
    const auto [at, added] = node_of.try_emplace(vertex.node, static_cast<int>(c.things.size()));
    if (added)
      c.things.push_back(
          {.name = vertex.name, .group = vertex.group, .number = static_cast<int>(c.things.size()), .named = true});
    Thing& node = c.things[static_cast<size_t>(at->second)];
    if (!added) node.named = false, node.name = StrCat("node ", vertex.node);
    node.devices += vertex.kind == Vertex::kDevice;
    node.nics += vertex.kind == Vertex::kNic;
    thing_of[v] = at->second;
  }
  c.nodes = static_cast<int>(c.things.size());
  for (size_t v = 0; v < thing_of.size(); ++v) {
    const Vertex& vertex = topology.vertices()[v];
    if (vertex.node >= 0) continue;
    thing_of[v] = static_cast<int>(c.things.size());
    c.things.push_back({.is_switch = true,
                        .name = vertex.name,
                        .group = vertex.group,
                        .level = vertex.level,
                        .number = thing_of[v] - c.nodes});
  }
  std::map<std::pair<int, int>, size_t> index;
  for (const Link& link : topology.links()) {
    if (link.from < 0 || link.to < 0) continue;
    const int a = thing_of[static_cast<size_t>(link.from)], b = thing_of[static_cast<size_t>(link.to)];
    if (a >= b) continue;  // inside a node, or the opposite direction
    const auto [at, added] = index.try_emplace({a, b}, c.bundles.size());
    if (added) c.bundles.push_back({.a = a, .b = b, .medium = link.medium});
    Bundle& bundle = c.bundles[at->second];
    ++bundle.cables;
    bundle.bandwidth += link.bandwidth;
    bundle.cable = std::max(bundle.cable, link.bandwidth);
  }
  c.of.resize(c.things.size());
  for (size_t i = 0; i < c.bundles.size(); ++i) {
    c.of[static_cast<size_t>(c.bundles[i].a)].push_back(static_cast<int>(i));
    c.of[static_cast<size_t>(c.bundles[i].b)].push_back(static_cast<int>(i));
  }
  return c;
}

}  // namespace twofold::pictures
