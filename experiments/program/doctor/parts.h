// What the program is made of and what it can use here: libraries, fabrics, MPI's launcher, GPUs.
#pragma once

#include <string>
#include <vector>

#include "experiments/program/doctor/finding.h"

namespace twofold::doctor {

Findings AboutParts();

// The versions of known libraries among `paths`, as in /usr/lib/libsimgrid.so.3.32: "SimGrid 3.32, ...".
std::string LibraryVersions(const std::vector<std::string>& paths);

// Starts `words` without input, waits at most `seconds`, and says what came of it: "" if it exits with 0, else why not,
// with the first line that it wrote to stderr.
std::string WhyItFails(const std::vector<std::string>& words, double seconds);

}  // namespace twofold::doctor
