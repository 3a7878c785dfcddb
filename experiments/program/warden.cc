#include "experiments/program/warden.h"

#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <set>
#include <stdexcept>

#include "core/base/strings.h"

namespace twofold {
namespace {

constexpr double kLook_s = 0.02;

// Message to the warden: a group to guard, or its negative to forget it; kFarewell ends the warden.
constexpr pid_t kFarewell = 0;

void SleepFor(double seconds) {
  const auto whole = static_cast<time_t>(seconds);
  const timespec time = {whole, static_cast<long>((seconds - static_cast<double>(whole)) * 1e9)};
  nanosleep(&time, nullptr);
}

// Sends SIGTERM, and at the end SIGKILL to what is left.
void EndGroups(std::set<pid_t> groups, double kill_after_s) {
  for (const pid_t group : groups) kill(-group, SIGTERM);
  for (double waited = 0; waited < kill_after_s && !groups.empty(); waited += kLook_s) {
    SleepFor(kLook_s);
    std::erase_if(groups, [](pid_t group) { return kill(-group, 0) != 0; });
  }
  for (const pid_t group : groups) kill(-group, SIGKILL);
}

// Allocates memory, which glibc allows in a forked child. Runs in a process group of its own, which no terminal's
// signals reach, with the connection as its only open file.
[[noreturn]] void Listen(int connection, double kill_after_s) {
  setpgid(0, 0);
  sigset_t all;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, nullptr);
  dup2(connection, STDIN_FILENO);
  close_range(STDIN_FILENO + 1, ~0u, 0);
  std::set<pid_t> groups;
  for (pid_t said = 0;;) {
    const ssize_t got = read(STDIN_FILENO, &said, sizeof said);
    if (got < 0 && errno == EINTR) continue;
    if (got != sizeof said) break;
    if (said == kFarewell) _exit(0);
    if (said > 0)
      groups.insert(said);
    else
      groups.erase(-said);
  }
  EndGroups(std::move(groups), kill_after_s);
  _exit(0);
}

}  // namespace

Warden::Warden(double kill_after_s) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    throw std::runtime_error(StrCat("launch: cannot create a socket pair: ", strerror(errno)));
  }
  pid_ = fork();
  if (pid_ == 0) Listen(ends[0], kill_after_s);
  close(ends[0]);
  to_warden_ = ends[1];
  if (pid_ > 0) return;
  close(to_warden_);
  throw std::runtime_error(
      StrCat("launch: cannot create the process that ends the ranks' process groups: ", strerror(errno)));
}

Warden::~Warden() { close(to_warden_); }

void Warden::Guard(pid_t group) { Tell(group); }
void Warden::Forget(pid_t group) { Tell(-group); }

void Warden::Dismiss() {
  Tell(kFarewell);
  while (waitpid(pid_, nullptr, 0) < 0 && errno == EINTR) {
  }
}

// Errors are ignored: a warden that was itself killed is only missed if this process is killed too.
void Warden::Tell(pid_t word) { (void)!send(to_warden_, &word, sizeof word, MSG_NOSIGNAL); }

}  // namespace twofold
