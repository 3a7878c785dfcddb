// Shared memory, as the in-memory fabric does it: ranks synchronise, each moves its share of the bytes with its own
// core, and ranks synchronise again. A byte moved is one byte read and one written; what rank i moves is a flow that
// ends at rank i.
//
//   all_reduce               every rank reads n (N slices of n/N) and writes n:  a + n b
//   all_gather, all_to_all   reads and writes n (all_to_all: its own n):         a + n b
//   reduce_scatter           reads n, writes n/N:                                a + n (1 + 1/N)/2 b
//   broadcast                every rank but the root copies n
//   reduce                   every rank reads n and writes its slice to the root: like reduce_scatter
//   gather, scatter          the root copies n; every rank copies its part
#include "sim/collectives/builder.h"

namespace twofold::sim {

absl::StatusOr<Schedule> SharedMemorySchedule(const CollectiveShape& shape, const Places&) {
  const int n = shape.ranks;
  std::vector<double> moved(static_cast<size_t>(n), 0);
  const size_t root = static_cast<size_t>(shape.root);
  switch (shape.kind) {
    case Communication::kAllReduce:
    case Communication::kAllGather:
    case Communication::kAllToAll: std::fill(moved.begin(), moved.end(), shape.bytes); break;
    case Communication::kReduceScatter:
    case Communication::kReduce: std::fill(moved.begin(), moved.end(), shape.bytes * (1 + 1.0 / n) / 2); break;
    case Communication::kBroadcast:
      std::fill(moved.begin(), moved.end(), shape.bytes);
      moved[root] = 0;
      break;
    case Communication::kScatter: std::fill(moved.begin(), moved.end(), shape.bytes / n); break;
    case Communication::kGather: moved[root] = shape.bytes; break;
    case Communication::kAllToAllV:
      for (size_t i = 0; i < moved.size(); ++i) {
        for (size_t j = 0; j < moved.size(); ++j) moved[j] += shape.matrix[i][j];
      }
      break;
    default: return NoForm("shared_memory", shape);
  }
  Phase phase;
  for (int i = 0; i < n; ++i) phase.flows.push_back({(i + 1) % n, i, moved[static_cast<size_t>(i)]});
  return Finished({std::move(phase)}, n);
}

}  // namespace twofold::sim
