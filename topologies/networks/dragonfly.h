// The dragonfly (Kim, Dally, Scott and Abts 2008, "Technology-Driven, Highly-Scalable Dragonfly Topology"): groups of
// `a` switches. The switches of a group are fully connected; each switch has p ports and h global cables; the groups
// are fully connected.
//
//      group 0                  group 1
//     [s0]-[s1]                [s0]-[s1]        local: every two switches of a group
//      | \ / |  ---global---    | \ / |         global: every two groups, n cables of
//     [s2]-[s3]                [s2]-[s3]        the a * h that each group has
//     p ports at each switch
//
// With g groups there are n = floor(a h / (g - 1)) cables between every two groups; g = a h + 1 (n = 1) is the maximum.
// The arrangement is "absolute" (Camarero, Vallejo and Beivide 2014): counted within its group, global cable
// m * (g - 1) + s is the m-th cable to group s (if s is less than the group's own number) or to group s + 1. The
// n (g - 1) cables are dealt to the switches of the group in order, as evenly as possible.
//
// Cost: a g switches, p a g ports, p a g + g a (a-1) / 2 + n g (g-1) / 2 cables. At most N = a p (a h + 1) ports
// (section 3.1). Diameter 5 (3 between switches: local, global, local). Bisection for even g, if the cables between
// groups are the limit: (g/2)^2 n * global bandwidth.
//
// Minimal routes: between groups n, one for each cable between the two groups (local, global, local); within a group
// one. A local hop is omitted if the cable is on the switch itself, so minimal routes differ in length, and a route of
// two global hops can be shorter than a minimal route of three hops. As in section 4.1, minimal means fewest global
// hops. Default: cable number (port mod n).
// Detours: between groups, Valiant through another group, (g - 2) n^2 of them (l-g-l-g-l); within a group, through
// another switch, a - 2 of them.
//
// Worst case (section 4.2): every port of group i sends to group i + 1.
// * Minimal routing puts a p flows on n cables: each gets n / (a p) of a port's rate (if global cables are as fast as
//   ports).
// * Valiant, evenly over the g - 2 other groups: every cable except those from i to i + 1 has 2 a p / (n (g - 2))
//   flows. The rate is n (g - 2) / (2 a p), near h / (2 p), 1/2 if p = h.
// * The best mixture sends a share x = 2 / g minimally. The rate is n g / (2 a p), g / 2 times that of minimal routing.
// * UGAL compares load times hops, so the loads settle at the ratio r = hops(detour) / hops(minimal). The minimal share
//   is x = 2 r / (g - 2 + 2 r), the rate n (g - 2 + 2 r) / (2 r a p), (g - 2 + 2 r) / (2 r) times that of minimal
//   routing. r is 7/5 if no local hop is omitted, up to 7/3 for flows whose switches have the global cable, and 4/3 for
//   all flows if groups have one switch (a = 1). This holds if the cables of detours are busier than ports; otherwise a
//   detour's load is that of its port, and the rate is 1 / r.
#pragma once

#include <memory>
#include <string_view>

#include "absl/status/status.h"
#include "topologies/networks/network.h"

namespace twofold {

struct DragonflyOptions {
  int p = 2;                           // ports of a switch
  int a = 4;                           // switches of a group
  int h = 2;                           // maximum number of global cables of a switch
  int groups = 0;                      // 0: a h + 1
  int ports = 0;                       // number of ports used, from the first on; 0: all p a g
  int cables_between_groups = 0;       // n above; 0: the most that h allows
  BytesPerSecond local_bandwidth{0};   // of a cable within a group, each way; 0: same as ports
  BytesPerSecond global_bandwidth{0};  // of a cable between groups
  Seconds global_cable{-1};            // its latency; negative: same as wiring.cable
  Wiring wiring;
};

// Refuses options that cannot be built; the message starts with the field's name.
absl::Status Check(const DragonflyOptions& options);
int64_t MostPorts(const DragonflyOptions& options);  // p a g; ignores `ports`

// REQUIRES Check(options).ok(). Port n is on switch n / p, switch s in group s / a.
std::unique_ptr<Topology> MakeDragonfly(const DragonflyOptions& options, std::string_view kind = "dragonfly");

}  // namespace twofold
