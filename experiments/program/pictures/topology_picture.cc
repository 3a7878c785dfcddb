#include "experiments/program/pictures/topology_picture.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>
#include <tuple>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "experiments/program/pictures/format.h"
#include "experiments/program/pictures/topology_layouts.h"

namespace twofold::pictures {
namespace {

constexpr double kMargin = 20;
constexpr const char* kMediumCss[] = {"w-memory", "w-nvlink", "w-pcie", "w-network"};  // by Medium
constexpr const char* kMediumNames[] = {"between sockets, memory", "NVLink, xGMI, C2C", "PCIe", "network"};
constexpr const char* kBoxCss[] = {"b-device", "b-nic", "b-host", "b-switch", "b-node", "lane"};  // by Box::Kind
constexpr const char* kBoxNames[] = {"device", "NIC", "host", "switch", "node"};

int64_t Product(const google::protobuf::RepeatedField<int64_t>& dims) {
  return std::accumulate(dims.begin(), dims.end(), int64_t{1}, std::multiplies<>());
}

Scene NetworkScene(const TopologyStory& story) {
  const Contracted net = Contract(*story.topology);
  const cluster::Network& network =
      story.cluster == nullptr ? cluster::Network::default_instance() : story.cluster->machines().network();
  switch (net.nodes > 1 ? network.kind_case() : cluster::Network::KIND_NOT_SET) {
    case cluster::Network::kDragonfly:
    case cluster::Network::kSlingshot: return GroupsScene(net);
    case cluster::Network::kFullMesh: return CircleScene(net);
    case cluster::Network::kTorus:
      if (Product(network.torus().dims()) != net.nodes) return LevelsScene(net);  // a node takes several positions
      return GridScene(net, {network.torus().dims().begin(), network.torus().dims().end()}, network.torus().wrap());
    case cluster::Network::kHammingMesh: {
      const cluster::HammingMesh& mesh = network.hamming_mesh();
      if (mesh.a() * mesh.b() * mesh.x() * mesh.y() != net.nodes) return LevelsScene(net);
      return BoardsScene(net, static_cast<int>(mesh.a()), static_cast<int>(mesh.b()), static_cast<int>(mesh.x()),
                         static_cast<int>(mesh.y()));
    }
    default: return LevelsScene(net);
  }
}

class Picture {
 public:
  void Draw(const Scene& scene) {
    for (const Box& box : scene.boxes) {
      if (box.kind == Box::kPanel) Draw(box);
    }
    for (const Wire& wire : scene.wires) {
      absl::StrAppend(&body_, "<path class=\"wire ", kMediumCss[static_cast<int>(wire.medium)],
                      wire.faint ? " faint" : "", "\" stroke-width=\"", Px(wire.width), "\" d=\"", wire.path,
                      "\"><title>", Escape(wire.title), "</title></path>");
    }
    for (const Box& box : scene.boxes) {
      if (box.kind != Box::kPanel) Draw(box);
    }
    for (const Words& words : scene.words) Text(words.at, words.text, words.style);
  }

  void Draw(const Box& box) {
    absl::StrAppend(&body_, "<g><rect class=\"", kBoxCss[box.kind], "\" x=\"", Px(box.at.x - box.w / 2), "\" y=\"",
                    Px(box.at.y - box.h / 2), "\" width=\"", Px(box.w), "\" height=\"", Px(box.h), "\" rx=\"",
                    Px(box.kind == Box::kSwitch || box.round ? std::min(box.w, box.h) / 2 : std::min(4.0, box.h / 4)),
                    "\"/>");
    if (!box.label.empty())
      Text({box.at.x, box.at.y + 4}, box.label,
           box.w < 7.3 * static_cast<double>(box.label.size()) ? "small mid" : "mid");
    if (!box.title.empty()) absl::StrAppend(&body_, "<title>", Escape(box.title), "</title>");
    body_ += "</g>";
  }

  void Text(Point at, const std::string& text, const char* style) {
    absl::StrAppend(&body_, "<text class=\"", style, "\" x=\"", Px(at.x), "\" y=\"", Px(at.y), "\">", Escape(text),
                    "</text>");
  }

  // Explains lines and boxes; returns the legend's height.
  double Legend(const Scene& scene, double left, double top, double width) {
    double x = left, y = top;
    const auto place = [&](double w) {
      if (x + w > left + width && x > left) x = left, y += 20;
      return std::exchange(x, x + w);
    };
    std::map<std::tuple<int, double>, const Wire*> kinds;
    for (const Wire& wire : scene.wires)
      kinds.try_emplace({static_cast<int>(wire.medium), -std::round(wire.bandwidth.value() / 1e7)}, &wire);
    std::map<int, int> of_medium;
    for (const auto& [key, wire] : kinds) {
      if (++of_medium[std::get<0>(key)] > 4) continue;  // the widest ones per medium
      const std::string text =
          absl::StrFormat("%s, %.4g GB/s", kMediumNames[std::get<0>(key)], wire->bandwidth.value() / 1e9);
      const double at = place(48 + 6.6 * static_cast<double>(text.size()));
      absl::StrAppend(&body_, "<path class=\"wire ", kMediumCss[std::get<0>(key)], "\" stroke-width=\"",
                      Px(wire->width), "\" d=\"M", Px(at), " ", Px(y), "h26\"/>");
      Text({at + 32, y + 4}, text, "soft");
    }
    bool used[Box::kPanel] = {};
    for (const Box& box : scene.boxes) {
      if (box.kind != Box::kPanel) used[box.kind] = true;
    }
    for (int kind = 0; kind < Box::kPanel; ++kind) {
      if (!used[kind]) continue;
      const double at = place(80);
      Draw(Box{.kind = static_cast<Box::Kind>(kind), .at = {at + 9, y}, .w = 18, .h = 12});
      Text({at + 24, y + 4}, kBoxNames[kind], "soft");
    }
    return y + 22 - top;
  }

  const std::string& body() const { return body_; }

 private:
  std::string body_;
};

}  // namespace

std::string TopologyPicture(const TopologyStory& story) {
  Scene all;
  double y = 62;
  const bool inside = story.node.has_value() && story.node->graph.vertices.size() > 1;
  const bool network = story.topology->nodes() > 1 || !inside;
  if (network) {
    Scene scene = NetworkScene(story);
    scene.SetWidths(24);
    scene.Move(kMargin + (scene.width < kSceneWidth ? (kSceneWidth - scene.width) / 2 : 0), y);
    y += scene.height + 16;
    scene.width = std::max(scene.width, kSceneWidth);
    all.Add(std::move(scene));
  }
  if (inside) {
    Scene scene = NodeScene(*story.node);
    scene.SetWidths(48);
    const double left = scene.width < kSceneWidth ? (kSceneWidth - scene.width) / 2 : 0;
    if (network) {
      all.words.push_back({{kMargin + kSceneWidth / 2, y + 8}, "one node", "head mid"});
      y += 22;
    }
    scene.Move(kMargin + left, y);
    y += scene.height + 16;
    all.Add(std::move(scene));
  }
  const double width = std::max(all.width, kSceneWidth) + 2 * kMargin;
  Picture picture;
  picture.Text({kMargin, 20}, story.title, "head");
  picture.Text({kMargin, 39}, story.subtitle, "soft");
  picture.Draw(all);
  y += picture.Legend(all, kMargin, y + 6, kSceneWidth);
  for (const std::string& note : all.notes) picture.Text({kMargin, y += 17}, note, "soft");
  return absl::StrCat("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 ", Px(width), " ", Px(y + 16),
                      "\" width=\"", Px(width), "\" role=\"img\" aria-label=\"", Escape(story.title), "\">",
                      picture.body(), "</svg>");
}

}  // namespace twofold::pictures
