// Runs a simulation in a child process that its parent watches, or in this process.
#pragma once

#include <csignal>
#include <functional>
#include <limits>
#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "core/proto/outcome.pb.h"
#include "sim/flight_record.h"

namespace twofold {

// What the parent watches. With `record`, it can tell which rank ended the child, and kills a child whose rank calls
// nothing for `timeout_s`.
struct Watch {
  const sim::FlightRecord* record = nullptr;
  double timeout_s = std::numeric_limits<double>::infinity();
  // If the child ended or was killed without an outcome: the last partial result of each rank (TellPartialResult). May
  // be null.
  std::map<int, std::string>* partial_results = nullptr;
};

// Forks, calls `body` in the child and returns its result. An interrupt of this process (backends/host/interrupt.h) is
// passed on to the child, where InterruptedInChild() becomes true. The child is killed a second later, or at once by a
// later interrupt. It also ends when this process ends, for any reason, but not when the calling thread ends.
//
// INTERNAL if the child ended without a complete outcome: it crashed, or something in it called exit. An outcome too
// large for a message is replaced by one with this code. DEADLINE_EXCEEDED if a rank's own code ran for `timeout_s` and
// called nothing (its sleep and its CPU time count, so that a busy machine is not taken for a hang). CANCELLED if the
// child had to be killed after an interrupt.
absl::StatusOr<outcome::Outcome> RunInChild(const std::function<outcome::Outcome()>& body, const Watch& watch = {});
// Call in the child instead of returning from `body`: what it made need not be destroyed.
[[noreturn]] void EndChildWith(const outcome::Outcome& outcome);

// From now on, simulations of this process for which that is possible run in the process itself, one after another.
// That takes two thirds of the time where they are short. For processes that others watch: nothing tells what ended
// such a process, or that a rank's code hangs. Call it while there is one thread.
void RunSimulationsHere();
bool SimulationsRunHere();
// Calls `body` here. INTERNAL if it throws.
absl::StatusOr<outcome::Outcome> RunHere(const std::function<outcome::Outcome()>& body);

// Holds interrupts back during its lifetime: they arrive at its end, or at Release(). So none is lost between fork and
// the installation of the handlers on both sides.
class HoldInterrupts {
 public:
  HoldInterrupts();
  ~HoldInterrupts() { Release(); }
  HoldInterrupts(const HoldInterrupts&) = delete;
  HoldInterrupts& operator=(const HoldInterrupts&) = delete;
  void Release();

 private:
  sigset_t before_;
};

// Call in the child once SimGrid is initialized, because SimGrid catches interrupts itself (and exits). Interrupts must
// be held back until then: its handler crashes while the engine is being made.
void CatchInterruptsInChild();
bool InterruptedInChild();
// Call in the child, between steps: the result that `rank` would return if it ended now.
void TellPartialResult(int rank, const std::string& bytes);

}  // namespace twofold
