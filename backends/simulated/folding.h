// One rank in the place of all that do the same: who has an actor, and what an outcome says of it.
#pragma once

#include <string>
#include <vector>

#include "backends/simulated/group.h"
#include "backends/simulated/plan.h"
#include "core/proto/outcome.pb.h"

namespace twofold {

// The ranks that have actors, in order.
std::vector<int> Actors(const SimulationPlan& plan, bool fold);
// For each rank, the actor that is it or represents it.
std::vector<int> ActorOfEach(const SimulationPlan& plan, const std::vector<int>& actors, bool fold);

// "ranks are folded: rank 0 stands for all 8"
std::string DescribeFolding(const SimulationPlan& plan);
// Notes on folded ranks that differ; or why folding is refused, if ranks are late by more than the share `most`.
void AddWhatFoldingChanges(double most, SimulatedWorld& world, outcome::Outcome& outcome);

}  // namespace twofold
