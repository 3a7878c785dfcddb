// A library without software: alpha and beta of the links alone.
#pragma once

#include <memory>

#include "sim/collectives/library.h"

namespace twofold::sim {

std::unique_ptr<Library> MakeIdealLibrary(const cluster::Library& library);

}  // namespace twofold::sim
