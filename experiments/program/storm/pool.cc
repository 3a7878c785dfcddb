#include "experiments/program/storm/pool.h"

#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <utility>

#include "core/base/status.h"
#include "core/base/strings.h"
#include "experiments/program/predict/frames.h"

namespace twofold::storm {

using RealTime = std::chrono::steady_clock;

struct Pool::Process {
  int number = 0;
  pid_t pid = 0;  // 0: not running
  int socket = -1;
  std::optional<Schedule> works_on = std::nullopt;
  RealTime::time_point since = {};
};

Pool::Pool(int processes, double guard_s, JudgeOne judge) : guard_s_(guard_s), judge_(std::move(judge)) {
  for (int p = 0; p < processes; ++p) processes_.push_back({.number = p});
}

Pool::~Pool() {
  for (Process& process : processes_) End(process);
}

// In the child: answers until this process closes its socket or ends.
absl::Status Pool::Start(Process& process) {
  int ends[2];
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0)
    return Internal("socketpair: ", std::strerror(errno));
  std::fflush(nullptr);
  process.pid = fork();
  if (process.pid < 0) {
    process.pid = 0;
    for (const int end : ends) close(end);
    return Internal("fork: ", std::strerror(errno));
  }
  if (process.pid == 0) {
    setpgid(0, 0);  // a terminal's interrupt is for this storm's first process
    for (const Process& other : processes_) {
      if (other.socket >= 0) close(other.socket);
    }
    close(ends[0]);
    for (Schedule schedule; prediction::Receive(ends[1], schedule).ok();) {
      if (!prediction::Send(ends[1], judge_(process.number, schedule)).ok()) break;
    }
    _exit(0);
  }
  close(ends[1]);
  process.socket = ends[0];
  return absl::OkStatus();
}

void Pool::End(Process& process) {
  if (process.pid == 0) return;
  close(std::exchange(process.socket, -1));
  kill(process.pid, SIGKILL);  // its simulation ends when it does
  while (waitpid(process.pid, nullptr, 0) < 0 && errno == EINTR) {
  }
  process.pid = 0;
  process.works_on.reset();
}

namespace {

Verdict Failed(const char* outcome, const char* rule, const std::string& text) {
  Verdict verdict;
  verdict.set_outcome(outcome);
  verdict.set_message(text);
  Broken& broken = *verdict.add_broken();
  broken.set_rule(rule), broken.set_text(text);
  return verdict;
}

}  // namespace

absl::Status Pool::Run(const Next& next, const Done& done) {
  std::optional<Schedule> waiting = next();
  while (true) {
    std::vector<pollfd> ready;
    std::vector<Process*> of;
    for (Process& process : processes_) {
      if (!process.works_on && waiting) {
        if (process.pid == 0) {
          if (absl::Status started = Start(process); !started.ok()) return started;
        }
        process.works_on = std::exchange(waiting, next());
        process.since = RealTime::now();
        if (absl::Status sent = prediction::Send(process.socket, *process.works_on); !sent.ok()) return sent;
      }
      if (!process.works_on) continue;
      ready.push_back({.fd = process.socket, .events = POLLIN, .revents = 0});
      of.push_back(&process);
    }
    if (ready.empty()) return absl::OkStatus();
    poll(ready.data(), ready.size(), 100);
    for (size_t i = 0; i < ready.size(); ++i) {
      Process& process = *of[i];
      std::optional<Verdict> verdict;
      if (ready[i].revents != 0) {
        Verdict told;
        const absl::Status received = prediction::Receive(process.socket, told);
        verdict = received.ok()
                      ? std::move(told)
                      : Failed("crashed", "end",
                               StrCat("the process that judges it has ended: ", std::string(received.message())));
        if (!received.ok()) {
          const Schedule schedule = *process.works_on;
          End(process);
          process.works_on = schedule;
        }
      } else if (RealTime::now() - process.since > std::chrono::duration<double>(guard_s_)) {
        const Schedule schedule = *process.works_on;
        End(process);
        process.works_on = schedule;
        verdict = Failed("hung", "no-hang", StrCat("the run did not end within ", guard_s_, " s of real time"));
      }
      if (!verdict) continue;
      const Schedule schedule = *std::exchange(process.works_on, std::nullopt);
      if (!done(schedule, *std::move(verdict))) {
        for (Process& other : processes_) {
          if (other.works_on) End(other);
        }
        return absl::OkStatus();
      }
    }
  }
}

Verdict Pool::One(const Schedule& schedule) {
  bool asked = false;
  Verdict verdict;
  const absl::Status run = Run([&]() { return std::exchange(asked, true) ? std::nullopt : std::optional(schedule); },
                               [&](const Schedule&, Verdict told) {
                                 verdict = std::move(told);
                                 return true;
                               });
  return run.ok() ? verdict : Failed("crashed", "end", std::string(run.message()));
}

}  // namespace twofold::storm
