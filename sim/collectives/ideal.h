// A library without software costs: only alpha and beta of the links.
#pragma once

#include <memory>

#include "sim/collectives/library.h"

namespace twofold::sim {

std::unique_ptr<Library> MakeIdealLibrary(const cluster::Library& library);

}  // namespace twofold::sim
