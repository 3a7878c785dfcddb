#include "sim/at_work.h"

#include <signal.h>
#include <sys/time.h>

namespace twofold::sim {
namespace {

volatile sig_atomic_t g_part = static_cast<int>(Part::kEngine);
volatile int64_t g_samples[kPartNames.size()];  // written by the handler only

[[maybe_unused]] void Sample(int) { g_samples[g_part] = g_samples[g_part] + 1; }

}  // namespace

AtWork::AtWork(Part part) : before_(g_part) { g_part = static_cast<int>(part); }
AtWork::~AtWork() { g_part = before_; }

#ifdef TWOFOLD_SANITIZED
// Actors are threads then, and the thread sanitizer holds signals back while they wait for each other, for ever.
void StartSampling() {}
#else
void StartSampling() {
  for (volatile int64_t& samples : g_samples) samples = 0;
  struct sigaction action = {};
  action.sa_handler = Sample;
  action.sa_flags = SA_RESTART | SA_ONSTACK;  // an actor's stack may be too small
  sigaction(SIGPROF, &action, nullptr);
  const timeval often = {.tv_sec = 0, .tv_usec = 1000};
  const itimerval timer = {.it_interval = often, .it_value = often};
  setitimer(ITIMER_PROF, &timer, nullptr);
}
#endif

std::array<int64_t, kPartNames.size()> Samples() {
  std::array<int64_t, kPartNames.size()> all;
  for (size_t p = 0; p < all.size(); ++p) all[p] = g_samples[p];
  return all;
}

}  // namespace twofold::sim
