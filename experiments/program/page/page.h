// The page of a report: one self-contained HTML file, to look at runs with a browser.
//
// Tables, losses and step times are HTML and SVG, and are there without JavaScript. The time line, the pipeline, memory
// and the parts of a step are drawn by the scripts in web/ from the data that the page carries (page_data.h).
#pragma once

#include <string>
#include <vector>

#include "experiments/program/pictures/run_data.h"

namespace twofold::page {

// One run or several, in the order given: with two, the summary has their difference. Needs no other file and no
// network.
std::string PageOf(const std::vector<const pictures::RunData*>& runs);

}  // namespace twofold::page
