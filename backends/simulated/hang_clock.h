// Measures how long a simulated rank's own code has called nothing.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>

#include "sim/flight_record.h"

namespace twofold {

// Wall time counts while the process sleeps. While it is runnable, only its CPU time counts, so that a busy machine is
// not taken for a hang. No time counts while a debugger or the user has stopped it, or within calls of the simulator.
class HangClock {
 public:
  // `record` is written by process `pid`.
  HangClock(pid_t pid, const sim::FlightRecord& record) : pid_(pid), record_(record) {}
  // Call regularly. Returns the seconds since the rank that is running last called something.
  double Read();

 private:
  using Time = std::chrono::duration<double>;
  static Time Now(clockid_t clock);

  const pid_t pid_;
  const sim::FlightRecord& record_;
  uint64_t progress_ = 0;
  Time wall_{0}, processor_{0};  // when last read
  double silent_ = 0;
};

}  // namespace twofold
