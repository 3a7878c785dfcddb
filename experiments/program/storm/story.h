// Of one replayed schedule: who did what when, and what struck whom.
#pragma once

#include <nlohmann/json.hpp>

#include "core/proto/storm.pb.h"
#include "experiments/program/storm/trial.h"

namespace twofold::storm {

// Adds `moments` and `struck` to the verdict. `spec`: of the storm, without the schedule's disasters.
void AddStory(const spec::Spec& spec, const Schedule& schedule, const Evidence& evidence, Verdict& verdict);

// What `twofold report` draws: {kind, seed, end, disasters, struck, moments}; times are seconds. A moment is a list:
// what, member, generation, steps, seconds.
nlohmann::ordered_json StoryJson(const Schedule& schedule, const Verdict& verdict);

}  // namespace twofold::storm
