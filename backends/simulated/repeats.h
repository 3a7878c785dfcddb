// Steps of a simulated rank that are counted (steady_state.h): in what situation a step begins, and what it adds up to.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "backends/simulated/device.h"
#include "backends/simulated/group.h"
#include "backends/simulated/rank.h"
#include "backends/simulated/steady_state.h"
#include "core/comm/stats.h"
#include "core/memory/allocator.h"

namespace twofold {

// What steps of one rank change. All must outlive what RepeatsOf returns.
struct SteppingRank {
  SimulatedRank& rank;
  CachingAllocator &memory, &host_memory;
  CommunicationStats& stats;
  SimulatedDevice& device;
  SimulatedWorld& world;
};

// Implements RankContext::Repeats. Steps that are counted add as much to the rank's statistics as the last one that
// ran.
std::function<int64_t(int64_t step, int64_t alike)> RepeatsOf(SteadyState& steady, SteppingRank of);

// "steps 3 to 11 repeat step 2 exactly: ...", for the report's notes, which number steps from 1.
std::string Describe(const SteadyState::Counted& counted);

}  // namespace twofold
