// How the processes of a run find the step after which it ends (backends/host/last_step.h): through rank 0, by messages
// of the control plane.
//
//   a process whose rank sees the signal   ask    -> rank 0
//   rank 0, at the first of these          hold   -> all
//   each process                           begun  -> rank 0
//   rank 0, once it has heard all          last   -> all
//
// A process that is lost meanwhile ends the run, and with it the wait of the others.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>

#include "backends/control/control.pb.h"
#include "backends/host/last_step.h"

namespace twofold::processes {

// One per process and run. `relay` sends a message to the rank that it names; thread-safe, and valid during the run.
class LastStepVote {
 public:
  LastStepVote(int world_size, std::function<void(control::Relayed)> relay);

  const std::shared_ptr<host::LastStep>& last_step() const { return last_step_; }
  void Hear(const control::Relayed& message);  // on the control client's thread

 private:
  void ToAll(const control::LastStep& what) const;

  const int world_size_;
  const std::function<void(control::Relayed)> relay_;
  const std::shared_ptr<host::LastStep> last_step_;
  bool holds_ = false;            // on rank 0: all were told to hold
  std::map<int, int64_t> begun_;  // on rank 0, by rank
};

}  // namespace twofold::processes
