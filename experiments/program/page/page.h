// The pages of `twofold report`: self-contained HTML files, to look at runs, plans, sweeps, storms and studies with a
// browser.
//
// Tables, losses and step times are HTML and SVG, and are there without JavaScript. All else is drawn by the scripts in
// web/ from the data that the page carries (page_data.h). A page needs no other file and no network.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "experiments/program/pictures/run_data.h"

namespace twofold::page {

// One run or several, in the order given: with two, the summary has their difference.
std::string PageOf(const std::vector<const pictures::RunData*>& runs);

// Of a folder that `twofold plan --out` wrote (plan.json, layouts.csv, spec.textproto). Errors name the file and what
// is wrong in it.
absl::StatusOr<std::string> PlanPage(const std::string& folder);

// Of a folder that `twofold sweep` wrote (sweep.json; sweep.svg if it is there).
absl::StatusOr<std::string> SweepPage(const std::string& folder);

// Of a folder with the replayed schedule of a storm, which `twofold storm --replay` wrote (replay.json).
absl::StatusOr<std::string> StormPage(const std::string& folder);

// Of the folder of a study (experiments/studies), whose rows have a prediction and a measurement each (results.json).
absl::StatusOr<std::string> StudyPage(const std::string& folder);

// Of folders of runs, or of the folder of one plan, one sweep, one storm or one study. `runs`, if given, gets the runs
// that were read.
absl::StatusOr<std::string> PageOfFolders(const std::vector<std::string>& folders,
                                          std::vector<pictures::RunData>* runs = nullptr);

}  // namespace twofold::page
