// The dragonfly (Kim, Dally, Scott and Abts 2008, "Technology-Driven, Highly-Scalable Dragonfly Topology"): groups of a
// switches, all joined to one another; each switch has p ports and h global cables; all groups are joined to one another.
//
//      group 0                  group 1
//     [s0]-[s1]                [s0]-[s1]        local: every two switches of a group
//      | \ / |  ---global---    | \ / |         global: every two groups, n cables of
//     [s2]-[s3]                [s2]-[s3]        the a * h that each group has
//     p ports at each switch
//
// With g groups there are n = floor(a h / (g - 1)) cables between every two; g = a h + 1 (n = 1) is the largest. Their
// arrangement is "absolute" (Camarero, Vallejo and Beivide 2014): seen from its group, global cable m * (g - 1) + s is the m-th
// to group s (s < its own number) or s + 1; the n (g - 1) cables are dealt to the group's switches in order, as evenly as they
// go.
//
// Cost: a g switches, p a g ports, p a g + g a (a-1) / 2 + n g (g-1) / 2 cables; N = a p (a h + 1) ports at most (section
// 3.1), diameter 5 (3 between switches: local, global, local). Bisection, g even and cables between groups what limits:
// (g/2)^2 n * global bandwidth.
//
// Minimal routes: between groups n, one for each cable from group to group (local, global, local; a local hop falls away
// where the cable is on the switch itself, so they are not all as short, and two global hops can be shorter than three in
// all: minimal is what has the fewest global hops, as in section 4.1); else one. Default: cable number (port mod n).
// Detours: Valiant through another group, (g - 2) n^2 of them (l-g-l-g-l); within a group through another switch, a - 2.
//
// Worst case (section 4.2): every port of group i sends to group i + 1. Minimal routing puts a p flows on n cables: each gets
// n / (a p) of a port's rate (global cables as fast as ports). Valiant, evenly over the g - 2 other groups: every cable but
// those from i to i + 1 has 2 a p / (n (g - 2)) flows: rate n (g - 2) / (2 a p), near h / (2 p), 1/2 where p = h. The best
// balance of both, a share x = 2 / g minimal: n g / (2 a p), g / 2 times minimal routing. UGAL compares load times hops and
// settles at loads in the ratio r = hops(detour) / hops(minimal), a share x = 2 r / (g - 2 + 2 r) minimal:
// rate n (g - 2 + 2 r) / (2 r a p), (g - 2 + 2 r) / (2 r) times minimal routing. r is 7/5 where no local hop falls away and up
// to 7/3 for flows whose switches have the global cable; 4/3 for all in groups of one switch (a = 1). That is where detours'
// cables are busier than ports; where they are not, a detour's load is its port's, and the rate 1 / r.
#pragma once

#include <memory>
#include <string_view>

#include "absl/status/status.h"
#include "topologies/networks/network.h"

namespace twofold {

struct DragonflyOptions {
  int p = 2;       // ports of a switch
  int a = 4;       // switches of a group
  int h = 2;       // global cables of a switch, at most
  int groups = 0;  // 0: a h + 1
  int ports = 0;   // that are used, the first; 0: all p a g
  int cables_between_groups = 0;         // n above; 0: as many as h gives
  BytesPerSecond local_bandwidth{0};     // of a cable within a group, each way; 0: as ports
  BytesPerSecond global_bandwidth{0};    // of a cable between groups
  Seconds global_cable{-1};              // its latency; less than 0: as wiring.cable
  Wiring wiring;
};

// Refuses what cannot be built, with the field's name first.
absl::Status Check(const DragonflyOptions& options);
int64_t MostPorts(const DragonflyOptions& options);  // p a g; `ports` is not looked at

// REQUIRES Check(options).ok(). Port n is on switch n / p, switch s in group s / a.
std::unique_ptr<Topology> MakeDragonfly(const DragonflyOptions& options, std::string_view kind = "dragonfly");

}  // namespace twofold
