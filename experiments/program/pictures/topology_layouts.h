// Layouts of networks, each in a file of its own (levels_scene.cc and so on). Each draws a part that a person can read,
// and notes what it leaves out.
#pragma once

#include <vector>

#include "experiments/program/pictures/contracted.h"
#include "experiments/program/pictures/topology_scene.h"
#include "topologies/graph/cluster_topology.h"

namespace twofold::pictures {

inline constexpr double kSceneWidth = 960;

Scene LevelsScene(const Contracted& net);  // switches above nodes: fat trees, stars, anything
Scene GroupsScene(const Contracted& net);  // groups around a circle, links between groups inside it: dragonflies
Scene CircleScene(const Contracted& net);  // nodes around a circle: full meshes
// tori: a grid, slices of a third dimension
Scene GridScene(const Contracted& net, const std::vector<int>& dims, bool wrap);
Scene BoardsScene(const Contracted& net, int a, int b, int x, int y);  // HammingMesh: boards, row and column switches
Scene NodeScene(const NodeType& node);                                 // devices, switches, hosts and NICs of one node

}  // namespace twofold::pictures
