// What reading and writing files takes in a simulation. On real fabrics files take their own time.
//
// Assumes: each rank reads and writes at a constant rate, whatever the others do. What a file takes beside its bytes
// (syncs, renames) is part of the rate. Ignores: that training slows down while files are written beside it.
#pragma once

#include "core/base/units.h"

namespace twofold {

struct FileCosts {
  BytesPerSecond write, read;  // of one rank, while all ranks do the same
};

}  // namespace twofold
