// The results of a sweep as text, CSV, JSON and as a picture.
#pragma once

#include <nlohmann/json.hpp>
#include <string>

#include "experiments/program/sweep/results.h"

namespace twofold::sweep {

// A line per point: times, with intervals and errors; then speed-up, efficiency, memory and exposed communication; then
// the reasons of points without figures.
std::string ResultsText(const Results& results);
// What a reader must know of the points, each once.
std::vector<std::string> NotesOf(const Results& results);

// A header line, then a line per point. Columns: the paths of the varied fields, ranks, global_batch, micro_batch; for
// each side, with predicted_ or measured_ before the name: step_seconds, low, high, speed_up, efficiency, peak_bytes,
// exposed_communication_seconds; error; why. Figures that are not known are empty.
std::string ResultsCsv(const Results& results);

// {"name", "fabric", "scaling", "points": [{"set": {path: value}, "ranks", "global_batch", "micro_batch", "predicted":
// {...}, "measured": {...}, "error"}]}. A side has its figures, or "why" alone.
nlohmann::ordered_json ResultsJson(const Results& results);

// A stand-alone SVG: panels of step time, speed-up, efficiency, memory and exposed communication, over ranks where they
// differ, else over the first varied field. Empty if no point has figures.
std::string ResultsPicture(const Results& results);

}  // namespace twofold::sweep
