// One rank in the place of all that do the same: who has an actor, and what an outcome says of it.
#pragma once

#include <string>
#include <vector>

#include "backends/simulated/group.h"
#include "backends/simulated/plan.h"
#include "core/proto/outcome.pb.h"

namespace twofold {

// Ranks of one class may end a communication at different times, because of their places in the network. Up to this
// many ranks, all of them are then run one by one. Beyond, the slowest counts for all, which makes ranks late
// (SimulatedWorld::late). If some rank is late by more than this share of the whole time, all ranks are run one by one
// after all, unless there are too many. A note says how large the share is.
inline constexpr int kMostRunOneByOne = 1024, kMostRunAfterAll = 4096;
inline constexpr double kMostApart = 0.005;

// The ranks that have actors, in order.
std::vector<int> Actors(const SimulationPlan& plan, bool fold);
// For each rank, the actor that is it or represents it.
std::vector<int> ActorOfEach(const SimulationPlan& plan, const std::vector<int>& actors, bool fold);

// "ranks are folded: rank 0 stands for all 8"
std::string DescribeFolding(const SimulationPlan& plan);
// Notes on folded ranks that differ; or why folding is refused, if it may be.
void AddWhatFoldingChanges(bool may_refuse, SimulatedWorld& world, outcome::Outcome& outcome);

}  // namespace twofold
