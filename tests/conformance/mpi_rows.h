// The MPI fabric on a GPU, each way of treating its buffers a row. with_mpi_rows.cc or no_mpi_rows.cc defines it: CMake chooses.
#pragma once

#include <string_view>
#include <vector>

#include "tests/conformance/rows.h"

namespace twofold::conformance {

std::vector<Row> MpiRowsOnGpus();

spec::Spec SpecFor(std::string_view fabric);  // with what a spec has to have

}  // namespace twofold::conformance
