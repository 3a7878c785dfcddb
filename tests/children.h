// Processes that a test starts, with variables as a launcher would set them.
#pragma once

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "core/base/strings.h"

extern char** environ;

namespace twofold::test {

using Environment = std::map<std::string, std::string>;

// This process's environment variables, except those that launchers set.
inline Environment PlainEnvironment() {
  Environment environment;
  for (char** e = environ; *e != nullptr; ++e) {
    const std::string text = *e;
    environment[text.substr(0, text.find('='))] = text.substr(text.find('=') + 1);
  }
  for (const char* prefix : {"RANK", "WORLD_SIZE", "LOCAL_", "MASTER_", "NODE_RANK", "NNODES", "GROUP_", "SLURM_",
                             "OMPI_COMM_", "PMI", "TORCHELASTIC_", "TWOFOLD_"}) {
    for (auto it = environment.lower_bound(prefix); it != environment.end() && it->first.starts_with(prefix);)
      it = environment.erase(it);
  }
  return environment;
}

class Child {
 public:
  // Starts `words`; its stdout and stderr are kept.
  explicit Child(std::vector<std::string> words, const Environment& more = {}) {
    std::string name = (std::filesystem::temp_directory_path() / "twofold-child-XXXXXX").string();
    close(mkstemp(name.data()));
    file_ = name;
    Environment environment = PlainEnvironment();
    for (const auto& [key, value] : more) environment[key] = value;
    std::vector<std::string> variables;
    for (const auto& [key, value] : environment) variables.push_back(StrCat(key, "=", value));
    auto pointers = [](std::vector<std::string>& texts) {
      std::vector<char*> out;
      for (std::string& text : texts) out.push_back(text.data());
      out.push_back(nullptr);
      return out;
    };
    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_addopen(&files, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_addopen(&files, STDOUT_FILENO, file_.c_str(), O_WRONLY | O_APPEND, 0);
    posix_spawn_file_actions_adddup2(&files, STDOUT_FILENO, STDERR_FILENO);
    posix_spawnattr_t attributes;  // no signal is ignored, even if the test's caller ignores some
    posix_spawnattr_init(&attributes);
    sigset_t all;
    sigfillset(&all);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
    if (posix_spawnp(&pid_, words[0].c_str(), &files, &attributes, pointers(words).data(),
                     pointers(variables).data()) != 0)
      pid_ = -1;
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&files);
  }
  ~Child() {
    if (!ended_ && pid_ > 0) {
      kill(pid_, SIGKILL);
      waitpid(pid_, nullptr, 0);
    }
    std::filesystem::remove(file_);
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  pid_t pid() const { return pid_; }
  void Signal(int signal) const { kill(pid_, signal); }
  // Its exit status, or 128 plus the signal that ended it; -1 if it has not ended within `seconds`, where tests give
  // up.
  int Wait(double seconds = 400) {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    while (!ended_ && std::chrono::steady_clock::now() < limit) {
      int status = 0;
      if (waitpid(pid_, &status, WNOHANG) == pid_) {
        ended_ = true;
        status_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
      } else {
        std::this_thread::sleep_for(std::chrono::milliseconds(10));
      }
    }
    return status_;
  }
  std::string Output() const {
    std::ifstream file(file_, std::ios::binary);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }
  // Waits until it has written `text`.
  bool AwaitOutput(const std::string& text, double seconds = 400) const {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    while (Output().find(text) == std::string::npos) {
      if (std::chrono::steady_clock::now() > limit) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    }
    return true;
  }

 private:
  std::string file_;
  pid_t pid_ = -1;
  int status_ = -1;
  bool ended_ = false;
};

}  // namespace twofold::test
