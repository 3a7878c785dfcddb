// Runs graphs of work and communication (core/run/workload.h) on simulated ranks: a node begins when all that it
// follows have ended. Work takes the seconds that its node says; communication takes what the network says, and waits
// for its peers. Collectives of a group, and messages between two ranks with the same tag, match in the order of their
// nodes.
//
// Assumes that work of one rank is never slowed down by its other work or by communication: the graph says what waits.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "core/proto/spec.pb.h"
#include "core/run/workload.h"

namespace twofold {

struct WorkloadRun {
  struct Times {
    double begin = 0, end = 0;  // seconds since the run began
  };
  std::vector<std::vector<Times>> of;  // by rank and node
  std::vector<std::string> notes;      // what a reader must know
};

// `spec` has the simulated fabric, and as many ranks as the workload. Errors: what the spec asks for is not possible;
// ranks wait for one another (Deadlock) or call different collectives, with both sides named.
absl::StatusOr<WorkloadRun> RunWorkload(const spec::Spec& spec, const Workload& workload);

}  // namespace twofold
