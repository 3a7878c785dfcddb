// Who takes part in a run, and how that changes.
//
// A run begins as generation 0, whose members are its ranks. When a member is lost, the generation is over: calls in
// progress throw PeerLost or TimedOut, and so do later ones. The run is over, too, unless the members that are left
// form the next generation (RankContext::Reform). Members that wait to join come in then; members that leave do not.
//
// Members keep their numbers through all generations: a member of generation 0 has its rank as its number, and
// newcomers get the numbers that follow. A member's rank is its place in the present generation.
//
// Messages name ranks by their members' numbers: "generation 1: lost rank 2: ...".
#pragma once

#include <vector>

namespace twofold {

struct Generation {
  int number = 0;
  std::vector<int> members;  // by rank
};

struct ReformOptions {
  int min_members = 1;    // with fewer the run is over
  double timeout_s = 30;  // members that have not called Reform so long after the first one are lost
};

}  // namespace twofold
