// Fat trees of 2 or 3 levels of equal switches (Leiserson 1985), slimmed where asked; with no oversubscription and 3 levels
// the k-ary fat tree of Al-Fares, Loukissas and Vahdat 2008 ("A Scalable, Commodity Data Center Network Architecture").
//
//        [core]   [core]   [core]   [core]        core c of plane j: one cable to middle j of every pod
//           \  \   /  \     /  \   /  /
//        [middle 0][middle 1]    [middle 0][middle 1]    \ .
//             |  \ /  |               |  \ /  |           | pods; with 2 levels the middle switches are
//        [leaf 0]  [leaf 1]      [leaf 0]  [leaf 1]      /  the spines, and there is one pod
//         p0  p1    p2  p3        p4  p5    p6  p7
//
// A leaf of radix r and oversubscription s has up = floor(r / (1 + s)) cables up and down = floor(up * s) ports; so has a
// middle switch with top_oversubscription. Leaves are filled in order; one cable joins a leaf and each of its `up` switches.
// Where there are so few leaves (pods) that a spine (core) has ports to spare, it takes several cables of each.
//
// Cost, no oversubscription, full, radix k: 2 levels k^2/2 ports, 3k/2 switches, k^2 cables (k^2/2 are the ports'),
// diameter 4; 3 levels k^3/4 ports, 5k^2/4 switches, 3k^3/4 cables, diameter 6. Bisection: ports/2 * bandwidth, divided by
// the product of the oversubscriptions.
//
// Minimal routes: the choice of spine (2 levels: `up`; 3 levels between pods: middle * up_of_middle + core). The way down is
// then given. No detours. Default: d-mod-k (Zahavi 2010, "D-Mod-K routing providing non-blocking traffic for shift
// permutations on real life fat trees"): by the number of the destination's place in the order of leaves.
#pragma once

#include <memory>

#include "absl/status/status.h"
#include "topologies/networks/network.h"

namespace twofold {

struct FatTreeOptions {
  int ports = 2;
  int levels = 2;                   // 2 or 3
  int radix = 40;                   // ports of a switch
  double oversubscription = 1;      // of leaves: ports down over ports up
  double top_oversubscription = 1;  // 3 levels: of the middle switches
  // Of K > 1 (rail-optimised, K NICs a node): port n * K + k is on a leaf of rail k. K leaves serve `down` nodes together.
  int rails = 1;
  Wiring wiring;
};

// What a switch of `radix` has at an oversubscription.
struct FatTreeSplit {
  int down = 0, up = 0;
};
FatTreeSplit SplitRadix(int radix, double oversubscription);

// Refuses what cannot be built, with the field's name first; too many ports among it (with how many there can be).
absl::Status Check(const FatTreeOptions& options);
int64_t MostPorts(const FatTreeOptions& options);  // of a tree of these switches; `ports` is not looked at

// REQUIRES Check(options).ok(). Groups are pods: with 3 levels what shares middle switches; with 2 the leaf, or the K leaves
// of the rails.
std::unique_ptr<Topology> MakeFatTree(const FatTreeOptions& options);

}  // namespace twofold
