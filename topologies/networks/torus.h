// A torus (or, without wrap, a mesh) of any number of dimensions. A port is a router, joined to its two neighbours in
// each dimension.
//
//     p0 --- p1 --- p2 --.      each line: one cable, `bandwidth` each way
//     |      |      |    |      the last of a row is joined to the first (wrap), as is that of a column;
//     p3 --- p4 --- p5 --.      in a dimension of 2 there is one cable, not two
//
// Port x0 + d0 * (x1 + d1 * (x2 + ...)) is at position (x0, x1, x2, ...): the first dimension is the fastest.
//
// Cost: no switches, n = product of dims ports. For a dimension of size k with wrap: n cables (k > 2) and floor(k/2) of
// the diameter; without wrap: n (k-1)/k cables and k - 1 of the diameter. Bisection, cut across the last dimension
// (even k): n/k cables, twice that with wrap and k > 2 (Dally and Towles 2004, chapter 5: 4 n/k channels, both ways).
//
// Minimal routes: the dimensions in any order; in a ring whose two directions are equally long (a tie), either
// direction. This gives m! * 2^t routes for m dimensions in which the endpoints differ and t ties. Default: dimension
// order, starting with the first; in a tie, up from even and down from odd coordinates (Dally and Seitz 1987). Detours:
// one ring is crossed the long way round, with the dimensions in any order: m! for each ring that differs and is not a
// tie (ties go up).
#pragma once

#include <memory>
#include <vector>

#include "absl/status/status.h"
#include "topologies/networks/network.h"

namespace twofold {

struct TorusOptions {
  std::vector<int> dims = {4, 4};  // 1 to 6 of them
  bool wrap = true;
  Wiring wiring;  // bandwidth: of each link of a port. A hop takes cable + switching; nic must be 0: there is none
};

absl::Status Check(const TorusOptions& options);
int64_t MostPorts(const TorusOptions& options);  // the exact number of ports
// REQUIRES Check(options).ok(). One group.
std::unique_ptr<Topology> MakeTorus(const TorusOptions& options);

}  // namespace twofold
