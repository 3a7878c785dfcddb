// Draws schedules of disasters for a spec.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/proto/storm.pb.h"

namespace twofold::storm {

// What there is to hit: how large an undisturbed run of the spec is.
struct Terrain {
  int64_t ranks = 1;     // at the beginning, those that stand by included
  bool elastic = false;  // ranks may come, and losses are survived
  int64_t steps = 1;
  double seconds = 1;                   // virtual, of the whole run
  int64_t calls = 1;                    // of a rank
  std::vector<std::string> links = {};  // names, if no ranks come; empty: the cluster's links cannot fail
  double timeout_s = 60, reform_timeout_s = 30;
  // Operations on files that a rank other than 0 does; 0: there are no checkpoints, and nothing happens to disks.
  int64_t file_calls = 0;
};

// A pure function. One to eight disasters; a schedule has either new ranks or faults of links, since new ranks need a
// larger cluster, with other links. Half of all schedules have at most two. In elastic runs, a third of the
// losses and hangs are aimed at later generations, most of them at the calls by which members agree and move the state.
// With checkpoints, a third of the disasters happen to disks.
Schedule Draw(uint64_t seed, const Terrain& terrain);

}  // namespace twofold::storm
