// The activity of every rank's streams in the traced steps.
#pragma once

#include <string>
#include <vector>

#include "experiments/program/pictures/run_data.h"

namespace twofold::pictures {

// An SVG element: one panel per run, one above the other on one time scale, with one row per rank and stream. Spans
// carry their name and duration as a title. Spans too short to be seen are merged with their neighbours, so that the
// picture stays within about kMostSpans elements. At most the first kMostRanks ranks of a run are drawn; the picture
// says so. Empty if no run has a trace.
inline constexpr size_t kMostSpans = 9000;
inline constexpr int kMostRanks = 16;
std::string TimelinePicture(const std::vector<const RunData*>& runs);

// Spans of one lane as drawn: neighbours that are shorter than `least` seconds each, and no further apart, are merged.
struct DrawnBox {
  double start, end;
  int spans;  // number of merged spans
  const DrawnSpan* longest;
};
std::vector<DrawnBox> MergeShort(const std::vector<DrawnSpan>& spans, double least);

}  // namespace twofold::pictures
