// A torus (or, without wrap, a mesh) of any dimensions: the port is the router, joined to its two neighbours in each.
//
//     p0 --- p1 --- p2 --.      each line: one cable, `bandwidth` each way
//     |      |      |    |      the last of a row is joined to the first (wrap), as is that of a column;
//     p3 --- p4 --- p5 --.      in a dimension of 2 there is one cable, not two
//
// Port x0 + d0 * (x1 + d1 * (x2 + ...)) stands at (x0, x1, x2, ...): the first dimension runs fastest.
//
// Cost: no switches, n = product of dims ports; k in a dimension, wrap: n cables of it (k > 2), diameter floor(k/2) of it;
// mesh: n (k-1)/k cables, diameter k - 1. Bisection, cut across the last dimension (even k): n/k cables, twice that with
// wrap and k > 2 (Dally and Towles 2004, chapter 5: 4 n/k channels, both ways).
//
// Minimal routes: the dimensions in any order, and where the way round a ring is as long both ways, both: m! * 2^t for m
// dimensions that differ and t such ties. Default: dimension order, the first first; of a tie, up from even and down from odd
// coordinates (Dally and Seitz 1987). Detours: one ring the long way round, the dimensions in any order: m! for each ring
// that differs and is no tie (ties go up).
#pragma once

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "topologies/networks/network.h"

namespace twofold {

struct TorusOptions {
  std::vector<int> dims = {4, 4};  // 1 to 6 of them
  bool wrap = true;
  Wiring wiring;  // bandwidth: of each of a port's links. A hop takes cable + switching; nic must be 0, there is none
};

absl::Status Check(const TorusOptions& options);
int64_t MostPorts(const TorusOptions& options);  // how many there are
// REQUIRES Check(options).ok(). One group.
std::unique_ptr<Topology> MakeTorus(const TorusOptions& options);

}  // namespace twofold
