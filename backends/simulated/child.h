// A simulation in a process of its own, watched by its parent.
#pragma once

#include <functional>
#include <limits>

#include "absl/status/statusor.h"
#include "core/proto/outcome.pb.h"
#include "sim/flight_record.h"

namespace twofold {

// What the parent watches: with `record`, it can tell which rank was the end of the child, and ends a child whose rank
// calls nothing for `timeout_s`.
struct Watch {
  const sim::FlightRecord* record = nullptr;
  double timeout_s = std::numeric_limits<double>::infinity();
};

// Forks, calls `body` in the child and returns what it returned. An interrupt of this process (backends/host/interrupt.h) is passed
// on to the child, where InterruptedInChild() turns true; a later one ends it. The child dies with its parent.
// INTERNAL when it ended without a whole outcome: it crashed, or something in it called exit; and an outcome of that code in the
// place of one that a message cannot hold. DEADLINE_EXCEEDED when a rank's own
// code ran for `timeout_s` and called nothing (asleep, or of processor time: a busy machine is not taken for a hang).
// CANCELLED after a second interrupt.
absl::StatusOr<outcome::Outcome> RunInChild(const std::function<outcome::Outcome()>& body, const Watch& watch = {});

// To be called in the child once SimGrid is up, which catches interrupts itself (and exits).
void CatchInterruptsInChild();
bool InterruptedInChild();

}  // namespace twofold
