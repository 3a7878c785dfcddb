#include "backends/simulated/child.h"

#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>

#include "core/base/strings.h"

namespace twofold {
namespace {

// Written by signal handlers; one simulation runs at a time.
volatile sig_atomic_t g_interrupted = 0;
volatile sig_atomic_t g_child = 0;

void OnInterruptInChild(int) {
  if (g_interrupted != 0) _exit(130);
  g_interrupted = 1;
}

void PassOn(int) {
  if (g_child > 0) kill(static_cast<pid_t>(g_child), SIGINT);
}

void SetHandler(void (*handler)(int), struct sigaction* old) {
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigaction(SIGINT, &action, old);
}

void WriteAll(int fd, const std::string& bytes) {
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t n = write(fd, bytes.data() + done, bytes.size() - done);
    if (n > 0) done += static_cast<size_t>(n);
    if (n < 0 && errno != EINTR) _exit(1);
  }
}

std::string ReadAll(int fd) {
  std::string bytes;
  char buffer[1 << 16];
  while (true) {
    const ssize_t n = read(fd, buffer, sizeof buffer);
    if (n > 0) bytes.append(buffer, static_cast<size_t>(n));
    if (n == 0 || (n < 0 && errno != EINTR)) return bytes;
  }
}

// Interrupts wait while it lives: none is lost between fork and the handlers on both sides.
class HoldInterrupts {
 public:
  HoldInterrupts() {
    sigset_t interrupt;
    sigemptyset(&interrupt);
    sigaddset(&interrupt, SIGINT);
    sigprocmask(SIG_BLOCK, &interrupt, &before_);
  }
  ~HoldInterrupts() { Release(); }
  void Release() { sigprocmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

[[noreturn]] void RunChild(int out, HoldInterrupts& hold, const std::function<outcome::Outcome()>& body) {
  setpgid(0, 0);  // the terminal's interrupt reaches the parent alone, which passes it on
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  CatchInterruptsInChild();
  hold.Release();
  WriteAll(out, body().SerializeAsString());
  std::fflush(nullptr);
  _exit(0);  // neither destructors nor exit handlers of the parent's copy
}

std::string HowItEnded(int status) {
  if (WIFSIGNALED(status)) return StrCat("was ended by signal ", WTERMSIG(status), " (", strsignal(WTERMSIG(status)), ")");
  return StrCat("ended with status ", WEXITSTATUS(status));
}

}  // namespace

void CatchInterruptsInChild() { SetHandler(OnInterruptInChild, nullptr); }

bool InterruptedInChild() { return g_interrupted != 0; }

absl::StatusOr<outcome::Outcome> RunInChild(const std::function<outcome::Outcome()>& body) {
  int ends[2];
  if (pipe(ends) != 0) return absl::InternalError(StrCat("pipe: ", std::strerror(errno)));
  std::fflush(nullptr);
  g_interrupted = 0;
  HoldInterrupts hold;
  const pid_t child = fork();
  if (child < 0) return absl::InternalError(StrCat("fork: ", std::strerror(errno)));
  if (child == 0) {
    close(ends[0]);
    RunChild(ends[1], hold, body);
  }
  close(ends[1]);
  g_child = child;
  struct sigaction old = {};
  SetHandler(PassOn, &old);
  hold.Release();
  const std::string bytes = ReadAll(ends[0]);
  close(ends[0]);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  g_child = 0;
  sigaction(SIGINT, &old, nullptr);
  outcome::Outcome outcome;
  if (status != 0 || !outcome.ParseFromString(bytes)) {
    return absl::InternalError(StrCat("the simulation's process ", HowItEnded(status)));
  }
  return outcome;
}

}  // namespace twofold
