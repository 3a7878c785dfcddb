#include "topologies/import/graphviz.h"

#include <map>
#include <vector>

#include "absl/strings/str_format.h"
#include "core/base/strings.h"

namespace twofold {
namespace {

std::string Quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') out += '\\';
    if (c == '\n') {
      out += "\\n";
    } else {
      out += c;
    }
  }
  return out + "\"";
}

std::string VertexText(const Vertex& vertex, size_t number) {
  static constexpr const char* kShapes[] = {"box", "cds", "house", "ellipse"};  // by Vertex::Kind
  return StrCat("v", number, " [label=", Quoted(vertex.name), " shape=", kShapes[vertex.kind], "];\n");
}

std::string_view Colour(Medium medium) {
  switch (medium) {
    case Medium::kMemory: return "gray50";
    case Medium::kNvlink: return "forestgreen";
    case Medium::kPcie: return "darkorange";
    case Medium::kNetwork: return "steelblue";
  }
  return "black";
}

}  // namespace

std::string DotOf(const Topology& topology, std::string_view name, int nodes_drawn) {
  std::string out =
      StrCat("digraph ", Quoted(name),
             " {\n  node [fontname=\"sans-serif\" fontsize=10];\n  edge [fontname=\"sans-serif\" fontsize=8];\n");
  std::map<int, std::vector<size_t>> nodes;
  for (size_t v = 0; v < topology.vertices().size(); ++v) {
    if (topology.vertices()[v].node < nodes_drawn) nodes[topology.vertices()[v].node].push_back(v);
  }
  for (const auto& [node, vertices] : nodes) {
    const bool box = node >= 0 && vertices.size() > 1;
    if (box) StrAppend(&out, "  subgraph cluster_", node, " {\n    label=\"node ", node, "\";\n");
    for (const size_t v : vertices) StrAppend(&out, box ? "    " : "  ", VertexText(topology.vertices()[v], v));
    if (box) out += "  }\n";
  }
  const std::vector<Link>& links = topology.links();
  const auto drawn = [&](int v) { return v >= 0 && topology.vertices()[static_cast<size_t>(v)].node < nodes_drawn; };
  for (size_t i = 0; i < links.size(); ++i) {
    const Link& link = links[i];
    if (!drawn(link.from) || !drawn(link.to)) continue;
    const bool cable = i + 1 < links.size() && links[i + 1].from == link.to && links[i + 1].to == link.from &&
                       links[i + 1].bandwidth == link.bandwidth;
    StrAppend(&out, "  v", link.from, " -> v", link.to, " [label=\"",
              absl::StrFormat("%.4g", link.bandwidth.value() / 1e9), " GB/s\" color=", Colour(link.medium),
              cable ? " dir=none" : "", "];\n");
    i += cable ? 1 : 0;
  }
  return out + "}\n";
}

}  // namespace twofold
