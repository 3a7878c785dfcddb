// A job on the nccl fabric: this program again, one process per rank, launched by environment variables.
#pragma once

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <optional>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "backends/nccl/api.h"
#include "core/base/strings.h"
#include "kernels/cuda/memory.h"
#include "tests/ports.h"

namespace twofold::test {

using Variables = std::map<std::string, std::string>;

// "" if `ranks` processes can use NCCL on this machine's GPUs, else the reason why not. The emulation has one GPU per
// rank.
inline std::string WhyNotNccl(int ranks) {
  const auto nccl = nccl::FindNccl();
  if (!nccl.ok()) return std::string(nccl.status().message());
#ifdef TWOFOLD_EMULATED_CUDA
  (void)ranks;
#else
  int gpus = 0;
  if (cudaGetDeviceCount(&gpus) != cudaSuccess || gpus == 0) return "skipped without a GPU";
  if (gpus < ranks && (*nccl)->version < 23000) {
    return StrCat(ranks, " ranks on ", gpus, gpus == 1 ? " GPU" : " GPUs", ": NCCL ",
                  nccl::VersionText((*nccl)->version), " allows one rank per GPU; 2.30 allows more");
  }
#endif
  return "";
}

class NcclJob {
 public:
  struct Ended {
    int status = -1;  // exit status; 128 + n: ended by signal n
    double seconds = 0;
    std::string output;  // stdout and stderr
  };

  NcclJob() {
    std::string name = (std::filesystem::temp_directory_path() / "twofold-nccl-XXXXXX").string();
    folder_ = mkdtemp(name.data());
  }
  ~NcclJob() {  // a process may still be exiting there
    std::error_code none;
    std::filesystem::remove_all(folder_, none);
  }
  std::string At(const std::string& name) const { return (folder_ / name).string(); }

  // Results by rank. `arguments` follow --as-rank; `change` may edit a rank's variables. Processes that take longer
  // than `limit` are killed.
  std::vector<Ended> Run(int ranks, const std::vector<std::string>& arguments, double limit = 120,
                         const std::function<void(int rank, Variables&)>& change = nullptr) {
    const auto start = std::chrono::steady_clock::now();
    const auto seconds = [start] {
      return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    };
    const Ports held;
    const std::string port = StrCat(held.first()), token = StrCat("job ", getpid(), " ", port);
    std::vector<pid_t> pids;
    for (int r = 0; r < ranks; ++r) {
      Variables variables = {{"RANK", StrCat(r)},
                             {"WORLD_SIZE", StrCat(ranks)},
                             {"LOCAL_RANK", StrCat(r)},
                             {"LOCAL_WORLD_SIZE", StrCat(ranks)},
                             {"MASTER_PORT", port},
                             {"MASTER_ADDR", "127.0.0.1"},
                             {"TWOFOLD_JOB_TOKEN", token},
                             {"TWOFOLD_EMULATED_GPUS", StrCat(ranks)},
                             {"TWOFOLD_EMULATED_GPU_MIB", "1024"},
                             {"NCCL_MULTI_RANK_GPU_ENABLE", "1"}};
      if (change) change(r, variables);
      pids.push_back(Start(r, arguments, variables));
    }
    std::vector<Ended> ended(static_cast<size_t>(ranks));
    for (size_t left = pids.size(); left > 0; std::this_thread::sleep_for(std::chrono::milliseconds(2))) {
      const bool late = seconds() > limit;
      for (size_t r = 0; r < pids.size(); ++r) {
        if (pids[r] < 0) continue;
        if (late) kill(pids[r], SIGKILL);
        int status = 0;
        if (waitpid(pids[r], &status, WNOHANG) != pids[r]) continue;
        ended[r] = {.status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status),
                    .seconds = seconds(),
                    .output = Read(OutputOf(static_cast<int>(r)))};
        pids[r] = -1, --left;
      }
    }
    return ended;
  }

  static std::string Read(const std::string& path) {
    std::ifstream file(path);
    std::stringstream text;
    text << file.rdbuf();
    return text.str();
  }

 private:
  std::string OutputOf(int rank) const { return At(StrCat("output", rank)); }
  pid_t Start(int rank, const std::vector<std::string>& arguments, const Variables& variables) const {
    const pid_t pid = fork();
    if (pid != 0) return pid;
    const std::string out = OutputOf(rank);
    if (freopen(out.c_str(), "w", stdout) == nullptr || dup2(fileno(stdout), STDERR_FILENO) < 0) _exit(127);
    for (const auto& [name, value] : variables) setenv(name.c_str(), value.c_str(), 1);
    std::vector<std::string> words = {"rank", "--as-rank"};
    words.insert(words.end(), arguments.begin(), arguments.end());
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    execv("/proc/self/exe", argv.data());
    _exit(127);
  }

  std::filesystem::path folder_;
};

// For a program's main(): the arguments after --as-rank if this process is a rank.
inline std::optional<std::vector<std::string>> AsRank(int argc, char** argv) {
  if (argc < 2 || std::string(argv[1]) != "--as-rank") return std::nullopt;
  return std::vector<std::string>(argv + 2, argv + argc);
}

}  // namespace twofold::test
