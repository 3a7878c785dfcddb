// A scenario (scenario.cc) as a job of mpirun of its own.
#pragma once

#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_split.h"
#include "backends/registry.h"
#include "core/base/strings.h"
#include "tests/deadline.h"

namespace twofold {

namespace fs = std::filesystem;

inline constexpr double kJobTimeout = 3;  // fabric.timeout_s of every scenario, seconds

struct Outcome {
  int exit_status = -1;
  int code = -1;  // -1: nobody spoke
  std::string message, output;
  std::vector<std::string> results;
};

// A folder in which a job keeps its files; afterwards it must be empty, and no process may know it.
class Job {
 public:
  explicit Job(std::string fabric = "mpi") : fabric_(std::move(fabric)) {
    std::string name = (fs::temp_directory_path() / "twofold-mpi-XXXXXX").string();
    folder_ = mkdtemp(name.data());
    fs::create_directories(folder_ / "shared");
    fs::create_directories(folder_ / "session");
  }
  ~Job() {  // a process may still be ending there
    std::error_code none;
    fs::remove_all(folder_, none);
  }

  // Interrupted, if so, once it has said that it has started.
  Outcome Run(const std::string& scenario, int ranks, bool interrupt = false) {
    const pid_t child = fork();
    if (child == 0) Exec(scenario, ranks);
    if (interrupt) {
      AwaitOutput("started");
      kill(child, SIGINT);
    }
    const int status = AwaitProcess(child, StrCat("mpirun of ", scenario));
    Outcome outcome = Read();
    outcome.exit_status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    return outcome;
  }

  // Files of shared memory and processes, after a moment in which the launcher may still clean up.
  std::string LeftBehind() {
    std::string left;
    for (int tries = 0; tries < 200; ++tries) {
      left.clear();
      for (const auto& file : fs::directory_iterator(folder_ / "shared")) StrAppend(&left, file.path().string(), "\n");
      for (const auto& process : fs::directory_iterator("/proc")) {
        std::ifstream environment(process.path() / "environ", std::ios::binary);
        std::stringstream text;
        text << environment.rdbuf();
        if (text.str().find(folder_.string()) != std::string::npos) StrAppend(&left, process.path().string(), "\n");
      }
      if (left.empty()) return left;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    return left;
  }

 private:
  [[noreturn]] void Exec(const std::string& scenario, int ranks) {
    const std::string out = (folder_ / "output").string();
    if (freopen(out.c_str(), "w", stdout) == nullptr || freopen(out.c_str(), "a", stderr) == nullptr) _exit(127);
    setenv("OMPI_MCA_btl_vader_backing_directory", (folder_ / "shared").c_str(), 1);
    setenv("OMPI_MCA_orte_tmpdir_base", (folder_ / "session").c_str(), 1);
    // mpirun gives the survivors of a rank, or of itself, a second each to notice and to end: on a busy machine they
    // may need more.
    const bool has_survivors =
        scenario.starts_with("kill") || scenario.starts_with("abort") || scenario.starts_with("forever");
    if (has_survivors) setenv("OMPI_MCA_odls_base_sigkill_timeout", "3", 1);
    std::vector<std::string> words = FindBackend("mpi")->launcher(ranks);
    words.insert(words.end(), {TWOFOLD_SCENARIO, scenario, StrCat(ranks), StrCat(kJobTimeout), fabric_});
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    execvp(argv[0], argv.data());
    _exit(127);
  }
  void AwaitOutput(const std::string& text) const {
    AwaitThat([&] { return Read().output.find(text) != std::string::npos; },
              StrCat("\"", text, "\" among what the job prints"));
  }
  Outcome Read() const {
    std::ifstream file(folder_ / "output");
    std::stringstream text;
    text << file.rdbuf();
    Outcome outcome{.output = text.str()};
    for (const absl::string_view line : absl::StrSplit(outcome.output, '\n')) {
      const std::vector<std::string> words = absl::StrSplit(line, absl::MaxSplits(' ', 1));
      if (words[0] == "code") outcome.code = std::stoi(words[1]);
      if (words[0] == "message") outcome.message = words[1];
      if (words[0] == "result")
        outcome.results.push_back(std::vector<std::string>(absl::StrSplit(words[1], absl::MaxSplits(' ', 1)))[1]);
    }
    return outcome;
  }
  const std::string fabric_;
  fs::path folder_;
};

}  // namespace twofold
