#include "backends/launch/launch.h"

#include <array>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "core/base/strings.h"

namespace twofold {
namespace {

constexpr int kFirstDerivedPort = 10000, kDerivedPorts = 10000;  // below the ports that systems assign on request

using List = std::array<const char*, 3>;  // variable names; null ends the list

// Reads variables and remembers the first error.
class Reader {
 public:
  explicit Reader(const Variables& variables) : variables_(variables) {}

  bool Has(const char* name) const { return !Text(name).empty(); }
  std::string Text(const char* name) const {
    const char* const text = variables_(name);
    return text == nullptr ? "" : text;
  }
  // The first of `names` that is set; if none is, the first.
  const char* Name(const List& names) const {
    for (const char* name : names) {
      if (name != nullptr && Has(name)) return name;
    }
    return names[0];
  }
  // The value of the first that is set: an integer of at least `least`.
  std::optional<int> Number(const List& names, int least = 0) {
    const char* const name = Name(names);
    if (name == nullptr || !Has(name)) return std::nullopt;
    int value = 0;
    if (absl::SimpleAtoi(Text(name), &value) && value >= least) return value;
    Wrong(name, " must be a whole number of at least ", least, " (got \"", Text(name), "\")");
    return std::nullopt;
  }
  void Wrong(const auto&... what) {
    if (error_.empty()) error_ = StrCat(what...);
  }
  const std::string& error() const { return error_; }

 private:
  const Variables& variables_;
  std::string error_;
};

// The variable names of one launcher; of several names, the first that is set counts.
struct Names {
  std::string_view launcher;
  bool by_mpi = false;
  bool of_step = false;  // a task of a Slurm step
  // Variables that clouds and scripts also set: the rank may have to be derived from the node's.
  bool by_variables = false;
  List rank, size, local_rank, local_size, node, nodes;
};

constexpr Names ByVariables(std::string_view launcher) {
  return {.launcher = launcher,
          .by_variables = true,
          .rank = {"RANK"},
          .size = {"WORLD_SIZE"},
          .local_rank = {"LOCAL_RANK"},
          .local_size = {"LOCAL_WORLD_SIZE", "NPROC_PER_NODE"},
          .node = {"NODE_RANK", "GROUP_RANK"},
          .nodes = {"NNODES", "GROUP_WORLD_SIZE"}};
}
constexpr List kStepSize = {"SLURM_STEP_NUM_TASKS", "SLURM_NTASKS"},
               kStepNodes = {"SLURM_STEP_NUM_NODES", "SLURM_NNODES"};
constexpr Names kTorchrun = ByVariables("torchrun"), kTwofold = ByVariables("twofold launch"),
                kByHand = ByVariables("RANK and WORLD_SIZE");
constexpr Names kOpenMpi = {.launcher = "Open MPI's mpirun",
                            .by_mpi = true,
                            .rank = {"OMPI_COMM_WORLD_RANK"},
                            .size = {"OMPI_COMM_WORLD_SIZE"},
                            .local_rank = {"OMPI_COMM_WORLD_LOCAL_RANK"},
                            .local_size = {"OMPI_COMM_WORLD_LOCAL_SIZE"}};
constexpr Names kPmix = {.launcher = "Slurm's srun with PMIx",
                         .by_mpi = true,
                         .of_step = true,
                         .rank = {"PMIX_RANK"},
                         .size = kStepSize,
                         .local_rank = {"SLURM_LOCALID"},
                         .node = {"SLURM_NODEID"},
                         .nodes = kStepNodes};
constexpr Names kPmi = {.launcher = "a launcher with PMI",
                        .by_mpi = true,
                        .of_step = true,
                        .rank = {"PMI_RANK"},
                        .size = {"PMI_SIZE"},
                        .local_rank = {"MPI_LOCALRANKID", "PMI_LOCAL_RANK", "SLURM_LOCALID"},
                        .local_size = {"MPI_LOCALNRANKS", "PMI_LOCAL_SIZE"},
                        .node = {"SLURM_NODEID"},
                        .nodes = kStepNodes};
constexpr Names kSlurm = {.launcher = "Slurm's srun",
                          .of_step = true,
                          .rank = {"SLURM_PROCID"},
                          .size = kStepSize,
                          .local_rank = {"SLURM_LOCALID"},
                          .node = {"SLURM_NODEID"},
                          .nodes = kStepNodes};

// Null: this process is alone.
const Names* Launcher(Reader& read) {
  if (read.Has("TORCHELASTIC_RUN_ID")) return &kTorchrun;
  if (read.Has("TWOFOLD_LAUNCHER")) return &kTwofold;
  if (read.Has("OMPI_COMM_WORLD_RANK") && read.Has("OMPI_COMM_WORLD_SIZE")) return &kOpenMpi;
  // A batch script's own environment has none of these; an interactive shell's, in its own step, says one task.
  const bool step = read.Has("SLURM_STEP_ID") && read.Has("SLURM_PROCID") && read.Number(kStepSize, 1).value_or(1) > 1;
  if (step && read.Has("PMIX_RANK")) return &kPmix;
  if (read.Has("PMI_RANK") && read.Has("PMI_SIZE")) return &kPmi;
  if (read.Has("RANK") || read.Has("WORLD_SIZE")) return &kByHand;
  return step ? &kSlurm : nullptr;
}

// Clouds whose scripts start one agent per node may leave out RANK.
void RankOfNode(Reader& read, Launch& launch) {
  if (launch.node < 0 || launch.local_rank < 0 || launch.local_size == 0) {
    return read.Wrong("WORLD_SIZE=", launch.size, " is set, but RANK is not; set RANK to this process's rank, 0 to ",
                      launch.size - 1, ", or set NODE_RANK, LOCAL_RANK and LOCAL_WORLD_SIZE");
  }
  launch.rank = launch.node * launch.local_size + launch.local_rank;
}

void CheckNumbers(Reader& read, const Names& names, const Launch& launch) {
  const std::string of_size = StrCat(read.Name(names.size), "=", launch.size);
  if (launch.local_size > launch.size) {
    read.Wrong(of_size, ", but ", read.Name(names.local_size), "=", launch.local_size, "; ", read.Name(names.size),
               " must count the processes of all nodes together");
  }
  if (launch.rank >= launch.size) {
    read.Wrong(read.Name(names.rank), "=", launch.rank, ", but ", of_size, "; ", read.Name(names.rank),
               " must be 0 to ", launch.size - 1, " (", read.Name(names.size), " counts processes, not nodes)");
  }
  if (launch.local_size > 0 && launch.local_rank >= launch.local_size) {
    read.Wrong(read.Name(names.local_rank), "=", launch.local_rank, ", but ", read.Name(names.local_size), "=",
               launch.local_size, "; ", read.Name(names.local_rank), " must be 0 to ", launch.local_size - 1);
  }
  if (launch.local_rank > launch.rank) {
    read.Wrong(read.Name(names.local_rank), "=", launch.local_rank, ", but ", read.Name(names.rank), "=", launch.rank,
               "; the rank on one host cannot be greater than the rank among all processes");
  }
  if (launch.nodes > launch.size) {
    read.Wrong(of_size, ", but ", read.Name(names.nodes), "=", launch.nodes, "; ", read.Name(names.size),
               " must count the processes of all nodes together");
  }
  if (launch.nodes == 1 && launch.local_size > 0 && launch.local_size != launch.size) {
    read.Wrong(read.Name(names.nodes), "=1, but ", read.Name(names.local_size), "=", launch.local_size, " and ",
               of_size, "; on one node both must be the same");
  }
  if (launch.nodes > 0 && launch.node >= launch.nodes) {
    read.Wrong(read.Name(names.node), "=", launch.node, ", but ", read.Name(names.nodes), "=", launch.nodes, "; ",
               read.Name(names.node), " must be 0 to ", launch.nodes - 1);
  }
}

// RANK and WORLD_SIZE, if a script sets them besides an MPI launcher, must agree with the launcher.
void CheckSameAsVariables(Reader& read, const Names& names, const Launch& launch) {
  if (!read.Has("RANK") || !read.Has("WORLD_SIZE")) return;
  auto same = [&](const List& theirs, const char* ours, int value) {
    const int said = read.Number({ours}).value_or(value);
    if (said == value) return;
    read.Wrong(ours, "=", said, ", but ", read.Name(theirs), "=", value, " (", names.launcher, "); unset ", ours,
               ", or start the processes with only one of the two launchers");
  };
  same(names.size, "WORLD_SIZE", launch.size);
  same(names.rank, "RANK", launch.rank);
}

void ReadNumbers(Reader& read, const Names& names, Launch& launch) {
  auto number = [&](const List& list, int otherwise, int least = 0) {
    return read.Number(list, least).value_or(otherwise);
  };
  launch.local_rank = number(names.local_rank, -1);
  launch.local_size = number(names.local_size, 0, 1);
  launch.node = number(names.node, -1);
  launch.nodes = number(names.nodes, 0, 1);
  const std::optional<int> size = read.Number(names.size, 1), rank = read.Number(names.rank);
  if (size)
    launch.size = *size;
  else
    read.Wrong(read.Name(names.rank), " is set, but ", read.Name(names.size),
               " is not; set it to the number of processes of all nodes together");
  if (rank)
    launch.rank = *rank;
  else if (size && names.by_variables)
    RankOfNode(read, launch);
  else
    read.Wrong(names.launcher, " has not set ", read.Name(names.rank), "; set it to this process's rank");
}

// The first host of a Slurm list: "node[003-007,9],login1" -> "node003". Empty if it is not such a list.
std::string FirstHost(std::string_view list) {
  std::string host;
  for (size_t i = 0; i < list.size() && list[i] != ','; ++i) {
    if (list[i] != '[') {
      host += list[i];
      continue;
    }
    const size_t end = list.find(']', i), first = list.find_first_of(",-]", i);
    if (end == std::string_view::npos || first == i + 1) return "";
    host += list.substr(i + 1, first - i - 1);
    i = end;
  }
  return host;
}

int DerivedPort(uint64_t job) { return kFirstDerivedPort + static_cast<int>(job % kDerivedPorts); }

void ReadSlurmMaster(Reader& read, Launch& launch) {
  uint64_t job = 0, step = 0;
  const bool numbered =
      absl::SimpleAtoi(read.Text("SLURM_JOB_ID"), &job) && absl::SimpleAtoi(read.Text("SLURM_STEP_ID"), &step);
  if (launch.master_port == 0 && numbered) launch.master_port = DerivedPort(job + step);
  const std::string list = read.Text("SLURM_STEP_NODELIST");
  if (!launch.master_address.empty() || list.empty()) return;
  launch.master_address = FirstHost(list);
  if (launch.master_address.empty()) {
    read.Wrong("SLURM_STEP_NODELIST must be a list of hosts such as node[003-007,9] (got \"", list,
               "\"); correct it, or set MASTER_ADDR");
  }
}

void ReadMaster(Reader& read, const Names& names, Launch& launch) {
  launch.master_address = read.Text("MASTER_ADDR");
  if (const std::optional<int> port = read.Number({"MASTER_PORT"}, 1)) {
    const int taken = absl::EqualsIgnoreCase(read.Text("TORCHELASTIC_USE_AGENT_STORE"), "True") ? 1 : 0;
    launch.master_port = *port + taken;
    if (launch.master_port > 65535) read.Wrong("MASTER_PORT must be 1 to ", 65535 - taken, " (got ", *port, ")");
  }
  if (names.of_step) ReadSlurmMaster(read, launch);
  if (launch.local_size == launch.size && launch.master_address.empty()) launch.master_address = "127.0.0.1";
  uint64_t job = 0;  // Open MPI's: mpirun's number in the upper half
  if (launch.master_port == 0 && &names == &kOpenMpi && absl::SimpleAtoi(read.Text("OMPI_MCA_ess_base_jobid"), &job)) {
    launch.master_port = DerivedPort(job >> 16);
  }
}

std::string Token(const Reader& read, const Names& names) {
  if (read.Has("TWOFOLD_JOB_TOKEN")) return read.Text("TWOFOLD_JOB_TOKEN");
  if (&names == &kTorchrun) return StrCat("torchrun ", read.Text("TORCHELASTIC_RUN_ID"));
  if (&names == &kOpenMpi && read.Has("OMPI_MCA_orte_precondition_transports")) {
    return StrCat("mpirun ", read.Text("OMPI_MCA_orte_precondition_transports"));
  }
  if (!read.Has("SLURM_JOB_ID")) return "";
  return StrCat("slurm ", read.Text("SLURM_JOB_ID"), names.of_step ? StrCat(".", read.Text("SLURM_STEP_ID")) : "");
}

}  // namespace

Launch LaunchFrom(const Variables& variables) {
  Reader read(variables);
  const Names* const names = Launcher(read);
  Launch launch;
  if (names != nullptr) {
    launch.launched = true;
    launch.newcomer = read.Has("TWOFOLD_JOIN");
    launch.by_mpi = names->by_mpi;
    launch.launcher = std::string(names->launcher);
    ReadNumbers(read, *names, launch);
    CheckNumbers(read, *names, launch);
    if (names->by_mpi) CheckSameAsVariables(read, *names, launch);
    ReadMaster(read, *names, launch);
    launch.token = Token(read, *names);
  }
  if (read.error().empty()) return launch;
  return {.error = read.error()};
}

Launch LaunchedAs() { return LaunchFrom(std::getenv); }

bool SaysWhatAllFound() {
  if (LaunchedAs().rank == 0) return true;
  std::this_thread::sleep_for(std::chrono::seconds(1));
  return false;
}

}  // namespace twofold
