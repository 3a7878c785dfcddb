// Waits for processes that a test starts, with a deadline. After it they are killed and the test fails.
#pragma once

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <string>
#include <thread>

namespace twofold {

// Seconds after which a process of a test counts as hung. Alone none takes a minute; with much other work on the
// machine it takes several times as long.
inline constexpr double kProcessDeadline = 400;

// Waits for a child as waitpid() does, and returns its status. After `seconds` it kills the child, or all of group
// -pid, and fails the test.
inline int AwaitProcess(pid_t pid, const std::string& what = "", double seconds = kProcessDeadline) {
  const pid_t child = pid < 0 ? -pid : pid;
  const auto limit = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  int status = 0;
  while (true) {
    const pid_t ended = waitpid(child, &status, WNOHANG);
    if (ended == child) return status;
    if (ended < 0 && errno != EINTR) break;
    if (std::chrono::steady_clock::now() > limit) break;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  kill(pid, SIGKILL);
  waitpid(child, &status, 0);
  ADD_FAILURE() << "process " << child << (what.empty() ? "" : ", ") << what << ", had not ended after " << seconds
                << " s and was killed";
  return status;
}

// Waits until holds(); false, and a test failure, after `seconds`.
template <class F>
bool AwaitThat(F&& holds, const std::string& what, double seconds = kProcessDeadline) {
  const auto limit = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (!holds()) {
    if (std::chrono::steady_clock::now() > limit) {
      ADD_FAILURE() << what << " did not happen within " << seconds << " s";
      return false;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
  return true;
}

// std::system(), with a deadline for the shell and everything that it starts.
inline int RunShell(const std::string& command, double seconds = kProcessDeadline) {
  const pid_t child = fork();
  if (child == 0) {
    setpgid(0, 0);
    execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
    _exit(127);
  }
  if (child < 0) return -1;
  setpgid(child, child);  // in parent and child, because either may come first
  return AwaitProcess(-child, command, seconds);
}

}  // namespace twofold
