// Handles a rank's function that calls exit().
//
// A plain exit() would run destructors while other threads still use the objects, and could end the process with a
// status that looks like success. Within an ExitScope, the call notifies the fabric instead and blocks its thread
// forever. The run fails and is reported as usual.
#pragma once

#include <functional>

namespace twofold::host {

// Applies to the thread that constructs it. `on_exit` is called with the status, on that thread, at most once. Objects
// on that thread's stack are then never destroyed.
class ExitScope {
 public:
  explicit ExitScope(std::function<void(int status)> on_exit);
  ~ExitScope();
  ExitScope(const ExitScope&) = delete;
  ExitScope& operator=(const ExitScope&) = delete;
};

// Call if a thread was left running that cannot be ended. At process exit no destructors or exit handlers run then,
// except those registered later. Output is flushed.
void LeaveWithoutCleanUp();

}  // namespace twofold::host
