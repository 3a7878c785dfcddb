// Where the parts of a network are drawn. Each shows a part that a person can read, and notes what is left out.
#pragma once

#include <vector>

#include "experiments/program/pictures/contracted.h"
#include "experiments/program/pictures/topology_scene.h"
#include "topologies/graph/cluster_topology.h"

namespace twofold::pictures {

inline constexpr double kSceneWidth = 960;

Scene LevelsScene(const Contracted& net);    // switches above nodes: fat trees, stars, anything
Scene GroupsScene(const Contracted& net);    // groups round a circle, links between groups within it: dragonflies
Scene CircleScene(const Contracted& net);    // nodes round a circle: full meshes
Scene GridScene(const Contracted& net, const std::vector<int>& dims, bool wrap);  // tori: a grid, slices of a third dimension
Scene BoardsScene(const Contracted& net, int a, int b, int x, int y);             // HammingMesh: boards, switches of rows and columns
Scene NodeScene(const NodeType& node);       // devices, switches, hosts and NICs of one node

// A wire of a bundle, with what it says when pointed at.
Wire WireOf(const Contracted& net, const Bundle& bundle, std::string path);
// "8 GPUs", "1 NIC"
std::string Counted(int64_t n, const std::string& what);

}  // namespace twofold::pictures
