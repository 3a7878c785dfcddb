// The MPI fabric on a GPU, one row per treatment of its buffers. Defined in with_mpi_rows.cc or no_mpi_rows.cc: CMake
// chooses.
#pragma once

#include <string_view>
#include <vector>

#include "tests/conformance/rows.h"

namespace twofold::conformance {

std::vector<Row> MpiRowsOnGpus();

spec::Spec SpecFor(std::string_view fabric);  // with all fields that a spec must have

}  // namespace twofold::conformance
