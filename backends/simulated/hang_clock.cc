#include "backends/simulated/hang_clock.h"

#include <time.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>

#include "core/base/strings.h"

namespace twofold {
namespace {

// The state letter of proc(5): R runnable, S sleeping, T and t stopped. Returns 'S' for a process that is gone.
char State(pid_t pid) {
  std::ifstream file(StrCat("/proc/", pid, "/stat"));
  const std::string text((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  const size_t name_end = text.rfind(')');  // the process name before it may contain any characters
  return name_end == std::string::npos || name_end + 2 >= text.size() ? 'S' : text[name_end + 2];
}

}  // namespace

HangClock::Time HangClock::Now(clockid_t clock) {
  timespec t = {};
  clock_gettime(clock, &t);
  return Time(static_cast<double>(t.tv_sec) + static_cast<double>(t.tv_nsec) * 1e-9);
}

double HangClock::Read() {
  const auto turn = record_.turn();
  const uint64_t progress = record_.progress();
  clockid_t clock;
  const Time wall = Now(CLOCK_MONOTONIC);
  const Time processor = clock_getcpuclockid(pid_, &clock) == 0 ? Now(clock) : processor_;
  const double passed = (wall - wall_).count(), ran = (processor - processor_).count();
  const bool silent = progress == progress_ && turn.rank != sim::FlightRecord::kNobody && !turn.in_simulator;
  progress_ = progress;
  wall_ = wall;
  processor_ = processor;
  if (!silent) return silent_ = 0;
  const char state = State(pid_);
  const bool stopped = state == 'T' || state == 't';
  if (!stopped) silent_ += state == 'R' ? std::min(passed, ran) : passed;
  return silent_;
}

}  // namespace twofold
