// One rank in the place of all that do the same: who has an actor, and what an outcome says of it.
#pragma once

#include <string>
#include <vector>

#include "backends/simulated/group.h"
#include "backends/simulated/plan.h"
#include "core/proto/outcome.pb.h"
#include "core/proto/spec.pb.h"

namespace twofold {

// Ranks of one class may end a communication at different times, because of their places in the network. The slowest
// then counts for all, which makes ranks late (SimulatedWorld::late). If some rank is late by more than a share of the
// whole time, all ranks are run one by one after all, unless there are more than kMostRunAfterAll. The share is
// folding_error, and at least kMostApart of more ranks than kMostRunOneByOne. A note says how large it is.
inline constexpr int kMostRunOneByOne = 1024, kMostRunAfterAll = 4096;
inline constexpr double kMostApart = 0.005;
// Infinite: it may be any.
double MostApart(const spec::Simulated& simulated, int world_size);

// The ranks that have actors, in order.
std::vector<int> Actors(const SimulationPlan& plan, bool fold);
// For each rank, the actor that is it or represents it.
std::vector<int> ActorOfEach(const SimulationPlan& plan, const std::vector<int>& actors, bool fold);

// "ranks are folded: rank 0 stands for all 8"
std::string DescribeFolding(const SimulationPlan& plan);
// Notes on folded ranks that differ; or why folding is refused, if ranks are late by more than the share `most`.
void AddWhatFoldingChanges(double most, SimulatedWorld& world, outcome::Outcome& outcome);

}  // namespace twofold
