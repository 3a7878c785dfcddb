// A topology with each of its nodes contracted to one thing, as the network sees it.
#pragma once

#include <string>
#include <vector>

#include "topologies/graph/topology.h"

namespace twofold::pictures {

struct Thing {
  bool is_switch = false;
  std::string name;
  int group = -1, level = 0;  // of switches; a node's group is that of its first vertex
  int number = 0;             // number within its kind, in order
  int devices = 0, nics = 0;  // in a node
  bool named = false;         // a single vertex, labelled with that vertex's name
};

// All cables between two things.
struct Bundle {
  int a, b;  // things, a < b
  int cables = 0;
  BytesPerSecond bandwidth{0};  // of all cables, each way
  BytesPerSecond cable{0};      // of the widest cable
  Medium medium = Medium::kNetwork;
};

struct Contracted {
  std::vector<Thing> things;  // nodes first, in order, then switches
  std::vector<Bundle> bundles;
  std::vector<std::vector<int>> of;  // indices of bundles, by thing
  int nodes = 0;

  int Other(int bundle, int thing) const;
  const Bundle* Between(int a, int b) const;  // null: none
};

Contracted Contract(const Topology& topology);

}  // namespace twofold::pictures
