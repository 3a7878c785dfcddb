// Stage against time: who computes which pass of which micro-batch when, and what lies between.
#pragma once

#include <string>
#include <vector>

#include "experiments/program/pictures/schedule_story.h"

namespace twofold::pictures {

// An SVG element: a panel a story, one above the other on one time scale (those in seconds, and those in forward passes, need
// scales of their own: they may not be mixed); in it a row a stage, forward and backward passes as boxes with their
// micro-batch's number where it fits; chunks above the first are paler. At most kMostStages rows a story, the first ones (it
// says so); passes too short to be seen are drawn together with their neighbours, so that the picture stays within about
// kMostPhases elements. Empty when no story has a row.
inline constexpr size_t kMostPhases = 12000;
inline constexpr size_t kMostStages = 64;
std::string SchedulePicture(const std::vector<ScheduleStory>& stories);

}  // namespace twofold::pictures
