// HammingMesh (Hoefler et al. 2022, "HammingMesh: A Network Topology for Large-Scale Deep Learning", section III):
// boards of a x b accelerators in a 2-D mesh. Switches join the board edges along global rows and columns. Hx2Mesh is
// a = b = 2.
//
//         |     |        |     |      columns: to the switches of columns
//     --- p --- p -- S - p --- p --- (S)   each global row of accelerators: the west and the east edges
//         |     |        |     |           of its x boards are 2 x ports of the row's switch S (drawn
//         |     |        |     |           between boards; it is one)
//     --- p --- p -- S - p --- p --- (S)
//         |     |        |     |      a = 2 to the right, b = 2 down; x = 2 boards to the right
//
// The network of a line (a global row or column) is one switch if 2 x (for columns 2 y) <= radix, otherwise a 2-level
// non-blocking tree of such switches. Lines do not share switches, although two lines of 32 ports fit on one switch of
// 64: that would have the same rates with half the switches.
// Board (X, Y) has number X + x * Y; port board * a * b + i + a * j is its accelerator (i, j).
//
// Cost: n = a b x y ports; b y rows of 2 x and a x columns of 2 y switch ports, so 2 b x y + 2 a x y cables to
// switches, and x y (b (a-1) + a (b-1)) cables on boards. Diameter for x and y > 1: 4 + 2 floor((a-1)/2) + 2
// floor((b-1)/2), plus 2 for each direction whose lines are trees. Bisection (between rows of boards, y even): a x
// columns of y cables each, 1 / (2 b) of what the 4 cables of every port could carry.
//
// Minimal routes: along the row first or along the column first. Within a line to another board, a route leaves by the
// west or the east edge and enters by either, with the fewest hops. On the same board it goes over the mesh, or round
// through the switch if that has fewer hops. In trees, each choice of spine is a route of its own. Default: row first;
// of the paths along a line, one is chosen by the destination's position in it. Detours: either the row or the column
// is crossed by another pair of edges, over the mesh, or round through the switch.
#pragma once

#include <memory>

#include "absl/status/status.h"
#include "topologies/networks/network.h"

namespace twofold {

struct HammingMeshOptions {
  int a = 2, b = 2;  // accelerators of a board: a to the right, b down
  int x = 4, y = 4;  // boards: x to the right, y down
  int radix = 64;    // ports per switch
  Wiring wiring;     // bandwidth: of every cable. A hop takes cable + switching; nic must be 0: there is none
};

absl::Status Check(const HammingMeshOptions& options);
int64_t MostPorts(const HammingMeshOptions& options);  // the exact number of ports
// REQUIRES Check(options).ok(). Groups are boards.
std::unique_ptr<Topology> MakeHammingMesh(const HammingMeshOptions& options);

}  // namespace twofold
