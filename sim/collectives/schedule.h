// A collective algorithm as data: phases of flows.
//
// A phase costs `rounds` times the latency of its longest route, then the time its flows need together; the next phase
// starts when all flows of this one have arrived (the phases of one collective are bulk-synchronous). Rounds that are
// alike and back to back (the 2(N-1) steps of a ring) are one phase: rounds x latency + all their bytes.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "core/comm/communication.h"

namespace twofold::sim {

struct Flow {
  int from, to;  // ranks in the group
  double bytes;
};

struct Phase {
  int rounds = 1;
  std::vector<Flow> flows;  // without flows: only the latency of a round of messages
};

struct Schedule {
  std::vector<Phase> phases;
  // For each rank, the last phase it takes part in, -1 for none: it is done when that has ended.
  std::vector<int> last_phase;
  double stretch = 1;  // of its latencies and its bytes: where a measurement says that it takes so many times as long
};

// What is to be done, by sizes alone.
struct CollectiveShape {
  Communication::Kind kind;
  int ranks;
  double bytes;  // Communication::bytes(): all-reduce and broadcast the tensor, all-gather the output, ...
  int root = 0;
  std::vector<std::vector<double>> matrix;  // kAllToAllV: bytes from rank i to rank j
};

// One algorithm: a file each, a row in algorithms.cc.
struct Algorithm {
  std::string_view name, summary;
  // Refuses what it cannot do (an operation it has no form for, a number of ranks it does not serve).
  absl::StatusOr<Schedule> (*make)(const CollectiveShape& shape);
};

absl::StatusOr<Schedule> RingSchedule(const CollectiveShape& shape);
absl::StatusOr<Schedule> TreeSchedule(const CollectiveShape& shape);
absl::StatusOr<Schedule> RecursiveDoublingSchedule(const CollectiveShape& shape);
absl::StatusOr<Schedule> DirectSchedule(const CollectiveShape& shape);
absl::StatusOr<Schedule> SharedMemorySchedule(const CollectiveShape& shape);

const std::vector<Algorithm>& Algorithms();

// Time on an idle uniform network: alpha a round, and for each phase the most bytes that one rank sends or receives
// divided by `bandwidth`.
double EstimateSeconds(const Schedule& schedule, double alpha, double bandwidth);

// The schedule by name, or for "auto" by this rule: on a shared-memory host, shared_memory; elsewhere the one of ring,
// recursive_doubling and tree with the least EstimateSeconds (the first where several tie), and direct for what they have
// no form for. Direct is not chosen beside them because the model does not know what posting N - 1 messages costs.
// A barrier is always dissemination (log2 N rounds; one meeting on a shared-memory host).
absl::StatusOr<Schedule> ChooseSchedule(const CollectiveShape& shape, std::string_view algorithm, double alpha,
                                        double bandwidth, bool shared_memory_host);

}  // namespace twofold::sim
