#include "backends/simulated/child.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "backends/host/interrupt.h"
#include "backends/simulated/hang_clock.h"
#include "core/base/duration.h"
#include "core/base/status.h"
#include "core/base/strings.h"
#include "core/proto/bytes.h"

namespace twofold {
namespace {

constexpr int kInterruptedTwice = 130;                   // the child's exit status
constexpr int kPassedOn = SIGINT;                        // the signal sent to the child for an interrupt of the parent
constexpr std::chrono::milliseconds kTimeToEnd(1000);    // after an interrupt
constexpr std::chrono::milliseconds kLookAtParent(100);  // interval of checks whether the parent is alive

// Used by signal handlers; one simulation runs at a time.
host::Interrupts g_interrupts;  // in the child: received; in the parent: passed on
std::atomic<pid_t> g_child = 0;
static_assert(std::atomic<pid_t>::is_always_lock_free, "for signal handlers");
pid_t g_parent = 0;                          // the child's parent
int g_outcome = -1, g_partial_results = -1;  // the pipes to which the child writes them

void OnInterruptInChild(int) {
  if (g_interrupts.Again()) _exit(kInterruptedTwice);
}

void LookAtParent(int) {
  if (getppid() != g_parent) kill(getpid(), SIGKILL);
}

void PassOn(int) {
  const int error = errno;
  (void)g_interrupts.Again();
  if (g_child > 0) kill(g_child, kPassedOn);
  errno = error;
}

// Sets the handler of each interrupt signal that is not ignored, and of `surely`. Returns the previous handlers.
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

void WriteAll(int fd, std::string_view bytes) {
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t n = write(fd, bytes.data() + done, bytes.size() - done);
    if (n > 0) done += static_cast<size_t>(n);
    if (n < 0 && errno != EINTR) _exit(1);
  }
}

// In the pipe, the size precedes the outcome. So a truncated outcome, or an exit that leaves nothing, is recognized.
std::string Framed(const outcome::Outcome& outcome) {
  absl::StatusOr<std::string> bytes = ToBytes(outcome, "the simulation's outcome");
  if (!bytes.ok()) {
    outcome::Outcome refused;
    refused.set_code(static_cast<int>(bytes.status().code()));
    refused.set_message(std::string(bytes.status().message()));
    *refused.mutable_notes() = outcome.notes();
    *refused.mutable_struck() = outcome.struck();
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
    return Internal("the simulation's outcome is truncated: ", bytes.size(), " bytes",
                    begun ? StrCat(" of ", size + sizeof size) : std::string());
  }
  outcome::Outcome outcome;
  if (absl::Status s = FromBytes(bytes.substr(sizeof size), "the simulation's outcome", outcome); !s.ok()) return s;
  return outcome;
}

// The format of partial results in the pipe: a header, then `size` bytes.
struct PartialHeader {
  int64_t rank, size;
};

// Extracts complete partial results from the received bytes.
void TakePartialResults(std::string& come, std::map<int, std::string>& results) {
  size_t taken = 0;
  for (PartialHeader header; come.size() - taken >= sizeof header;) {
    std::memcpy(&header, come.data() + taken, sizeof header);
    const auto size = static_cast<size_t>(header.size);
    if (come.size() - taken - sizeof header < size) break;
    results[static_cast<int>(header.rank)] = come.substr(taken + sizeof header, size);
    taken += sizeof header + size;
  }
  come.erase(0, taken);
}

// Reads what is available now. False: end of file.
bool ReadSome(int fd, std::string& bytes) {
  char buffer[1 << 16];
  const ssize_t n = read(fd, buffer, sizeof buffer);
  if (n > 0) bytes.append(buffer, static_cast<size_t>(n));
  return n > 0 || (n < 0 && errno == EINTR);
}

enum class Why { kEnded, kHangs, kInterrupted };  // why reading ended

// Reads both pipes to the end, or until the child has been silent for too long, or does not end after an interrupt.
Why ReadWatching(int fd, int partial_results, pid_t child, const Watch& watch, std::string& outcome,
                 std::map<int, std::string>& results) {
  std::optional<HangClock> silence;
  if (watch.record != nullptr) silence.emplace(child, *watch.record);
  constexpr std::chrono::milliseconds kLook(200);
  const auto look = std::clamp(std::chrono::duration_cast<std::chrono::milliseconds>(DurationOf(watch.timeout_s / 10)),
                               std::chrono::milliseconds(1), kLook);
  std::string partial;
  pollfd ready[] = {{.fd = fd, .events = POLLIN, .revents = 0},
                    {.fd = partial_results, .events = POLLIN, .revents = 0}};
  while (ready[0].fd >= 0 || ready[1].fd >= 0) {
    if (g_interrupts.Age() >= kTimeToEnd) return Why::kInterrupted;
    if (poll(ready, std::size(ready), static_cast<int>(look.count())) <= 0) {  // nothing yet, or a signal
      if (silence && silence->Read() >= watch.timeout_s) return Why::kHangs;
      continue;
    }
    if (ready[0].revents != 0 && !ReadSome(fd, outcome)) ready[0].fd = -1;
    if (ready[1].revents != 0 && !ReadSome(partial_results, partial)) ready[1].fd = -1;
    TakePartialResults(partial, results);
  }
  return Why::kEnded;
}

// Handles a call of exit(): runs neither destructors nor exit handlers of the parent's copy while actors are active.
void OnExit(int status, void*) {
  std::fflush(nullptr);
  _exit(status);
}

// For signal handlers: an actor's stack may be too small.
void SetAlternateStack() {
  static char stack[1 << 16];
  const stack_t own = {.ss_sp = stack, .ss_flags = 0, .ss_size = sizeof stack};
  sigaltstack(&own, nullptr);
}

// Polls for the parent's death. PR_SET_PDEATHSIG would report it, but it fires when the thread that forked ends.
void EndWithParent(pid_t parent) {
  g_parent = parent;
  SetAlternateStack();
  struct sigaction action = {};
  action.sa_handler = LookAtParent;
  action.sa_flags = SA_RESTART | SA_ONSTACK;
  sigaction(SIGALRM, &action, nullptr);
  sigset_t alarm;
  sigemptyset(&alarm);
  sigaddset(&alarm, SIGALRM);
  sigprocmask(SIG_UNBLOCK, &alarm, nullptr);
  const timeval often = {.tv_sec = 0, .tv_usec = std::chrono::microseconds(kLookAtParent).count()};
  const itimerval timer = {.it_interval = often, .it_value = often};
  setitimer(ITIMER_REAL, &timer, nullptr);
}

[[noreturn]] void RunChild(pid_t parent, HoldInterrupts& hold, const std::function<outcome::Outcome()>& body) {
  setpgid(0, 0);  // so that a terminal's interrupt reaches only the parent, which passes it on
  EndWithParent(parent);
  on_exit(OnExit, nullptr);
  CatchInterruptsInChild();
  hold.Release();
  EndChildWith(body());
}

std::string HowItEnded(int status) {
  if (!WIFSIGNALED(status)) return StrCat("ended with exit status ", WEXITSTATUS(status));
  const int signal = WTERMSIG(status);
  const char* name = sigabbrev_np(signal);
  return StrCat("was ended by ", name != nullptr ? StrCat("SIG", name) : StrCat("signal ", signal), " (",
                strsignal(signal), ")");
}

absl::Status EndedEarly(int status, const sim::FlightRecord* record) {
  if (WIFEXITED(status) && WEXITSTATUS(status) == kInterruptedTwice && g_interrupts.any()) {
    return absl::CancelledError("interrupted twice: the simulation was ended at once");
  }
  const std::string how = StrCat("the simulation's process ", HowItEnded(status));
  const sim::FlightRecord::Turn turn =
      record != nullptr ? record->turn() : sim::FlightRecord::Turn{sim::FlightRecord::kNobody, true};
  if (turn.rank == sim::FlightRecord::kNobody) return Internal(how);
  const std::string last = record->LastCall(turn.rank);
  if (!turn.in_simulator) return Internal("rank ", turn.rank, ": ", how, " while this rank was running; ", last);
  return Internal(how, " inside the simulator, which rank ", turn.rank, " had called; ", last);
}

absl::Status WasInterrupted() {
  return absl::CancelledError(StrCat("interrupted: the simulation did not reach the end of a step within ",
                                     std::chrono::duration<double>(kTimeToEnd).count(),
                                     " s and was ended; what its ranks had done before is kept"));
}

absl::Status Hangs(const Watch& watch) {
  const int rank = watch.record->turn().rank;
  return absl::DeadlineExceededError(StrCat("rank ", rank, " has called nothing for ", watch.timeout_s,
                                            " s (fabric.timeout_s); ", watch.record->LastCall(rank)));
}

}  // namespace

HoldInterrupts::HoldInterrupts() {
  sigset_t interrupts;
  sigemptyset(&interrupts);
  for (const int signal : host::kInterrupts) sigaddset(&interrupts, signal);
  sigprocmask(SIG_BLOCK, &interrupts, &before_);
}

void HoldInterrupts::Release() { sigprocmask(SIG_SETMASK, &before_, nullptr); }

void CatchInterruptsInChild() { SetHandler(OnInterruptInChild, kPassedOn); }

bool InterruptedInChild() { return g_interrupts.any(); }

namespace {
bool g_here = false;
}

void RunSimulationsHere() { g_here = true; }
bool SimulationsRunHere() { return g_here; }

// SimGrid takes signals for itself, each time that it is initialized.
absl::StatusOr<outcome::Outcome> RunHere(const std::function<outcome::Outcome()>& body) {
  SetAlternateStack();
  struct sigaction interrupt, segmentation;
  sigaction(SIGINT, nullptr, &interrupt), sigaction(SIGSEGV, nullptr, &segmentation);
  absl::StatusOr<outcome::Outcome> outcome;
  try {
    outcome = body();
  } catch (const std::exception& error) {
    outcome = Internal("the simulation: ", error.what());
  }
  sigaction(SIGINT, &interrupt, nullptr), sigaction(SIGSEGV, &segmentation, nullptr);
  return outcome;
}

void EndChildWith(const outcome::Outcome& outcome) {
  WriteAll(g_outcome, Framed(outcome));
  std::fflush(nullptr);
  _exit(0);
}

void TellPartialResult(int rank, const std::string& bytes) {
  if (g_partial_results < 0) return;  // no parent waits for it
  const PartialHeader header = {.rank = rank, .size = static_cast<int64_t>(bytes.size())};
  WriteAll(g_partial_results, {reinterpret_cast<const char*>(&header), sizeof header});
  WriteAll(g_partial_results, bytes);
}

absl::StatusOr<outcome::Outcome> RunInChild(const std::function<outcome::Outcome()>& body, const Watch& watch) {
  int ends[4];  // of the outcome's pipe and of the partial results' pipe
  if (pipe2(ends, O_CLOEXEC) != 0) return Internal("pipe: ", std::strerror(errno));
  if (pipe2(ends + 2, O_CLOEXEC) != 0) {
    const absl::Status why = Internal("pipe: ", std::strerror(errno));
    for (int end : {ends[0], ends[1]}) close(end);
    return why;
  }
  std::fflush(nullptr);
  g_interrupts.Forget();
  HoldInterrupts hold;
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) {
    const absl::Status why = Internal("fork: ", std::strerror(errno));
    for (int end : ends) close(end);
    return why;
  }
  if (child == 0) {
    for (int end : {ends[0], ends[2]}) close(end);
    g_outcome = ends[1], g_partial_results = ends[3];
    RunChild(parent, hold, body);
  }
  for (int end : {ends[1], ends[3]}) close(end);
  g_child = child;
  const auto before = SetHandler(PassOn);
  if (host::InterruptScope::Pending()) PassOn(kPassedOn);  // an interrupt that came before the child existed
  hold.Release();
  std::string bytes;
  std::map<int, std::string> partial_results;
  const Why why = ReadWatching(ends[0], ends[2], child, watch, bytes, partial_results);
  if (why != Why::kEnded) kill(child, SIGKILL);
  for (int end : {ends[0], ends[2]}) close(end);
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  g_child = 0;
  for (size_t i = 0; i < before.size(); ++i) sigaction(host::kInterrupts[i], &before[i], nullptr);
  absl::StatusOr<outcome::Outcome> outcome;
  if (why == Why::kHangs) {
    outcome = Hangs(watch);
  } else if (why == Why::kInterrupted) {
    outcome = WasInterrupted();
  } else if (status != 0 || bytes.empty()) {
    outcome = EndedEarly(status, watch.record);
  } else {
    outcome = Unframe(bytes);
  }
  if (!outcome.ok() && watch.partial_results != nullptr) *watch.partial_results = std::move(partial_results);
  return outcome;
}

}  // namespace twofold
