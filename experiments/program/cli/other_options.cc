#include "experiments/program/cli/other_options.h"

#include <algorithm>
#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "core/base/strings.h"
#include "core/proto/elsewhere.h"
#include "core/proto/spec.pb.h"

namespace twofold {
namespace {

// mpirun, srun, torchrun, accelerate, deepspeed, Megatron and nccl-tests.
constexpr std::string_view
    kRanks = "np n nproc ntasks procs num_processes num_procs num_gpus gpus ngpus n_gpus world_size ranks",
    kRanksPerNode = "nproc_per_node ntasks_per_node gpus_per_node num_gpus_per_node npernode ranks_per_node",
    kNodes = "nnodes num_nodes num_machines N nodes", kNodeRank = "machine_rank",
    kMaster = "master_addr master_port rdzv_endpoint main_process_ip main_process_port", kRestarts = "max_restarts",
    kHosts = "hostfile machinefile host hosts H hostlist nodelist map_by bind_to", kLabel = "tag_output tee",
    kFabric = "backend dist_backend distributed_backend rdzv_backend",
    kOut = "output output_dir o log_dir logging_dir save_dir",
    kSpec = "config config_file deepspeed deepspeed_config spec", kCheck = "dry_run", kVersion = "V";

struct Counterpart {
  std::string_view theirs;  // separated by spaces
  const char* option;       // the row is of commands that have this one
  const char* here;         // what to use
};

// The first row counts that has the name, and an option of the command.
constexpr Counterpart kCounterparts[] = {
    {kRanks, "--ranks", "here it is --ranks=N, the number of ranks in all"},
    {kRanksPerNode, "--ranks-per-node", "here it is --ranks-per-node=N"},
    {kRanksPerNode, "--ranks", "here it is --ranks=N, which counts the ranks of all nodes together"},
    {kRanks, "--set", "the spec gives the number of ranks (parallel: dp * tp * cp * pp), as in --set=parallel.dp=N"},
    {kRanksPerNode, "--set",
     "the spec gives the number of ranks (parallel: dp * tp * cp * pp), as in --set=parallel.dp=N"},
    {kNodes, "--nodes", "here it is --nodes=N"},
    {kNodes, "--set", "a simulated cluster's nodes are a field of the spec: --set=fabric.simulated.nodes=N"},
    {kNodeRank, "--node-rank", "here it is --node-rank=N"},
    {kMaster, "--master", "here it is --master=HOST:PORT"},
    {kRestarts, "--restarts", "here it is --restarts=N"},
    {kHosts, "--master",
     "launch has none of the options by which mpirun places ranks; call mpirun or srun yourself: mpirun -n 16 "
     "--hostfile=FILE twofold run SPEC "
     "--fabric=mpi"},
    {kLabel, "--label", "here it is --label"},
    {kFabric, "--fabric", "here it is --fabric=FABRIC; `twofold list fabrics` names those of this build"},
    {kOut, "--out", "here it is --out=DIR"},
    {kSpec, "--set", "the spec is an argument without an option's name"},
    {"model", "--set", "the spec names the model, as in --set=model.preset=gpt2-124m"},
    {"cluster", "--set", "the spec names the cluster, as in --set=fabric.simulated.cluster=dgx-h100"},
    {kCheck, "--check", "here it is --check"},
    {kVersion, "--version", "here it is --version"},
};

// "--nproc-per-node" is nproc_per_node. Letters keep their case: -N is not -n.
std::string Plain(const std::string& name) {
  const size_t first = std::min(name.find_first_not_of('-'), name.size());
  const std::string plain = absl::StrReplaceAll(name.substr(first), {{"-", "_"}});
  return plain.size() == 1 ? plain : absl::AsciiStrToLower(plain);
}

bool Has(std::string_view words, const std::string& word) {
  const std::vector<std::string> all = absl::StrSplit(std::string(words), ' ');
  return std::find(all.begin(), all.end(), word) != all.end();
}

}  // namespace

std::string OtherOption(const std::string& name, const std::vector<std::string>& known) {
  const std::string plain = Plain(name);
  const auto knows = [&](const char* option) { return std::find(known.begin(), known.end(), option) != known.end(); };
  for (const Counterpart& row : kCounterparts) {
    if (Has(row.theirs, plain) && knows(row.option)) return StrCat("; ", row.here);
  }
  if (!knows("--set") || plain.size() < 2) return "";
  const std::vector<std::string> paths = PathsElsewhere(*spec::Spec::descriptor(), plain);
  if (paths.empty()) return "";
  return StrCat(paths.size() == 1 ? "; it is a field of the spec: " : "; there are fields of the spec: ",
                absl::StrJoin(paths, " or ",
                              [](std::string* out, const std::string& path) { StrAppend(out, "--set=", path, "=V"); }));
}

}  // namespace twofold
