// HammingMesh (Hoefler et al. 2022, "HammingMesh: A Network Topology for Large-Scale Deep Learning", section III): boards of
// a x b accelerators in a 2-D mesh; board edges joined along global rows and columns by switches. Hx2Mesh is a = b = 2.
//
//         |     |        |     |      columns: to the switches of columns
//     --- p --- p -- S - p --- p --- (S)   each global row of accelerators: the west and the east edge of its x boards are
//         |     |        |     |           2 x ports of the row's switch S (drawn between boards; it is one)
//     --- p --- p -- S - p --- p --- (S)
//         |     |        |     |      a = 2 to the right, b = 2 down; x = 2 boards to the right
//
// A line's network: one switch where 2 x (columns: 2 y) <= radix, else a 2-level non-blocking tree of such switches. Lines do
// not share switches, though two of 32 ports fit on one of 64: the same rates, half the boxes.
// Board (X, Y) has number X + x * Y; port board * a * b + i + a * j is its accelerator (i, j).
//
// Cost: n = a b x y ports; b y rows of 2 x and a x columns of 2 y switch ports, so 2 b x y + 2 a x y cables to switches, and
// x y (b (a-1) + a (b-1)) on boards. Diameter, x and y > 1: 4 + 2 floor((a-1)/2) + 2 floor((b-1)/2), 2 more for each
// direction whose lines are trees. Bisection (between rows of boards, y even): a x columns of y cables each, 1 / (2 b) of what
// the 4 cables of every port could carry.
//
// Minimal routes: along the row first or the column first; in a line to another board leaving by the west or the east edge
// and entering by either, whichever are fewest hops; on the same board over the mesh, or round through the switch where that
// is fewer; in trees, times the choice of spine. Default: row first; of the ways along a line, by the destination's place
// in it. Detours: one of row and column by another pair of edges, over the mesh, or round through the switch.
#pragma once

#include <memory>

#include "absl/status/status.h"
#include "topologies/networks/network.h"

namespace twofold {

struct HammingMeshOptions {
  int a = 2, b = 2;  // accelerators of a board: a to the right, b down
  int x = 4, y = 4;  // boards: x to the right, y down
  int radix = 64;    // of the switches
  Wiring wiring;     // bandwidth: of every cable. A hop takes cable + switching; nic must be 0, there is none
};

absl::Status Check(const HammingMeshOptions& options);
int64_t MostPorts(const HammingMeshOptions& options);  // how many there are
// REQUIRES Check(options).ok(). Groups are boards.
std::unique_ptr<Topology> MakeHammingMesh(const HammingMeshOptions& options);

}  // namespace twofold
