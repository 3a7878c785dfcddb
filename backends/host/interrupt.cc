#include "backends/host/interrupt.h"

#include <csignal>

#include <atomic>
#include <mutex>

namespace twofold::host {
namespace {

std::atomic<bool> raised = false;
static_assert(std::atomic<bool>::is_always_lock_free, "used in a signal handler");

std::mutex scopes_mutex;
int scopes = 0;
struct sigaction previous;

extern "C" void OnInterrupt(int) { raised.store(true, std::memory_order_relaxed); }

}  // namespace

InterruptScope::InterruptScope() {
  std::lock_guard lock(scopes_mutex);
  if (scopes++ > 0) return;
  raised.store(false, std::memory_order_relaxed);
  struct sigaction action = {};
  action.sa_handler = OnInterrupt;
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);  // the second one finds the default action
  sigaction(SIGINT, nullptr, &previous);
  if (previous.sa_handler != SIG_IGN) sigaction(SIGINT, &action, nullptr);
}

InterruptScope::~InterruptScope() {
  std::lock_guard lock(scopes_mutex);
  if (--scopes == 0) sigaction(SIGINT, &previous, nullptr);
}

bool InterruptScope::Raised() { return raised.load(std::memory_order_relaxed); }

}  // namespace twofold::host
