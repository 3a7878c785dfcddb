// SIGINT, SIGTERM (sent by scancel, Kubernetes, timeout and launchers), SIGUSR1 (sent by Slurm before a time limit,
// with
// --signal=USR1@N) and SIGHUP (a closed terminal) during a run: the
// first one ends the ranks in order, a later one kills the process as usual. Signals within `kSameInterrupt` of the
// first count as the same interrupt, because senders often signal both a process and its process group, or send several
// signals. A run may choose that a first SIGTERM or SIGUSR1 asks it to end after a step instead (TermAsks).
#pragma once

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdint>

namespace twofold::host {

inline constexpr int kInterrupts[] = {SIGINT, SIGTERM, SIGHUP, SIGUSR1};
inline constexpr std::chrono::milliseconds kSameInterrupt{500};

// Installs the handler for its lifetime, then restores the previous one. Scopes may nest or overlap, since the handler
// belongs to the process. If the process ignores one of the signals (SIGINT in a script's background, SIGHUP under
// nohup), it stays ignored.
class InterruptScope {
 public:
  InterruptScope();
  ~InterruptScope();
  InterruptScope(const InterruptScope&) = delete;
  InterruptScope& operator=(const InterruptScope&) = delete;
  // Thread-safe.
  static bool Raised();   // since the last outermost scope began
  static bool Pending();  // like Raised(), and that scope has not ended
  // Whether a first SIGTERM or SIGUSR1 raises no interrupt but asks the run to end after a step (last_step.h). Any
  // other first signal is an interrupt all the same, and a second signal kills the process. False when an outermost
  // scope begins.
  static void TermAsks(bool asks);
  static bool AskedToEnd();  // since the last outermost scope began
};

// State that signal handlers write and any thread reads.
class Interrupts {
 public:
  bool Again();  // call at each interrupt; returns whether it differs from the first
  bool any() const { return first_ns_ != 0; }
  std::chrono::nanoseconds Age() const;  // since the first; zero if there was none
  void Forget() { first_ns_ = 0; }

 private:
  std::atomic<int64_t> first_ns_ = 0;  // time of the first; 0 if none
  static_assert(std::atomic<int64_t>::is_always_lock_free, "used in signal handlers");
};

}  // namespace twofold::host
