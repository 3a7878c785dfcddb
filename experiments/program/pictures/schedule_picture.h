// A pipeline's schedule, stage against time: which pass of which micro-batch runs when, and the gaps between them.
#pragma once

#include <string>
#include <vector>

#include "experiments/program/pictures/schedule_story.h"

namespace twofold::pictures {

// An SVG element: one panel per story, one above the other on one time scale (stories in seconds and stories in forward
// passes need different scales and may not be mixed). A panel has one row per stage. Forward and backward passes are
// boxes, with the micro-batch's number if it fits; chunks above the first are paler. A story shows its first
// kMostStages rows at most, and says so. Passes too short to be seen are merged with their neighbours, so that the
// picture stays within about kMostPhases elements. Empty if no story has a row.
inline constexpr size_t kMostPhases = 12000;
inline constexpr size_t kMostStages = 64;
std::string SchedulePicture(const std::vector<ScheduleStory>& stories);

}  // namespace twofold::pictures
