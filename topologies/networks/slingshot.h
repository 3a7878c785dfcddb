// Slingshot (De Sensi, Di Girolamo, McMahon, Roweth and Hoefler 2020, "An In-Depth Analysis of the Slingshot
// Interconnect", section II): a dragonfly of 64-port switches of 200 Gb/s, with several cables between every two
// groups.
//
//     group: 16...32 switches, all joined to one another by copper;  [s0]-[s1]- ... -[s31]   16 ports to NICs at each
//     groups: all joined to one another, `links_between_groups` optical cables each
//
// The 64 ports of a switch: ports_per_switch to NICs, switches_per_group - 1 local, the rest for global cables. The
// largest system of section II has 32 switches per group and 16 ports per switch (16 + 31 + 17), which gives 545 groups
// and 279,040 ports.
//
// Cost, routes, detours and worst case are those of the dragonfly (dragonfly.h) with p = ports_per_switch,
// a = switches_per_group, n = links_between_groups.
#pragma once

#include <memory>

#include "absl/status/status.h"
#include "topologies/networks/network.h"

namespace twofold {

struct SlingshotOptions {
  int groups = 2;
  int switches_per_group = 32;
  int ports_per_switch = 16;     // to NICs
  int links_between_groups = 0;  // cables between every two groups; 0: the most that the switches have ports for
  int ports = 0;                 // number of ports used, from the first on; 0: all
  Seconds global_cable{-1};      // an optical cable's latency; negative: same as wiring.cable
  Wiring wiring;                 // bandwidth: of every cable (200 Gb/s: 25e9)
};

absl::Status Check(const SlingshotOptions& options);
int64_t MostPorts(const SlingshotOptions& options);
// REQUIRES Check(options).ok().
std::unique_ptr<Topology> MakeSlingshot(const SlingshotOptions& options);

}  // namespace twofold
