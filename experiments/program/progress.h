// A run's progress on stderr: a bar on a terminal, else a line every few seconds.
#pragma once

#include <chrono>

#include "strategies/trainer.h"

namespace twofold {

// Called from one thread at a time. It may be another thread, even another process, than the one that made the object.
class Progress {
 public:
  Progress();
  void operator()(const StepProgress& p);

 private:
  void Validated(const StepProgress& p);
  void Saved(const StepProgress& p);
  using Time = std::chrono::steady_clock::time_point;  // wall-clock time of the user, not time of the run
  const bool terminal_;
  Time last_, first_;  // first_: the end of the first step, which excludes set-up
};

}  // namespace twofold
