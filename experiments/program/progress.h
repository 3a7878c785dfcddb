// How far a run is, on stderr: a bar where that is a terminal, else a line every few seconds.
#pragma once

#include <chrono>
#include <functional>

#include "strategies/trainer.h"

namespace twofold {

// Called from one thread at a time, which need not be (nor be in the process of) the one that made it.
class Progress {
 public:
  Progress();
  void operator()(const StepProgress& p);
  static void ClearLine();  // removes a bar that is on the screen

 private:
  void Validated(const StepProgress& p);
  void Saved(const StepProgress& p);
  using Time = std::chrono::steady_clock::time_point;  // of the person who waits, not of the run
  const bool terminal_;
  Time last_, first_;  // first_: when the first step had been done, which set-up precedes
};

}  // namespace twofold
