// A simulation in a process of its own.
#pragma once

#include <functional>

#include "absl/status/statusor.h"
#include "core/proto/outcome.pb.h"

namespace twofold {

// Forks, calls `body` in the child and returns what it returned. An interrupt of this process is passed on to the child,
// where InterruptedInChild() turns true; a second one ends it. The child dies with its parent. INTERNAL when it crashed.
absl::StatusOr<outcome::Outcome> RunInChild(const std::function<outcome::Outcome()>& body);

// To be called in the child once SimGrid is up, which catches interrupts itself (and exits).
void CatchInterruptsInChild();
bool InterruptedInChild();

}  // namespace twofold
