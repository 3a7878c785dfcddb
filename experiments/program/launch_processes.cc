#include "experiments/program/launch_processes.h"

#include <algorithm>
#include <asio.hpp>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <system_error>
#include <utility>

#include "absl/strings/str_cat.h"
#include "backends/registry.h"
#include "core/base/strings.h"
#include "experiments/program/slurm_script.h"
#include "strategies/from_spec.h"

namespace twofold {
namespace {

// This program, or the requested one, and the command with its fabric.
std::vector<std::string> Words(const LaunchOptions& o) {
  std::error_code error;
  std::vector<std::string> words = {o.program.empty() ? std::filesystem::read_symlink("/proc/self/exe", error).string()
                                                      : o.program};
  words.insert(words.end(), o.command.begin(), o.command.end());
  if (o.program.empty() && FabricOfCommand(o).empty()) words.push_back(StrCat("--fabric=", o.fabric));
  return words;
}

std::string RandomToken() {
  std::random_device random;
  std::string token;
  for (int i = 0; i < 4; ++i) StrAppend(&token, absl::Hex(random(), absl::kZeroPad8));
  return token;
}

// A port that is free now. If another process takes it before rank 0 does, rank 0 reports that.
int FreePort() {
  asio::io_context io;
  return asio::ip::tcp::acceptor(io, {asio::ip::address_v4::loopback(), 0}).local_endpoint().port();
}

std::vector<RankProcess> Ranks(const LaunchOptions& o) {
  const std::string master = o.nodes > 1 ? o.master : StrCat("127.0.0.1:", FreePort());
  std::string address = master.substr(0, master.rfind(':'));
  if (address.front() == '[' && address.back() == ']') address = address.substr(1, address.size() - 2);
  const char* const given = std::getenv("TWOFOLD_JOB_TOKEN");
  const bool has = given != nullptr && *given != '\0';
  const std::string token = has ? given : o.nodes == 1 ? RandomToken() : "";  // several nodes: Slurm's job, or none
  const int here = o.ranks / o.nodes, node = std::max(o.node_rank, 0);
  std::vector<RankProcess> ranks;
  for (int local = 0; local < here; ++local) {
    const int rank = node * here + local;
    ranks.push_back({.rank = rank,
                     .words = Words(o),
                     .variables = {{"RANK", StrCat(rank)},
                                   {"WORLD_SIZE", StrCat(o.ranks)},
                                   {"LOCAL_RANK", StrCat(local)},
                                   {"LOCAL_WORLD_SIZE", StrCat(here)},
                                   {"NODE_RANK", StrCat(node)},
                                   {"NNODES", StrCat(o.nodes)},
                                   {"MASTER_ADDR", address},
                                   {"MASTER_PORT", master.substr(master.rfind(':') + 1)},
                                   {"TWOFOLD_LAUNCHER", "twofold"},
                                   {"TWOFOLD_JOB_TOKEN", token},
                                   {"TORCHELASTIC_RUN_ID", ""},
                                   {"TORCHELASTIC_USE_AGENT_STORE", ""}}});
  }
  return ranks;
}

}  // namespace

std::vector<std::string> LauncherWords(const LaunchOptions& o) {
  std::vector<std::string> words = FindBackend(o.fabric)->launcher(o.ranks);
  for (std::string& word : Words(o)) words.push_back(std::move(word));
  return words;
}

std::vector<RankProcess> LaunchedProcesses(const LaunchOptions& o) {
  if (ByVariables(o)) return Ranks(o);
  std::vector<std::string> words = LauncherWords(o);
  std::string name = words[0];
  return {{.words = std::move(words), .variables = {}, .launcher = std::move(name)}};
}

std::string LaunchScript(const LaunchOptions& o) {
  SlurmJob job{.nodes = o.nodes,
               .ranks_per_node = o.ranks / o.nodes,
               .time = o.time,
               .by_mpi = !ByVariables(o),
               .command = Words(o)};
  job.command[0] = "twofold";
  if (o.run) job.cores = o.run->spec.train().threads_per_rank();
  job.gpus = o.fabric == "nccl" || (o.run && o.run->spec.device() == spec::CUDA);
  if (!o.run || !SavesOnSignal(o.run->spec.train())) return SlurmScript(job);
  const std::string& path = o.run->spec.train().checkpoint().path();
  job.out = o.run->out;
  job.checkpoints = path.empty() ? StrCat(job.out, "/checkpoints") : path;
  return SlurmScript(job);
}

}  // namespace twofold
