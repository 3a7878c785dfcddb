#include "experiments/program/plan/pool.h"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "backends/simulated/child.h"
#include "core/base/check.h"
#include "core/base/status.h"

namespace twofold::plan {
namespace {

bool WriteAll(int fd, const void* from, size_t size) {
  for (size_t done = 0; done < size;) {
    const ssize_t n = send(fd, static_cast<const char*>(from) + done, size - done, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    done += static_cast<size_t>(n);
  }
  return true;
}
bool ReadAll(int fd, void* to, size_t size) {
  for (size_t done = 0; done < size;) {
    const ssize_t n = read(fd, static_cast<char*>(to) + done, size - done);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    done += static_cast<size_t>(n);
  }
  return true;
}
bool SendText(int fd, const std::string& text) {
  const uint64_t size = text.size();
  return WriteAll(fd, &size, sizeof size) && WriteAll(fd, text.data(), text.size());
}
bool ReceiveText(int fd, std::string& text) {
  uint64_t size = 0;
  if (!ReadAll(fd, &size, sizeof size)) return false;
  text.resize(size);
  return ReadAll(fd, text.data(), size);
}

// Never returns. The process ends with the one that made it, and its own simulations with it.
[[noreturn]] void Serve(int socket, pid_t parent, const Pool::Work& work) {
  RunSimulationsHere();
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  if (getppid() != parent) _exit(1);
  for (std::string task; ReceiveText(socket, task);) {
    if (!SendText(socket, work(task))) break;
  }
  _exit(0);
}

}  // namespace

struct Pool::Process {
  pid_t pid = 0;
  int socket = -1;
  std::optional<int64_t> at_work;

  ~Process() {
    close(socket);
    kill(pid, SIGKILL);
    while (waitpid(pid, nullptr, 0) < 0 && errno == EINTR) {
    }
  }
};

Pool::~Pool() = default;

absl::StatusOr<std::unique_ptr<Pool>> Pool::Make(int processes, const Work& work) {
  TWOFOLD_CHECK_GE(processes, 1);
  std::unique_ptr<Pool> pool(new Pool);
  for (int i = 0; i < processes; ++i) {
    int ends[2];
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
      return Internal("socketpair: ", std::strerror(errno));
    const pid_t parent = getpid(), pid = fork();
    if (pid < 0) return Internal("fork: ", std::strerror(errno));
    if (pid == 0) {
      for (const auto& other : pool->processes_) close(other->socket);
      close(ends[0]);
      Serve(ends[1], parent, work);
    }
    close(ends[1]);
    pool->processes_.push_back(std::make_unique<Process>());
    pool->processes_.back()->pid = pid, pool->processes_.back()->socket = ends[0];
  }
  return pool;
}

bool Pool::HasIdle() const {
  for (const auto& process : processes_) {
    if (!process->at_work) return true;
  }
  return false;
}

absl::Status Pool::Give(int64_t id, const std::string& task, std::optional<int> which) {
  for (size_t i = 0; i < processes_.size(); ++i) {
    Process& process = *processes_[i];
    if (process.at_work || (which && *which != static_cast<int>(i))) continue;
    if (!SendText(process.socket, task)) return Internal("process ", process.pid, " of the plan has ended");
    process.at_work = id;
    return absl::OkStatus();
  }
  TWOFOLD_CHECK(false, "a process is idle");
  return absl::OkStatus();
}

absl::StatusOr<std::optional<Pool::Answer>> Pool::Next(double seconds) {
  std::vector<pollfd> waiting;
  std::vector<Process*> whose;
  for (const auto& process : processes_) {
    if (!process->at_work) continue;
    waiting.push_back({.fd = process->socket, .events = POLLIN, .revents = 0});
    whose.push_back(process.get());
  }
  const int ready = poll(waiting.data(), waiting.size(), static_cast<int>(seconds * 1000) + 1);
  if (ready < 0 && errno != EINTR) return Internal("poll: ", std::strerror(errno));
  if (ready <= 0) return std::nullopt;
  for (size_t i = 0; i < waiting.size(); ++i) {
    if (waiting[i].revents == 0) continue;
    Answer answer{.id = *std::exchange(whose[i]->at_work, std::nullopt), .bytes = {}};
    if (!ReceiveText(waiting[i].fd, answer.bytes)) return Internal("process ", whose[i]->pid, " of the plan has ended");
    return answer;
  }
  return std::nullopt;
}

}  // namespace twofold::plan
