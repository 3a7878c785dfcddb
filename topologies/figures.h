// The parts of a topology and its capacity, counted on its graph rather than by a builder's formula.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "topologies/graph/topology.h"

namespace twofold {

struct Figures {
  int endpoints = 0, nodes = 0;
  std::vector<int> switches;  // of the network, by level: level 0 is next to the endpoints
  int node_switches = 0;      // inside nodes (NVSwitch, PCIe)
  int nics = 0;
  int64_t cables = 0;       // of the network
  int64_t node_cables = 0;  // between two vertices of one node
  int64_t links = 0;        // two per cable; includes links without vertices
  // The longest of the shortest paths between endpoints, in links (two neighbours of one switch are 2 apart). Paths
  // pass through other endpoints only if these forward traffic, or if some endpoints are not joined otherwise (a device
  // without a NIC next to it). 0 if the endpoints are not joined in the graph (shared memory has no graph) or are fewer
  // than two.
  int diameter = 0;
  // Max-flow each way from the first half of the endpoints, in their order, to the last half (of an odd number, the
  // middle one belongs to neither). It is what all endpoints of one half can send to the other half at the same time,
  // over any routes. Builders number ports pod by pod, group by group, row by row of boards, so these are the halves
  // that published bisections refer to. A torus is cut across its last dimension, which is the minimum if that
  // dimension is the largest. A HammingMesh is cut through its columns, which is the minimum if a <= b. 0 in the same
  // cases as for diameter.
  BytesPerSecond bisection{0};
};

// Exact at any size: under a second for 16,384 ports.
Figures FiguresOf(const Topology& topology);

// One line of text for each figure.
std::string FiguresText(const Topology& topology, const Figures& figures);

}  // namespace twofold
