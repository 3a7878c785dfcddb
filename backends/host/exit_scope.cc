#include "backends/host/exit_scope.h"

#include <stdlib.h>
#include <unistd.h>

#include <cstdio>
#include <utility>

namespace twofold::host {
namespace {

thread_local std::function<void(int)> on_this_thread;

void StopHere(int status, void*) {
  if (!on_this_thread) return;  // a normal process exit
  const std::function<void(int)> tell = std::exchange(on_this_thread, nullptr);
  tell(status);
  while (true) pause();  // if another thread calls exit(), it runs the remaining handlers
}

}  // namespace

ExitScope::ExitScope(std::function<void(int status)> tell) {
  on_exit(StopHere, nullptr);  // register in each scope: a handler runs only once
  on_this_thread = std::move(tell);
}

ExitScope::~ExitScope() { on_this_thread = nullptr; }

void LeaveWithoutCleanUp() {
  static const int registered = on_exit(
      [](int status, void*) {
        std::fflush(nullptr);
        _exit(status);
      },
      nullptr);
  (void)registered;
}

}  // namespace twofold::host
