// What the program is made of and what it can use here: libraries, fabrics, MPI's launcher, GPUs.
#pragma once

#include <string>
#include <vector>

#include "backends/launch/launch.h"
#include "experiments/program/doctor/finding.h"

namespace twofold::doctor {

Findings AboutParts();

// The versions of known libraries among `paths`, as in /usr/lib/libsimgrid.so.3.32: "SimGrid 3.32, ...".
std::string LibraryVersions(const std::vector<std::string>& paths);

// Of MPI's launcher: whether it starts a process by `words`, as in mpirun -n 1. Among processes of a launcher it is not
// tried, since it would wait for what the launcher has given to them.
Finding AboutMpi(std::vector<std::string> words, const Variables& variables);

// Starts `words` without input, waits at most `seconds`, and says what came of it: "" if it exits with 0, else why not,
// with the first line that it wrote to stderr.
std::string WhyItFails(const std::vector<std::string>& words, double seconds);

}  // namespace twofold::doctor
