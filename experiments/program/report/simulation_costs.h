// What a simulation itself cost, for people who wonder where the time goes.
#pragma once

#include <string>
#include <vector>

#include "core/run/fabric.h"

namespace twofold {

// simulate.csv: part,seconds,bytes,count; empty where a part has none. Rows, in order:
//   building              topology and classes of ranks; bytes: what they take
//   attempts              how often ranks were started: again if ranks of a class turned out to differ
//   set-up, training      wall time before and after ranks begin to train, and the memory that it adds
//   ranks, collectives, flows, engine
//                         the same time by what the simulator was at (sim/at_work.h), from `count` samples
//   simulation's process  its peak memory
//   others                counts
std::string SimulationCostsCsv(const std::vector<RunResult::Cost>& costs);
// The same as a table.
std::string SimulationCostsText(const std::vector<RunResult::Cost>& costs);

}  // namespace twofold
