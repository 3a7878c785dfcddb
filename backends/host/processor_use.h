// CPU usage of this machine, as differences of operating-system counters.
//
// From Linux, readable by every user: how long a thread ran on a CPU and how long it was ready but had none
// (/proc/thread-self/schedstat, and /proc/self/task/*/schedstat for all threads of the process); how long all CPUs were
// busy, and how much of them a hypervisor took (/proc/stat, in ticks of a hundredth of a second). One tick per CPU is
// subtracted from the busy time, so that rounding does not look like other work.
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "core/proto/report.pb.h"

namespace twofold::host {

struct ThreadTimes {
  double ran = 0, waited = 0;  // seconds since the thread began
};

// Measures the thread that constructs it; only that thread may read it. A read costs about a microsecond.
class ThreadCounter {
 public:
  // `proc`: the directory with the system's counters; tests pass their own.
  explicit ThreadCounter(const std::string& proc = "/proc");
  ~ThreadCounter();
  ThreadCounter(const ThreadCounter&) = delete;
  ThreadCounter& operator=(const ThreadCounter&) = delete;
  ThreadTimes Read() const;  // zeros if the system does not count

 private:
  const int file_;
};

// Measures from its construction on, for the thread that constructs it.
class ProcessorWatch {
 public:
  explicit ProcessorWatch(std::string proc = "/proc") : proc_(std::move(proc)), begin_(Read()) {}
  // Call on the same thread, while its worker threads are still alive: threads that have ended are not counted. The
  // result has no fields if the system does not count.
  report::ProcessorUse Use() const;

 private:
  report::ProcessorUse Read() const;
  const std::string proc_;
  const report::ProcessorUse begin_;
};

// Runs `work` and returns its result, a serialized report::RankRecord, with the CPU usage of the calling thread (the
// rank's) added.
std::string WithProcessorUse(const std::function<std::string()>& work);

}  // namespace twofold::host
