#include "experiments/program/supervisor.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <asio.hpp>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "absl/strings/numbers.h"
#include "backends/host/interrupt.h"
#include "core/base/duration.h"
#include "core/base/rank_list.h"
#include "core/base/strings.h"
#include "experiments/program/cli/log.h"
#include "experiments/program/warden.h"

extern char** environ;

namespace twofold {
namespace {

constexpr int kCannotStart = 127;   // the exit status that shells use
constexpr double kLastWords = 0.5;  // seconds
constexpr int kHandedOn[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1};

bool IsIgnored(int signal) {
  struct sigaction action;
  return sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

std::vector<char*> Pointers(std::vector<std::string>& texts) {
  std::vector<char*> pointers;
  for (std::string& text : texts) pointers.push_back(text.data());
  pointers.push_back(nullptr);
  return pointers;
}

std::vector<std::string> EnvironmentWith(const std::vector<std::pair<std::string, std::string>>& variables) {
  std::map<std::string, std::string> all;
  for (char** e = environ; *e != nullptr; ++e) {
    const std::string text = *e;
    all[text.substr(0, text.find('='))] = text;
  }
  for (const auto& [name, value] : variables) {
    if (value.empty())
      all.erase(name);
    else
      all[name] = StrCat(name, "=", value);
  }
  std::vector<std::string> out;
  for (auto& [name, text] : all) out.push_back(std::move(text));
  return out;
}

std::string HowItEnded(int status) {
  if (WIFSIGNALED(status))
    return StrCat("was killed by signal ", WTERMSIG(status), " (", strsignal(WTERMSIG(status)), ")");
  const int code = WEXITSTATUS(status);
  return StrCat("ended with exit status ", code,
                code == kCannotStart ? " (its program cannot be started; does it exist, and is it executable?)" : "");
}

// The parent's number in /proc/PID/stat: the second field after the name, which may have any characters in brackets.
pid_t ParentOf(const std::filesystem::path& process) {
  std::ifstream file(process / "stat");
  std::string text, state;
  std::getline(file, text);
  std::istringstream rest(text.substr(std::min(text.size(), text.rfind(')') + 1)));
  pid_t parent = -1;
  rest >> state >> parent;
  return parent;
}

std::vector<pid_t> ChildrenOf(pid_t parent) {
  std::vector<pid_t> children;
  std::error_code error;
  for (std::filesystem::directory_iterator it("/proc", error), end; !error && it != end; it.increment(error)) {
    int pid = 0;
    if (absl::SimpleAtoi(it->path().filename().string(), &pid) && ParentOf(it->path()) == parent)
      children.push_back(pid);
  }
  return children;
}

int ExitStatusOf(int status) { return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status); }

class Supervisor {
 public:
  Supervisor(const std::vector<RankProcess>& ranks, const SuperviseOptions& options)
      : ranks_(ranks), options_(options) {}

  Supervised Run() {
    // processes that ranks leave behind become children of this process, which learns when they end
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    signals_.add(SIGCHLD);  // before any signal can arrive
    for (const int signal : kHandedOn) {
      if (!IsIgnored(signal)) signals_.add(signal);
    }
    Listen();
    for (const RankProcess& rank : ranks_) Start(rank);
    Reap();
    io_.run();
    warden_.Dismiss();
    return {exit_status_, interrupts_.any()};
  }

 private:
  struct Child {
    int rank = 0;
    std::string launcher;
    pid_t pid = -1;
    bool ended = false;
    bool group_ended = false;               // the rank, and all processes that it started
    asio::posix::stream_descriptor errors;  // the rank's stderr, if labelled
    std::string line;
    explicit Child(asio::io_context& io) : errors(io) {}
  };

  void Start(const RankProcess& rank);
  [[noreturn]] static void Become(char* const* words, char* const* environment, int errors, pid_t parent);
  void Read(Child& child);
  void Listen();
  void HandOn(int signal);
  void Reap();
  bool Survive(const Child& child, int status);
  void Ended(const Child& child, int status);
  void EndTheOthers();
  void StopWhenDone();
  void EndWhatIsLeft(const std::vector<int>& left);
  std::vector<int> Without(bool Child::*ended) const;  // ranks
  std::vector<int> Living() const { return Without(&Child::ended); }
  std::vector<int> WithGroups() const {
    return Without(&Child::group_ended);
  }  // ranks with a process left in their group
  void Signal(int signal) {
    for (const auto& child : children_) {
      if (!child->group_ended) kill(-child->pid, signal);
    }
  }
  template <class F>
  void After(double seconds, F then) {  // replaces an earlier timer
    timer_.expires_after(DurationOf(seconds));
    timer_.async_wait([then](asio::error_code error) {
      if (!error) then();
    });
  }

  Warden warden_{kTermTime};
  const std::vector<RankProcess>& ranks_;
  const SuperviseOptions options_;
  asio::io_context io_;
  asio::signal_set signals_{io_};
  asio::steady_timer timer_{io_};
  std::vector<std::unique_ptr<Child>> children_;
  int exit_status_ = 0, replaced_ = 0;
  host::Interrupts interrupts_;  // signals sent to this process
  bool ends_rest_ = false;
};

// ---- Starting ----

void Supervisor::Start(const RankProcess& rank) {
  children_.push_back(std::make_unique<Child>(io_));
  Child& child = *children_.back();
  child.rank = rank.rank, child.launcher = rank.launcher;
  int pipe[2] = {-1, -1};
  if (options_.label && pipe2(pipe, O_CLOEXEC) != 0)
    throw std::runtime_error(StrCat("launch: cannot create a pipe: ", strerror(errno)));
  std::vector<std::string> words = rank.words, environment = EnvironmentWith(rank.variables);
  const std::vector<char*> argv = Pointers(words), envp = Pointers(environment);
  const pid_t parent = getpid();
  // A signal that reaches the child before exec would be written to this process's signal pipe, which the child still
  // shares.
  sigset_t all, before;
  sigfillset(&all);
  sigprocmask(SIG_SETMASK, &all, &before);
  child.pid = fork();  // not posix_spawn: only a forked child can ask to end with its parent
  if (child.pid == 0) Become(argv.data(), envp.data(), pipe[1], parent);
  sigprocmask(SIG_SETMASK, &before, nullptr);
  if (child.pid < 0)
    throw std::runtime_error(StrCat("launch: cannot create a process for rank ", rank.rank, ": ", strerror(errno)));
  setpgid(child.pid, child.pid);  // in parent and child, because either may come first
  warden_.Guard(child.pid);
  if (!options_.label) return;
  close(pipe[1]);
  child.errors.assign(pipe[0]);
  Read(child);
}

// Runs in the forked child: system calls only.
void Supervisor::Become(char* const* words, char* const* environment, int errors, pid_t parent) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, SIGTERM);  // in case the warden is killed too
  if (getppid() != parent) _exit(kCannotStart);
  if (errors >= 0) dup2(errors, STDERR_FILENO);
  const int nothing = open("/dev/null", O_RDONLY);
  if (nothing >= 0) dup2(nothing, STDIN_FILENO);
  ::signal(SIGCHLD, SIG_DFL);
  for (const int signal : kHandedOn) {
    if (!IsIgnored(signal)) ::signal(signal, SIG_DFL);
  }
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  execvpe(words[0], words, environment);
  _exit(kCannotStart);
}

void Supervisor::Read(Child& child) {
  asio::async_read_until(
      child.errors, asio::dynamic_buffer(child.line), '\n', [this, &child](asio::error_code error, size_t length) {
        if (error) length = child.line.size();  // the last line, without a line end
        if (length > 0) {
          const std::string text = StrCat("[", child.rank, "] ", child.line.substr(0, length), error ? "\n" : "");
          std::fwrite(text.data(), 1, text.size(), stderr);
          child.line.erase(0, length);
        }
        if (!error) return Read(child);
        child.errors.close();
        StopWhenDone();
      });
}

// ---- Supervision ----

void Supervisor::Listen() {
  signals_.async_wait([this](asio::error_code error, int signal) {
    if (error) return;
    if (signal == SIGCHLD)
      Reap();
    else
      HandOn(signal);
    Listen();
  });
}

void Supervisor::HandOn(int signal) {
  const bool again = interrupts_.Again();
  if (again) LogError("launch: second signal: killing the ranks");
  for (const auto& child : children_) {
    const std::vector<pid_t> ranks = child->launcher.empty() ? std::vector<pid_t>() : ChildrenOf(child->pid);
    for (const pid_t rank : ranks) kill(-rank, again ? SIGKILL : signal);  // each leads a group, under mpirun too
    if ((ranks.empty() || again) && !child->group_ended) kill(-child->pid, again ? SIGKILL : signal);
  }
}

void Supervisor::Reap() {
  int status = 0;
  std::vector<std::pair<Child*, int>> ended;
  for (pid_t pid = 0; (pid = waitpid(-1, &status, WNOHANG)) > 0;) {
    const auto child =
        std::find_if(children_.begin(), children_.end(), [pid](const auto& c) { return c->pid == pid && !c->ended; });
    if (child == children_.end()) continue;
    (*child)->ended = true;
    ended.emplace_back(child->get(), status);
  }
  // The system does not tell which ended first. A rank that was killed did not end because of others, so it comes
  // first.
  std::stable_partition(ended.begin(), ended.end(), [](const auto& e) { return WIFSIGNALED(e.second); });
  for (const auto& [child, how] : ended) Ended(*child, how);
  for (const auto& child : children_) {
    if (!child->ended || child->group_ended || kill(-child->pid, 0) == 0 || errno != ESRCH) continue;
    child->group_ended = true;
    warden_.Forget(child->pid);
  }
  StopWhenDone();
}

void Supervisor::StopWhenDone() {
  if (!Living().empty()) return;
  if (const std::vector<int> left = WithGroups(); !left.empty()) return EndWhatIsLeft(left);
  if (std::none_of(children_.begin(), children_.end(), [](const auto& c) { return c->errors.is_open(); }))
    return io_.stop();
  After(kLastWords, [this] { io_.stop(); });  // a process that left a rank's group may keep its stderr open
}

void Supervisor::EndWhatIsLeft(const std::vector<int>& left) {
  if (std::exchange(ends_rest_, true)) return;
  LogWarning("launch: ending processes that ", RankList(left), " started and left running");
  Signal(SIGTERM);
  After(kTermTime, [this] {
    Signal(SIGKILL);
    After(kLastWords, [this] {
      if (const std::vector<int> still = WithGroups(); !still.empty()) {
        LogError("launch: cannot end processes that ", RankList(still), " started");
      }
      io_.stop();
    });
  });
}

// Returns whether the others go on without it.
bool Supervisor::Survive(const Child& child, int status) {
  if (!options_.elastic || child.rank == 0 || interrupts_.any() || exit_status_ != 0) return false;
  if (ExitStatusOf(status) == 0) return true;
  const bool replace = replaced_ < options_.replacements && !Living().empty();
  LogWarning("launch: rank ", child.rank, " (process ", child.pid, ") ", HowItEnded(status), "; the others go on",
             replace ? ", and a new process joins them" : "");
  if (!replace) return true;
  ++replaced_;
  const auto again = std::find_if(ranks_.begin(), ranks_.end(), [&](const auto& r) { return r.rank == child.rank; });
  RankProcess newcomer = *again;
  newcomer.variables.emplace_back("TWOFOLD_JOIN", "1");
  Start(newcomer);
  return true;
}

void Supervisor::Ended(const Child& child, int status) {
  if (Survive(child, status)) return;
  if (exit_status_ != 0 || ExitStatusOf(status) == 0) return;
  exit_status_ = ExitStatusOf(status);
  if (interrupts_.any()) return;  // the end was requested
  const std::vector<int> others = Living();
  const std::string rest =
      others.empty() ? ""
                     : StrCat("; ", RankList(others), others.size() == 1 ? " has " : " have ", options_.grace_s,
                              " s to end by ", others.size() == 1 ? "itself" : "themselves");
  LogError("launch: ", child.launcher.empty() ? StrCat("rank ", child.rank) : child.launcher, " (process ", child.pid,
           ") ", HowItEnded(status), rest);
  After(options_.grace_s, [this] { EndTheOthers(); });
}

void Supervisor::EndTheOthers() {
  LogError("launch: ending ", RankList(Living()), ", still running");
  Signal(SIGTERM);
  After(kTermTime, [this] { Signal(SIGKILL); });
}

std::vector<int> Supervisor::Without(bool Child::*ended) const {
  std::vector<int> ranks;
  for (const auto& child : children_) {
    if (!((*child).*ended)) ranks.push_back(child->rank);
  }
  return ranks;
}

}  // namespace

Supervised Supervise(const std::vector<RankProcess>& ranks, const SuperviseOptions& options) {
  return Supervisor(ranks, options).Run();
}

}  // namespace twofold
