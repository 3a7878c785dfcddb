// A simulation in a process of its own, watched by its parent.
#pragma once

#include <functional>
#include <limits>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "core/proto/outcome.pb.h"
#include "sim/flight_record.h"

namespace twofold {

// What the parent watches: with `record`, it can tell which rank was the end of the child, and ends a child whose rank
// calls nothing for `timeout_s`.
struct Watch {
  const sim::FlightRecord* record = nullptr;
  double timeout_s = std::numeric_limits<double>::infinity();
  // Where the child ended, or was ended, without an outcome: what it had told last of each rank (TellPartialResult). May be null.
  std::map<int, std::string>* partial_results = nullptr;
};

// Forks, calls `body` in the child and returns what it returned. An interrupt of this process (backends/host/interrupt.h) is passed
// on to the child, where InterruptedInChild() turns true; it is ended a second later, and by a later interrupt at once. It ends with this
// process, however that ends, and not with the thread that calls.
// INTERNAL when it ended without a whole outcome: it crashed, or something in it called exit; and an outcome of that code in the
// place of one that a message cannot hold. DEADLINE_EXCEEDED when a rank's own
// code ran for `timeout_s` and called nothing (asleep, or of processor time: a busy machine is not taken for a hang).
// CANCELLED where the child had to be ended after an interrupt.
absl::StatusOr<outcome::Outcome> RunInChild(const std::function<outcome::Outcome()>& body, const Watch& watch = {});

// To be called in the child once SimGrid is up, which catches interrupts itself (and exits).
void CatchInterruptsInChild();
bool InterruptedInChild();
// In the child, between steps: what `rank` would hand back if it ended now.
void TellPartialResult(int rank, const std::string& bytes);

}  // namespace twofold
