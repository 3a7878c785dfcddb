// SIGINT, SIGTERM (scancel, Kubernetes, timeout and launchers send it) and SIGHUP (a terminal that is closed), while a run lasts:
// the first ends the ranks in order, a later one kills the process as usual. What comes within `kSameInterrupt` of the first is the
// same one: senders reach a process and its process group, or send several signals.
#pragma once

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>

namespace twofold::host {

inline constexpr int kInterrupts[] = {SIGINT, SIGTERM, SIGHUP};
inline constexpr std::chrono::milliseconds kSameInterrupt{500};

// Installs the handler for its lifetime and restores what stood there before. Scopes may nest or overlap: the handler
// belongs to the process. A process that ignores one of the signals (SIGINT in a script's background, SIGHUP under nohup) goes on
// ignoring it.
class InterruptScope {
 public:
  InterruptScope();
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;
  // Any thread.
  static bool Raised();   // since the last outermost scope began
  static bool Pending();  // and that scope has not ended
};

// What signal handlers remember, and others ask from any thread.
class Interrupts {
 public:
  bool Again();  // to be called at each: whether it is another one than the first
  bool any() const { return first_ns_ != 0; }
  std::chrono::nanoseconds Age() const;  // since the first; zero: none
  void Forget() { first_ns_ = 0; }

 private:
  std::atomic<int64_t> first_ns_ = 0;  // when; 0: none
  static_assert(std::atomic<int64_t>::is_always_lock_free, "used in signal handlers");
};

}  // namespace twofold::host
