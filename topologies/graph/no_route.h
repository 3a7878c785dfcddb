// Thrown by Topology::Route if links have failed (degraded.h) and a pair has no route left.
#pragma once

#include <stdexcept>

#include "topologies/graph/topology.h"

namespace twofold {

struct NoRoute : std::runtime_error {
  NoRoute(Pair between, const std::string& what) : std::runtime_error(what), pair(between) {}
  Pair pair;
};

}  // namespace twofold
