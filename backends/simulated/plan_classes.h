// Which ranks of a plan do the same at the same times, so that one stands for all of them.
#pragma once

#include <span>
#include <string>

#include "backends/simulated/plan.h"
#include "core/proto/spec.pb.h"

namespace twofold {

// Sets the plan's classes of ranks (stand_ins), or why there are none.
void FindClasses(const spec::Spec& spec, SimulationPlan& plan);

// Ranks of one class turned out to be of different kinds: `kinds` has a number for each rank. Splits the classes. If
// none of several ranks is left, ranks are not folded any more, because of `why`.
void SplitClasses(std::span<const int> kinds, const std::string& why, SimulationPlan& plan);

}  // namespace twofold
