#include "backends/host/interrupt.h"

#include <time.h>

#include <csignal>
#include <iterator>
#include <mutex>

namespace twofold::host {
namespace {

Interrupts interrupts;
std::atomic<bool> term_asks = false;
// The first signal raises an interrupt or asks the run to end. Others of the same moment change nothing.
std::atomic<bool> interrupted = false, asked_to_end = false;
static_assert(std::atomic<bool>::is_always_lock_free, "used in signal handlers");
std::mutex scopes_mutex;
int scopes = 0;
struct sigaction previous[std::size(kInterrupts)];

int64_t NowNs() {  // never 0
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t{now.tv_sec} * 1'000'000'000 + now.tv_nsec + 1;
}

extern "C" void OnInterrupt(int signal) {
  if (!interrupts.Again()) {
    const bool asks = (signal == SIGTERM || signal == SIGUSR1) && term_asks;
    if (!interrupted && !asked_to_end) (asks ? asked_to_end : interrupted) = true;
    return;
  }
  std::signal(signal, SIG_DFL);
  std::raise(signal);  // delivered after this handler returns
}

}  // namespace

bool Interrupts::Again() {
  const int64_t now_ns = NowNs();
  int64_t first_ns = 0;
  if (first_ns_.compare_exchange_strong(first_ns, now_ns)) return false;
  return std::chrono::nanoseconds(now_ns - first_ns) > kSameInterrupt;
}

std::chrono::nanoseconds Interrupts::Age() const {
  const int64_t first_ns = first_ns_;
  return std::chrono::nanoseconds(first_ns == 0 ? 0 : NowNs() - first_ns);
}

InterruptScope::InterruptScope() {
  std::lock_guard lock(scopes_mutex);
  if (scopes++ > 0) return;
  interrupts.Forget();
  term_asks = interrupted = asked_to_end = false;
  struct sigaction action = {};
  action.sa_handler = OnInterrupt;
  action.sa_flags = SA_RESTART;
  for (size_t i = 0; i < std::size(kInterrupts); ++i) {
    sigaction(kInterrupts[i], nullptr, &previous[i]);
    if (previous[i].sa_handler != SIG_IGN) sigaction(kInterrupts[i], &action, nullptr);
  }
}

InterruptScope::~InterruptScope() {
  std::lock_guard lock(scopes_mutex);
  if (--scopes > 0) return;
  for (size_t i = 0; i < std::size(kInterrupts); ++i) sigaction(kInterrupts[i], &previous[i], nullptr);
}

bool InterruptScope::Raised() { return interrupted; }

bool InterruptScope::Pending() {
  std::lock_guard lock(scopes_mutex);
  return scopes > 0 && interrupted;
}

void InterruptScope::TermAsks(bool asks) { term_asks = asks; }

bool InterruptScope::AskedToEnd() { return asked_to_end; }

}  // namespace twofold::host
