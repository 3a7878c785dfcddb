#include "backends/simulated/child.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "backends/host/interrupt.h"
#include "backends/simulated/hang_clock.h"
#include "core/base/strings.h"
#include "core/proto/bytes.h"

namespace twofold {
namespace {

constexpr int kInterruptedTwice = 130;  // the child's exit status
constexpr int kPassedOn = SIGINT;       // what the child is sent for an interrupt of the parent

// Touched by signal handlers; one simulation runs at a time.
host::Interrupts g_interrupts;  // in the child: seen; in the parent: passed on
std::atomic<pid_t> g_child = 0;
static_assert(std::atomic<pid_t>::is_always_lock_free, "for signal handlers");

void OnInterruptInChild(int) {
  if (g_interrupts.Again()) _exit(kInterruptedTwice);
}

void PassOn(int) {
  const int error = errno;
  (void)g_interrupts.Again();
  if (g_child > 0) kill(g_child, kPassedOn);
  errno = error;
}

// For the signals that are not ignored, and `surely`. Returns what stood there before.
std::array<struct sigaction, std::size(host::kInterrupts)> SetHandler(void (*handler)(int), int surely = 0) {
  std::array<struct sigaction, std::size(host::kInterrupts)> before;
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  for (size_t i = 0; i < before.size(); ++i) {
    const int signal = host::kInterrupts[i];
    sigaction(signal, nullptr, &before[i]);
    if (before[i].sa_handler != SIG_IGN || signal == surely) sigaction(signal, &action, nullptr);
  }
  return before;
}

void WriteAll(int fd, const std::string& bytes) {
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t n = write(fd, bytes.data() + done, bytes.size() - done);
    if (n > 0) done += static_cast<size_t>(n);
    if (n < 0 && errno != EINTR) _exit(1);
  }
}

// In the pipe an outcome follows its size: what is cut short, and an exit that leaves nothing, are not taken for one.
std::string Framed(const outcome::Outcome& outcome) {
  absl::StatusOr<std::string> bytes = ToBytes(outcome, "the simulation's outcome");
  if (!bytes.ok()) {
    outcome::Outcome refused;
    refused.set_code(static_cast<int>(bytes.status().code()));
    refused.set_message(std::string(bytes.status().message()));
    *refused.mutable_notes() = outcome.notes();
    bytes = refused.SerializeAsString();
  }
  const uint64_t size = bytes->size();
  return bytes->insert(0, reinterpret_cast<const char*>(&size), sizeof size);
}

absl::StatusOr<outcome::Outcome> Unframe(std::string_view bytes) {
  uint64_t size = 0;
  const bool begun = bytes.size() >= sizeof size;
  if (begun) std::memcpy(&size, bytes.data(), sizeof size);
  if (!begun || bytes.size() - sizeof size != size) {
    return absl::InternalError(StrCat("the simulation's outcome came cut short: ", bytes.size(), " bytes",
                                      begun ? StrCat(" of ", size + sizeof size) : std::string()));
  }
  outcome::Outcome outcome;
  if (absl::Status s = FromBytes(bytes.substr(sizeof size), "the simulation's outcome", outcome); !s.ok()) return s;
  return outcome;
}

// Reads to the end, or until the child has been silent for too long: nullopt.
std::optional<std::string> ReadWatching(int fd, pid_t child, const Watch& watch) {
  std::optional<HangClock> silence;
  if (watch.record != nullptr) silence.emplace(child, *watch.record);
  const int look_ms = silence ? static_cast<int>(std::clamp(watch.timeout_s * 100, 1.0, 200.0)) : -1;
  std::string bytes;
  char buffer[1 << 16];
  while (true) {
    pollfd ready = {.fd = fd, .events = POLLIN, .revents = 0};
    if (poll(&ready, 1, look_ms) <= 0) {  // nothing yet, or a signal
      if (silence && silence->Read() >= watch.timeout_s) return std::nullopt;
      continue;
    }
    const ssize_t n = read(fd, buffer, sizeof buffer);
    if (n > 0) bytes.append(buffer, static_cast<size_t>(n));
    if (n == 0 || (n < 0 && errno != EINTR)) return bytes;
  }
}

// Interrupts wait while it lives: none is lost between fork and the handlers on both sides.
class HoldInterrupts {
 public:
  HoldInterrupts() {
    sigset_t interrupts;
    sigemptyset(&interrupts);
    for (const int signal : host::kInterrupts) sigaddset(&interrupts, signal);
    sigprocmask(SIG_BLOCK, &interrupts, &before_);
  }
  ~HoldInterrupts() { Release(); }
  void Release() { sigprocmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

// Somebody's exit(): neither destructors nor exit handlers of the parent's copy, amid whatever actors are doing.
void OnExit(int status, void*) {
  std::fflush(nullptr);
  _exit(status);
}

[[noreturn]] void RunChild(int out, pid_t parent, HoldInterrupts& hold, const std::function<outcome::Outcome()>& body) {
  setpgid(0, 0);  // the terminal's interrupt reaches the parent alone, which passes it on
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);  // it died before
  on_exit(OnExit, nullptr);
  CatchInterruptsInChild();
  hold.Release();
  const outcome::Outcome outcome = body();
  WriteAll(out, Framed(outcome));
  std::fflush(nullptr);
  _exit(0);
}

std::string HowItEnded(int status) {
  if (!WIFSIGNALED(status)) return StrCat("ended with exit status ", WEXITSTATUS(status));
  const int signal = WTERMSIG(status);
  const char* name = sigabbrev_np(signal);
  return StrCat("was ended by ", name != nullptr ? StrCat("SIG", name) : StrCat("signal ", signal), " (", strsignal(signal), ")");
}

absl::Status EndedEarly(int status, const sim::FlightRecord* record) {
  if (WIFEXITED(status) && WEXITSTATUS(status) == kInterruptedTwice && g_interrupts.any()) {
    return absl::CancelledError("interrupted twice: the simulation was ended at once");
  }
  const std::string how = StrCat("the simulation's process ", HowItEnded(status));
  const sim::FlightRecord::Turn turn = record != nullptr ? record->turn() : sim::FlightRecord::Turn{sim::FlightRecord::kNobody, true};
  if (turn.rank == sim::FlightRecord::kNobody) return absl::InternalError(how);
  const std::string last = record->LastCall(turn.rank);
  if (!turn.in_simulator) return absl::InternalError(StrCat("rank ", turn.rank, ": ", how, " in its turn; ", last));
  return absl::InternalError(StrCat(how, " within the simulator, which rank ", turn.rank, " had called; ", last));
}

absl::Status Hangs(const Watch& watch) {
  const int rank = watch.record->turn().rank;
  return absl::DeadlineExceededError(StrCat("rank ", rank, " has called nothing for ", watch.timeout_s,
                                            " s (fabric.timeout_s); ", watch.record->LastCall(rank)));
}

}  // namespace

void CatchInterruptsInChild() { SetHandler(OnInterruptInChild, kPassedOn); }

bool InterruptedInChild() { return g_interrupts.any(); }

absl::StatusOr<outcome::Outcome> RunInChild(const std::function<outcome::Outcome()>& body, const Watch& watch) {
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) return absl::InternalError(StrCat("pipe: ", std::strerror(errno)));
  std::fflush(nullptr);
  g_interrupts.Forget();
  HoldInterrupts hold;
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) {
    const absl::Status why = absl::InternalError(StrCat("fork: ", std::strerror(errno)));
    for (int end : ends) close(end);
    return why;
  }
  if (child == 0) {
    close(ends[0]);
    RunChild(ends[1], parent, hold, body);
  }
  close(ends[1]);
  g_child = child;
  const auto before = SetHandler(PassOn);
  if (host::InterruptScope::Pending()) kill(child, kPassedOn);  // it came before there was a child
  hold.Release();
  std::optional<std::string> bytes = ReadWatching(ends[0], child, watch);
  if (!bytes) kill(child, SIGKILL);
  close(ends[0]);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  g_child = 0;
  for (size_t i = 0; i < before.size(); ++i) sigaction(host::kInterrupts[i], &before[i], nullptr);
  if (!bytes) return Hangs(watch);
  if (status != 0 || bytes->empty()) return EndedEarly(status, watch.record);
  return Unframe(*bytes);
}

}  // namespace twofold
