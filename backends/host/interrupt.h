// SIGINT, while a run lasts: the first one ends the ranks in order, a second one kills the process as usual. So does
// SIGTERM where launchers use it to pass an interrupt on.
#pragma once

namespace twofold::host {

// Installs the handler for its lifetime and restores what stood there before. Scopes may nest or overlap: the handler
// belongs to the process. A process that ignores SIGINT (as under nohup) goes on ignoring it.
class InterruptScope {
 public:
  explicit InterruptScope(bool terminate_too = false);
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;
  static bool Raised();  // from any thread
};

}  // namespace twofold::host
