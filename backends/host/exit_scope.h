// A rank's function that calls exit().
//
// It would run destructors under the feet of the other threads and end the process with a status that may look fine. In a
// scope, the call tells the fabric instead, and its thread stops there for good; the run fails and is reported as usual.
#pragma once

#include <functional>

namespace twofold::host {

// For the thread that makes it. `on_exit` is called with the status, on that thread, at most once. What the thread's stack
// holds is never destroyed then.
class ExitScope {
 public:
  explicit ExitScope(std::function<void(int status)> on_exit);
  ~ExitScope();
  ExitScope(const ExitScope&) = delete;
  ExitScope& operator=(const ExitScope&) = delete;
};

// A thread was left running that cannot be ended: when the process ends, no destructors and exit handlers run any more, but
// for those registered later. Output is flushed.
void LeaveWithoutCleanUp();

}  // namespace twofold::host
