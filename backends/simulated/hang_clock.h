// How long a simulated rank's own code has called nothing.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>

#include "sim/flight_record.h"

namespace twofold {

// Time counts while the process sleeps; while it could run, only what it ran counts, so that a machine with much else to do
// is not taken for a hang. None counts while a debugger or the user has stopped it, nor within calls of the simulator.
class HangClock {
 public:
  // `record` is written by process `pid`.
  HangClock(pid_t pid, const sim::FlightRecord& record) : pid_(pid), record_(record) {}
  // To be called every now and then. Seconds since the rank whose turn it is last called something.
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
