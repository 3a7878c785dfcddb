// Thrown by Topology::Route where links have failed (degraded.h) and none of a pair's routes is left.
#pragma once

#include <stdexcept>

#include "topologies/graph/topology.h"

namespace twofold {

struct NoRoute : std::runtime_error {
  NoRoute(Pair between, const std::string& what) : std::runtime_error(what), pair(between) {}
  Pair pair;
};

}  // namespace twofold
