// Replays one rank of a run to measure its memory, or the time that its own work takes: nothing is computed, and
// nothing is sent.
//
// The rank function is the same as in a real run. It allocates from the same allocator, with the workspace rules of the
// same device, over addresses without memory. So its peaks, reserved bytes and out-of-memory errors are those of the
// whole run, however many ranks that has. The other ranks do not exist: a communication is done when it is issued,
// holds its tensors until the program waits, as everywhere, and delivers no data.
//
// Assumes: what a rank allocates does not depend on what others send. Ignores: waits for others; the rank's clock
// stands still. A program that takes messages from any source gets rank 0's; one that decides by the clock sees no time
// pass.
#pragma once

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "backends/replay/times.h"
#include "core/run/fabric.h"

namespace twofold {

struct ReplayedRank {
  int rank = 0, world_size = 1;
  DeviceKind kind = DeviceKind::kCpu;  // determines workspace sizes
  int threads = 1;                     // threads per operation
  Bytes memory = Bytes(0);             // limit; zero: not bounded
  Bytes host_memory = Bytes(0);        // limit of host memory; zero: not bounded
  Bytes staging = Bytes(0);            // host memory held by each group (core/comm/staging.h)
};

struct ReplayResult {
  absl::Status status;  // as Fabric::Run would return it
  std::string result;   // the rank function's result, or the partial result of a rank that failed
  // What the rank said of groups (ProcessGroup::RanksDiffer), and so of groups that were made like them: ranks with
  // unequal numbers may allocate differently. By rank; empty if it said nothing.
  std::vector<int> kinds;
};

// Runs `fn` on the calling thread. Subgroups can be made if their members follow from this rank's place (SplitEvenly,
// Partition, Alone). A Split by color fails, since the other ranks' colors are unknown. `times`: how long the rank's
// work takes (times.h); null: none of it takes time.
ReplayResult Replay(const ReplayedRank& rank, const RankFunction& fn, ReplayTimes* times = nullptr);

}  // namespace twofold
