// Who has this machine's processors: counters of the operating system, of which differences count.
//
// Of Linux, and open to every user: how long a thread was on a processor, and how long it was ready and none was free
// (/proc/thread-self/schedstat, and /proc/self/task/*/schedstat of all threads of the process); how long all processors were busy, and
// what a hypervisor took of them meanwhile (/proc/stat, in ticks of a hundredth of a second: one a processor is taken off what was busy,
// so that no other work is seen where there is none).
#pragma once

#include <functional>
#include <string>
#include <utility>

#include "core/proto/report.pb.h"

namespace twofold::host {

struct ThreadTimes {
  double ran = 0, waited = 0;  // seconds since the thread began
};

// Of the thread that makes it, which alone may read it: a read costs about a microsecond.
class ThreadCounter {
 public:
  // `proc`: the folder with the system's counters; tests have one of their own.
  explicit ThreadCounter(const std::string& proc = "/proc");
  ~ThreadCounter();
  ThreadCounter(const ThreadCounter&) = delete;
  ThreadCounter& operator=(const ThreadCounter&) = delete;
  ThreadTimes Read() const;  // zeros where the system does not count

 private:
  const int file_;
};

// From its making on, for the thread that makes it.
class ProcessorWatch {
 public:
  explicit ProcessorWatch(std::string proc = "/proc") : proc_(std::move(proc)), begin_(Read()) {}
  // Read by the same thread, while the threads that worked for it are still there: those that have ended are not counted. Without fields
  // where the system does not count.
  report::ProcessorUse Use() const;

 private:
  report::ProcessorUse Read() const;
  const std::string proc_;
  const report::ProcessorUse begin_;
};

// What `work` returns, a serialized report::RankRecord, and in it what the calling thread, the rank's, had of processors meanwhile.
std::string WithProcessorUse(const std::function<std::string()>& work);

}  // namespace twofold::host
