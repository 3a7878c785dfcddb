// The training steps of a workload that ran.
#pragma once

#include <utility>
#include <vector>

#include "core/run/workload.h"

namespace twofold {

// From when to when each step of one rank was, by its marks (core/run/execution_graph.h), in order. Steps that end
// together share their time equally. Empty: it has no marks. `ends`: when each node ended.
std::vector<std::pair<double, double>> StepSpans(const std::vector<WorkloadNode>& nodes,
                                                 const std::vector<double>& ends);

}  // namespace twofold
