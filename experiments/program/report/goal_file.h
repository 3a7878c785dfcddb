// The blocks that ranks left (trace.goal) as one GOAL schedule, for LogGOPSim's txt2bin.
#pragma once

#include <string>

#include "experiments/program/report/rank_records.h"

namespace twofold {

inline constexpr char kGoalFolder[] = "goal", kGoalSchedule[] = "schedule.goal";

// "": ranks left none.
std::string GoalSchedule(const RankRecords& records);

}  // namespace twofold
