// The rank function of a bench: runs each size in turn, out of place and in place, times it and checks it.
//
// It measures as nccl-tests does (src/common.cu): warm-up calls, a barrier, then a loop that is timed as a whole; the
// mean over ranks is reported. A call is issued while the ones before it still run, so what successive calls overlap
// costs nothing: along a chain (broadcast, reduce) the first ranks are free for the next call before the last are done.
// Two calls are in flight, or eight of at most 1 MiB, which bounds their workspaces. With Request::wait each call is
// waited for before the next (nccl-tests' --blocking 1): the time that a program sees if it needs the result at once.
// If only one call is timed (predictions), the last rank's time is reported instead. In a loop, ranks that finish a
// gather early wait in the next one, so the mean over ranks tends to the last rank's time; over one call it would not.
//
// Then the data is set again, the operation runs once more, and every rank compares its output. Timed calls work on
// zeros, which stay zeros however often they are reduced.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/run/rank_context.h"
#include "core/run/rank_results.h"
#include "experiments/program/bench/operations.h"

namespace twofold::bench {

struct Request {
  const Operation* operation = nullptr;
  DType dtype = DType::kF32;
  ReduceOp reduce = ReduceOp::kSum;
  int root = 0;
  int iterations = 20, warmup = 5;
  bool check = true;
  bool wait = false;            // for each call before the next
  bool last_rank = false;       // report the time until the last rank is done, not the mean over ranks
  std::vector<int64_t> blocks;  // elements of a block, one entry per size
  // Called by rank 0 before size number `index`, on rank 0's thread (or in its process); may be empty.
  std::function<void(size_t index)> progress;
};

// The rank function. Returns packed results of all sizes; its partial result holds the sizes finished so far. Throws
// what communication and allocation throw.
std::string MeasureRank(RankContext& ctx, const Request& request);

struct Timing {
  double seconds = 0;            // of one call: mean over iterations, and over ranks unless Request::last_rank
  std::optional<int64_t> wrong;  // wrong elements over all ranks; absent: not checked
};
struct Row {
  int64_t bytes = 0, block = 0;
  std::optional<Timing> out_of_place, in_place;  // absent: the operation has no such form
  std::string algorithm, protocol;               // predicted: the ones that ran; "": unknown, or the library has none
};

// Rows of the sizes that all ranks have finished. `results` by rank, as returned by MeasureRank.
std::vector<Row> CombineRanks(const Request& request, const RankResults& results);

}  // namespace twofold::bench
