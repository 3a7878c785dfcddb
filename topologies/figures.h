// What a topology is made of and what it can do, counted on its graph: by no builder's own formula.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "topologies/graph/topology.h"

namespace twofold {

struct Figures {
  int endpoints = 0, nodes = 0;
  std::vector<int> switches;  // of the network, by level: 0 next to the endpoints
  int node_switches = 0;      // that stand in nodes (NVSwitch, PCIe)
  int nics = 0;
  int64_t cables = 0;       // of the network
  int64_t node_cables = 0;  // between two vertices of one node
  int64_t links = 0;        // two a cable; what has no picture among them
  // Links on the longest of the shortest ways between endpoints (a switch's neighbours are 2 apart); through other
  // endpoints only where they forward, or where not all are joined otherwise (a device without a NIC next to it). 0: they
  // are not joined in the graph (shared memory has none), or are fewer than two.
  int diameter = 0;
  // Max-flow each way from the first half of the endpoints, in their order, to the last half (of an odd number, the middle
  // one belongs to neither): what all of a half could send the other at once, by any routes, wherever limits lie. Builders
  // number ports pod by pod, group by group, row by row of boards, so these are the halves that published bisections are
  // about. A torus is cut across its last dimension: the least there is where that is the largest; a HammingMesh through
  // its columns: where a <= b. 0: as above.
  BytesPerSecond bisection{0};
};

// Exact at any size: under a second for 16,384 ports.
Figures FiguresOf(const Topology& topology);

// A line for each figure, for people.
std::string FiguresText(const Topology& topology, const Figures& figures);

}  // namespace twofold
