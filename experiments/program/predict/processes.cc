#include "experiments/program/predict/processes.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "core/base/status.h"
#include "core/base/strings.h"
#include "experiments/program/predict/frames.h"
#include "experiments/program/predict/worker.h"

namespace twofold::prediction {

struct Processes::Process {
  pid_t pid = 0, owner = getpid();
  int socket = -1, pipe = -1;
  bool own_group = false;

  ~Process() {
    for (const int end : {socket, pipe}) {  // which ends it
      if (end >= 0) close(end);
    }
    if (owner != getpid()) return;  // in a child that was forked: the process is its parent's
    if (pid > 0) kill(own_group ? -pid : pid, SIGKILL);
    Wait();
  }
  // Its exit, as text. Call it once it has closed its socket.
  std::string Wait() {
    int status = 0;
    if (pid <= 0) return "";
    while (waitpid(std::exchange(pid, 0), &status, 0) < 0 && errno == EINTR) {
    }
    return WIFSIGNALED(status) ? StrCat("was ended by ", strsignal(WTERMSIG(status)))
                               : StrCat("ended with exit status ", WEXITSTATUS(status));
  }
};

namespace {

constexpr int kBetweenLooks = 50;  // milliseconds between two calls of Cancelled

// For predictions, the environment with all symbols bound at once: else the child of each prediction binds them again.
// And without OpenBLAS's threads, which it starts when it is loaded: predictions compute nothing, and in a process that
// never had a second thread, the standard library counts references without atomic operations.
std::vector<char*> Environment(bool for_predictions) {
  static char bind_now[] = "LD_BIND_NOW=1", one_thread[] = "OPENBLAS_NUM_THREADS=1";
  std::vector<char*> all;
  if (for_predictions) all = {bind_now, one_thread};
  for (char** variable = environ; *variable != nullptr; ++variable) {
    const bool ours =
        absl::StartsWith(*variable, "LD_BIND_NOW=") || absl::StartsWith(*variable, "OPENBLAS_NUM_THREADS=");
    if (!for_predictions || !ours) all.push_back(*variable);
  }
  all.push_back(nullptr);
  return all;
}

// The new process has the socket as kSocket, the pipe as kPipe and no input; it keeps stderr.
absl::Status Spawn(const Processes::Options& options, bool for_predictions, int socket, int pipe, pid_t& pid) {
  std::string words[] = {options.program, "predict", "--serve"};
  char* argv[] = {words[0].data(), words[1].data(), words[2].data(), nullptr};
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&files, STDERR_FILENO, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&files, socket, kSocket);
  posix_spawn_file_actions_adddup2(&files, pipe, kPipe);
  posix_spawnattr_t how;
  posix_spawnattr_init(&how);
  if (options.own_groups) posix_spawnattr_setflags(&how, POSIX_SPAWN_SETPGROUP);  // group 0, the default: its own
  const int error =
      posix_spawnp(&pid, options.program.c_str(), &files, &how, argv, Environment(for_predictions).data());
  posix_spawnattr_destroy(&how);
  posix_spawn_file_actions_destroy(&files);
  return error == 0
             ? absl::OkStatus()
             : NotFound("a predictor's program, \"", options.program, "\", cannot be started: ", std::strerror(error));
}

// Above kSocket and kPipe, so that dup2 neither closes it nor keeps its close-on-exec flag by leaving it where it is.
int AboveTheOthers(int fd) {
  const int moved = fcntl(fd, F_DUPFD_CLOEXEC, std::max(kSocket, kPipe) + 1);
  close(fd);
  return moved;
}

// Whether the answer was cancelled before it began to come.
bool CancelledBefore(int socket, const Processes::Cancelled& cancelled) {
  if (!cancelled) return false;
  pollfd answer = {.fd = socket, .events = POLLIN, .revents = 0};
  while (poll(&answer, 1, kBetweenLooks) <= 0) {  // 0: nothing yet; below: a signal
    if (cancelled()) return true;
  }
  return false;
}

absl::Status Exchange(int socket, const Request& request, const Processes::Cancelled& cancelled, Answer& answer) {
  if (absl::Status sent = Send(socket, request); !sent.ok()) return sent;
  if (CancelledBefore(socket, cancelled)) return absl::CancelledError("cancelled");
  return Receive(socket, answer);
}

}  // namespace

Processes::Processes(Options options) : options_(std::move(options)), owner_(getpid()) {}
Processes::~Processes() = default;

absl::StatusOr<std::unique_ptr<Processes>> Processes::Make(Options options) {
  if (options.processes < 0) return InvalidArgument("processes: ", options.processes, ": must be 0 or more");
  if (options.processes == 0) options.processes = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  std::unique_ptr<Processes> made(new Processes(std::move(options)));
  absl::StatusOr<std::unique_ptr<Process>> first = made->Take();
  if (!first.ok()) return first.status();
  made->GiveBack(*std::move(first));
  return made;
}

absl::StatusOr<std::unique_ptr<Processes::Process>> Processes::Start(bool for_predictions) const {
  int sockets[2], pipes[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) != 0)
    return Internal("socketpair: ", std::strerror(errno));
  auto process = std::make_unique<Process>();
  process->socket = AboveTheOthers(sockets[0]);
  process->own_group = options_.own_groups;
  const int their_socket = AboveTheOthers(sockets[1]);
  if (pipe2(pipes, O_CLOEXEC) != 0) {
    const int error = errno;
    close(their_socket);
    return Internal("pipe: ", std::strerror(error));
  }
  process->pipe = AboveTheOthers(pipes[1]);
  const int their_pipe = AboveTheOthers(pipes[0]);
  const absl::Status spawned = Spawn(options_, for_predictions, their_socket, their_pipe, process->pid);
  close(their_socket);
  close(their_pipe);
  if (!spawned.ok()) return spawned;
  Answer greeting;
  const absl::Status greeted = Receive(process->socket, greeting);
  if (greeted.ok() && greeting.greeting() == kGreeting) return process;
  return FailedPrecondition("a predictor's program, \"", options_.program, "\", ",
                            greeted.ok() ? "is of another version" : StrCat("does not predict: it ", process->Wait()));
}

absl::StatusOr<std::unique_ptr<Processes::Process>> Processes::Take() {
  {
    std::unique_lock lock(mutex_);
    free_.wait(lock, [this] { return !idle_.empty() || started_ < options_.processes; });
    if (!idle_.empty()) {
      std::unique_ptr<Process> process = std::move(idle_.back());
      idle_.pop_back();
      return process;
    }
    ++started_;
  }
  absl::StatusOr<std::unique_ptr<Process>> process = Start(/*for_predictions=*/true);
  if (!process.ok()) GiveBack(nullptr);
  return process;
}

void Processes::GiveBack(std::unique_ptr<Process> process) {
  const std::lock_guard lock(mutex_);
  if (process != nullptr)
    idle_.push_back(std::move(process));
  else
    --started_;
  free_.notify_one();
}

absl::StatusOr<Answer> Processes::Ask(const Request& request, const std::string& name, const Cancelled& cancelled) {
  if (owner_ != getpid())
    return FailedPrecondition(name, ": this process was forked from the one whose predictor this is; make another one");
  absl::StatusOr<std::unique_ptr<Process>> process = Take();
  if (!process.ok()) return process.status();
  Answer answer;
  absl::Status status = Exchange((*process)->socket, request, cancelled, answer);
  if (!status.ok()) {
    if (absl::IsUnavailable(status)) status = Internal(name, ": the predicting process ", (*process)->Wait());
    process->reset();
  }
  GiveBack(*std::move(process));
  if (!status.ok()) return status;
  return answer;
}

absl::StatusOr<Answer> Processes::AskAnother(const Request& request, const std::string& name,
                                             const Cancelled& cancelled) {
  absl::StatusOr<std::unique_ptr<Process>> process = Start(/*for_predictions=*/false);
  if (!process.ok()) return process.status();
  Answer answer;
  const absl::Status status = Exchange((*process)->socket, request, cancelled, answer);
  if (absl::IsUnavailable(status)) return Internal(name, ": the process that was asked ", (*process)->Wait());
  if (!status.ok()) return status;
  return answer;
}

}  // namespace twofold::prediction
