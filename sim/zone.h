// One custom SimGrid network zone serves every topology: the route is asked for when a flow starts.
#pragma once

#include <memory>
#include <vector>

#include "simgrid/s4u.hpp"
#include "topologies/topology.h"

namespace twofold::sim {

// Bytes are counted in units this small inside SimGrid, whose payloads are whole numbers: part sizes such as n/N need
// fractions of a byte.
inline constexpr double kUnitsPerByte = 1 << 16;

// Builds the platform of `topology` as SimGrid's root zone; the hosts are its endpoints in order. Links have no latency
// there: latency is slept before the flow starts, which keeps the sharing of bandwidth plain max-min.
std::vector<simgrid::s4u::Host*> BuildPlatform(const Topology& topology);

}  // namespace twofold::sim
