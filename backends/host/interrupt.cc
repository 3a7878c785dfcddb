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
struct sigaction previous_interrupt, previous_terminate;
bool terminate_caught = false;

extern "C" void OnInterrupt(int) { raised.store(true, std::memory_order_relaxed); }

void Catch(int signal, struct sigaction& previous) {
  struct sigaction action = {};
  action.sa_handler = OnInterrupt;
  action.sa_flags = static_cast<int>(SA_RESETHAND | SA_RESTART);  // the second one finds the default action
  sigaction(signal, nullptr, &previous);
  if (previous.sa_handler != SIG_IGN) sigaction(signal, &action, nullptr);
}

}  // namespace

InterruptScope::InterruptScope(bool terminate_too) {
  std::lock_guard lock(scopes_mutex);
  if (scopes++ > 0) return;
  raised.store(false, std::memory_order_relaxed);
  Catch(SIGINT, previous_interrupt);
  terminate_caught = terminate_too;
  if (terminate_too) Catch(SIGTERM, previous_terminate);
}

InterruptScope::~InterruptScope() {
  std::lock_guard lock(scopes_mutex);
  if (--scopes > 0) return;
  sigaction(SIGINT, &previous_interrupt, nullptr);
  if (terminate_caught) sigaction(SIGTERM, &previous_terminate, nullptr);
}

bool InterruptScope::Raised() { return raised.load(std::memory_order_relaxed); }

}  // namespace twofold::host
