#include "experiments/program/predict/predictor.h"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <thread>
#include <utility>

#include "absl/strings/match.h"
#include "core/base/status.h"
#include "core/base/strings.h"
#include "core/proto/bytes.h"
#include "core/proto/prediction.pb.h"
#include "experiments/program/predict/frames.h"
#include "experiments/program/predict/worker.h"

namespace twofold {

struct Predictor::Process {
  pid_t pid = 0;
  int socket = -1;

  ~Process() {
    if (socket >= 0) close(socket);  // which ends it, unless it is at work
    if (pid > 0) kill(pid, SIGKILL);
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

// The environment with all symbols bound at once: else the child of each prediction binds them again. And without
// OpenBLAS's threads, which it starts when it is loaded: predictions compute nothing, and in a process that never had a
// second thread, the standard library counts references without atomic operations.
std::vector<char*> Environment() {
  static char bind_now[] = "LD_BIND_NOW=1", one_thread[] = "OPENBLAS_NUM_THREADS=1";
  std::vector<char*> all = {bind_now, one_thread};
  for (char** variable = environ; *variable != nullptr; ++variable) {
    if (!absl::StartsWith(*variable, "LD_BIND_NOW=") && !absl::StartsWith(*variable, "OPENBLAS_NUM_THREADS="))
      all.push_back(*variable);
  }
  all.push_back(nullptr);
  return all;
}

// The new process has the socket as kSocket and no input; it keeps stderr.
absl::Status Spawn(const std::string& program, int socket, pid_t& pid) {
  std::string words[] = {program, "predict", "--serve"};
  char* argv[] = {words[0].data(), words[1].data(), words[2].data(), nullptr};
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_adddup2(&files, STDERR_FILENO, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&files, socket, prediction::kSocket);
  const int error = posix_spawnp(&pid, program.c_str(), &files, nullptr, argv, Environment().data());
  posix_spawn_file_actions_destroy(&files);
  return error == 0 ? absl::OkStatus()
                    : NotFound("a predictor's program, \"", program, "\", cannot be started: ", std::strerror(error));
}

// Above kSocket, so that dup2 does not keep its close-on-exec flag by leaving it where it is.
int AboveTheOthers(int fd) {
  const int moved = fcntl(fd, F_DUPFD_CLOEXEC, prediction::kSocket + 1);
  close(fd);
  return moved;
}

}  // namespace

Predictor::Predictor(Options options) : options_(std::move(options)) {}
Predictor::~Predictor() = default;

absl::StatusOr<std::unique_ptr<Predictor>> Predictor::Make(Options options) {
  if (options.processes < 0) return InvalidArgument("processes: ", options.processes, ": must be 0 or more");
  if (options.processes == 0) options.processes = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  std::unique_ptr<Predictor> predictor(new Predictor(std::move(options)));
  absl::StatusOr<std::unique_ptr<Process>> first = predictor->Take();
  if (!first.ok()) return first.status();
  predictor->GiveBack(*std::move(first));
  return predictor;
}

absl::StatusOr<std::unique_ptr<Predictor::Process>> Predictor::Take() {
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
  const auto start = [this]() -> absl::StatusOr<std::unique_ptr<Process>> {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
      return Internal("socketpair: ", std::strerror(errno));
    auto process = std::make_unique<Process>();
    process->socket = AboveTheOthers(ends[0]);
    const int theirs = AboveTheOthers(ends[1]);
    const absl::Status spawned = Spawn(options_.program, theirs, process->pid);
    close(theirs);
    if (!spawned.ok()) return spawned;
    prediction::Answer greeting;
    const absl::Status greeted = prediction::Receive(process->socket, greeting);
    if (greeted.ok() && greeting.greeting() == prediction::kGreeting) return process;
    return FailedPrecondition(
        "a predictor's program, \"", options_.program, "\", ",
        greeted.ok() ? "is of another version" : StrCat("does not predict: it ", process->Wait()));
  };
  absl::StatusOr<std::unique_ptr<Process>> process = start();
  if (!process.ok()) GiveBack(nullptr);
  return process;
}

void Predictor::GiveBack(std::unique_ptr<Process> process) {
  const std::lock_guard lock(mutex_);
  if (process != nullptr)
    idle_.push_back(std::move(process));
  else
    --started_;
  free_.notify_one();
}

absl::StatusOr<report::Report> Predictor::Predict(const spec::Spec& spec, const std::string& file) {
  prediction::Request request;
  absl::StatusOr<std::string> bytes = ToBytes(spec, "a spec");
  if (!bytes.ok()) return bytes.status();
  request.set_spec(*std::move(bytes));
  request.set_file(file);
  absl::StatusOr<std::unique_ptr<Process>> process = Take();
  if (!process.ok()) return process.status();
  prediction::Answer answer;
  absl::Status status = prediction::Send((*process)->socket, request);
  if (status.ok()) status = prediction::Receive((*process)->socket, answer);
  if (!status.ok()) {
    if (absl::IsUnavailable(status)) status = Internal(file, ": the predicting process ", (*process)->Wait());
    process->reset();
  }
  GiveBack(*std::move(process));
  if (!status.ok()) return status;
  if (answer.code() != 0) return absl::Status(static_cast<absl::StatusCode>(answer.code()), answer.message());
  report::Report report;
  if (absl::Status s = FromBytes(answer.report(), "a report", report); !s.ok()) return s;
  return report;
}

void Predictor::PredictAll(std::span<const spec::Spec> specs, const std::string& file, const Done& done) {
  std::atomic<size_t> next = 0;
  std::mutex telling;
  std::vector<std::jthread> threads;
  const size_t count = std::min(specs.size(), static_cast<size_t>(options_.processes));
  for (size_t t = 0; t < count; ++t) {
    threads.emplace_back([&] {
      for (size_t i = next++; i < specs.size(); i = next++) {
        absl::StatusOr<report::Report> report = Predict(specs[i], file);
        const std::lock_guard lock(telling);
        done(i, std::move(report));
      }
    });
  }
}

}  // namespace twofold
