// The HTML page of a report: one self-contained file.
#pragma once

#include <string>
#include <vector>

#include "experiments/program/pictures/run_data.h"

namespace twofold::pictures {

// One run, or two to compare (drawn in the order given). Self-contained HTML: summary, pipeline schedule, time line,
// memory, loss and step times, collectives, notes.
std::string Page(const std::vector<const RunData*>& runs);

}  // namespace twofold::pictures
