// One rank's part of a run, replayed for its memory alone: nothing is computed, nothing is sent, and no time passes.
//
// The rank function is the one that runs everywhere, and what it allocates comes from the same allocator, by the workspace
// rules of the same device, over addresses without memory: so its peaks, reserved bytes and out-of-memory errors are those
// of the whole run, however many ranks that has. The others do not exist: a communication is done when it is issued, holds
// its tensors until the program waits, as everywhere, and brings nothing.
//
// Assumes: what a rank allocates does not depend on what others send. Ignores: time; a program that decides by the clock,
// or takes messages from whoever is first, is given rank 0's.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "core/run/fabric.h"

namespace twofold {

struct ReplayedRank {
  int rank = 0, world_size = 1;
  DeviceKind kind = DeviceKind::kCpu;  // decides workspace rules
  int threads = 1;                     // that one operation may use
  Bytes memory = Bytes(0);             // that the rank may reserve; zero: not bounded
  Bytes host_memory = Bytes(0);        // likewise, of the host's
  Bytes staging = Bytes(0);            // that each group holds of the host's (core/comm/staging.h)
};

struct ReplayResult {
  absl::Status status;  // as Fabric::Run would return it
  std::string result;   // the rank function's, or the partial result of one that failed
};

// Runs `fn` on the calling thread. Groups that are made of the world are known where their members follow from this rank's
// place (SplitEvenly, Partition, Alone); a Split by color fails, since nobody says which colors the others have.
ReplayResult Replay(const ReplayedRank& rank, const RankFunction& fn);

}  // namespace twofold
