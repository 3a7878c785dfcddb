// What every rank's streams did in the traced steps.
#pragma once

#include <string>
#include <vector>

#include "experiments/program/pictures/run_data.h"

namespace twofold::pictures {

// An SVG element: a panel a run, one above the other on one time scale; in it a row a rank and stream. Spans carry
// their name and duration as a title. Spans too short to be seen are drawn together with their neighbours, so that the
// picture stays within about kMostSpans elements. At most kMostRanks ranks a run are drawn (the first ones; it says so).
// Empty when no run has a trace.
inline constexpr size_t kMostSpans = 9000;
inline constexpr int kMostRanks = 16;
std::string TimelinePicture(const std::vector<const RunData*>& runs);

// Spans of one lane as drawn: neighbours that are each shorter than `least` seconds, and no further apart, become one.
struct DrawnBox {
  double start, end;
  int spans;             // that it stands for
  const DrawnSpan* longest;
};
std::vector<DrawnBox> MergeShort(const std::vector<DrawnSpan>& spans, double least);

}  // namespace twofold::pictures
