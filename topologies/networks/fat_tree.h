// Fat trees of 2 or 3 levels of equal switches (Leiserson 1985), optionally oversubscribed. Without oversubscription, 3
// levels give the k-ary fat tree of Al-Fares, Loukissas and Vahdat 2008 ("A Scalable, Commodity Data Center Network
// Architecture").
//
//        [core]   [core]   [core]   [core]        core c of plane j: one cable to middle j of every pod
//           \  \   /  \     /  \   /  /
//        [middle 0][middle 1]    [middle 0][middle 1]    \ .
//             |  \ /  |               |  \ /  |           | pods; with 2 levels the middle switches are
//        [leaf 0]  [leaf 1]      [leaf 0]  [leaf 1]      /  the spines, and there is one pod
//         p0  p1    p2  p3        p4  p5    p6  p7
//
// A leaf of radix r and oversubscription s has up = floor(r / (1 + s)) cables up and down = floor(up * s) ports. Middle
// switches follow the same formula with top_oversubscription. Leaves are filled in order; one cable joins a leaf to
// each of its `up` switches. If there are so few leaves (pods) that a spine (core) switch has spare ports, several
// cables join it to each leaf (pod).
//
// Cost of a full tree of radix k without oversubscription: with 2 levels k^2/2 ports, 3k/2 switches, k^2 cables (k^2/2
// of them to ports), diameter 4; with 3 levels k^3/4 ports, 5k^2/4 switches, 3k^3/4 cables, diameter 6. Bisection:
// ports/2 * bandwidth, divided by the product of the oversubscriptions.
//
// Minimal routes: one for each choice of spine (2 levels: `up`; 3 levels between pods: middle * up_of_middle + core).
// The spine determines the path down. No detours. Default: d-mod-k (Zahavi 2010, "D-Mod-K routing providing
// non-blocking traffic for shift permutations on real life fat trees"), keyed by the destination's position in the
// order of leaves.
#pragma once

#include <memory>

#include "absl/status/status.h"
#include "topologies/networks/network.h"

namespace twofold {

struct FatTreeOptions {
  int ports = 2;
  int levels = 2;                   // 2 or 3
  int radix = 40;                   // ports per switch
  double oversubscription = 1;      // of leaves: ports down divided by ports up
  double top_oversubscription = 1;  // 3 levels: the same of the middle switches
  // With K > 1 rails (rail-optimised, K NICs per node), port n * K + k is on a leaf of rail k. K leaves together serve
  // `down` nodes.
  int rails = 1;
  Wiring wiring;
};

// How a switch of `radix` divides its ports at an oversubscription.
struct FatTreeSplit {
  int down = 0, up = 0;
};
FatTreeSplit SplitRadix(int radix, double oversubscription);

// Refuses options that cannot be built; the message starts with the field's name. For too many ports it gives the
// maximum.
absl::Status Check(const FatTreeOptions& options);
int64_t MostPorts(const FatTreeOptions& options);  // of a tree of these switches; ignores `ports`

// REQUIRES Check(options).ok(). Groups are pods: with 3 levels the leaves that share middle switches; with 2 levels one
// leaf, or the K leaves of the rails.
std::unique_ptr<Topology> MakeFatTree(const FatTreeOptions& options);

}  // namespace twofold
