// twofold launch --ranks=N --fabric=F -- run SPEC ...: by the fabric's own launcher, or by environment variables
// (backends/launch/launch.h); with --restarts again and again (restarts.h).
#include <unistd.h>

#include <algorithm>
#include <asio.hpp>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "backends/launch/ending.h"
#include "backends/launch/launch.h"
#include "backends/registry.h"
#include "core/base/status.h"
#include "core/base/strings.h"
#include "experiments/program/cli/log.h"
#include "experiments/program/commands.h"
#include "experiments/program/restarts.h"
#include "experiments/program/slurm_script.h"
#include "experiments/program/spec/elastic.h"
#include "experiments/program/supervisor.h"
#include "strategies/from_spec.h"

namespace twofold {
namespace {

constexpr double kGrace = 10, kMostGrace = 1e6;  // seconds
constexpr int kMostHere = 4096;                  // processes on one host

struct LaunchOptions {
  int ranks = 0;
  std::string fabric, program;
  int nodes = 1, node_rank = -1;
  std::string master;
  bool label = false, print = false, slurm = false;
  std::string time;  // with slurm
  double grace_s = kGrace;
  std::optional<int> restarts, least_ranks, replacements;
  std::vector<std::string> command;
  std::optional<RunWords> run;  // if the command is a run that can be read here
};

constexpr char kDefaultFabric[] = "mpi";

// Whether this command starts the ranks itself instead of the fabric's own launcher.
bool ByVariables(const LaunchOptions& o) {
  if (o.fabric.empty()) return !o.program.empty();
  const Backend* const backend = FindBackend(o.fabric);
  return backend != nullptr && backend->by_variables;
}

std::string LaunchedFabrics() {
  std::vector<std::string> names;
  for (const Backend& b : Backends()) {
    if (b.why_not().empty() && RanksAreProcesses(b)) names.emplace_back(b.name);
  }
  return names.empty() ? "none in this build" : absl::StrJoin(names, ", ");
}

absl::Status CheckFabric(const LaunchOptions& o) {
  if (o.fabric.empty()) return absl::OkStatus();  // another program
  const Backend* backend = FindBackend(o.fabric);
  if (backend == nullptr) {
    return InvalidArgument("--fabric=", o.fabric,
                           ": unknown fabric; fabrics whose ranks are processes: ", LaunchedFabrics());
  }
  if (const std::string reason = backend->why_not(); !reason.empty()) {
    if (!o.print && !o.slurm) return InvalidArgument("--fabric=", o.fabric, ": ", reason);
    LogWarning("--fabric=", o.fabric, " would not start on this machine: ", reason);
  }
  if (!RanksAreProcesses(*backend)) {
    return InvalidArgument("--fabric=", o.fabric, ": its ranks are not processes; call `twofold ",
                           absl::StrJoin(o.command, " "),
                           "` without launch, or use a fabric whose ranks are: ", LaunchedFabrics());
  }
  return absl::OkStatus();
}

// Fills in node numbers from Slurm if each node's launch is a task of one step.
absl::Status CheckNodes(LaunchOptions& o, const Launch& launch) {
  const bool task_a_node = launch.launched && launch.size == o.nodes;
  if (o.node_rank < 0 && task_a_node) o.node_rank = launch.rank;
  if (o.master.empty() && task_a_node && !launch.master_address.empty() && launch.master_port > 0) {
    o.master = StrCat(launch.master_address, ":", launch.master_port);
  }
  if (o.ranks % o.nodes != 0) {
    const int below = o.ranks / o.nodes * o.nodes;
    return InvalidArgument("--ranks must be a multiple of --nodes, such as ", below > 0 ? StrCat(below, " or ") : "",
                           below + o.nodes, " (got --ranks=", o.ranks, " and --nodes=", o.nodes, ")");
  }
  if (o.node_rank < 0 || o.node_rank >= o.nodes) {
    const std::string given = o.node_rank < 0 ? "none is given" : StrCat("got ", o.node_rank);
    return InvalidArgument("--node-rank must be this node's number, from 0 to ", o.nodes - 1, " with --nodes=", o.nodes,
                           " (", given, ")");
  }
  const size_t colon = o.master.rfind(':');
  int port = 0;
  if (colon == std::string::npos || colon == 0 || !absl::SimpleAtoi(o.master.substr(colon + 1), &port) || port < 1 ||
      port > 65535) {
    return InvalidArgument("--master must be HOST:PORT of node 0, the same on all nodes, such as node1:29500 (",
                           o.master.empty() ? "none is given" : StrCat("got \"", o.master, "\""), ")");
  }
  return absl::OkStatus();
}

// What each rank would refuse to do, on each host: ranks of this program meet at a host's address only with a token.
absl::Status CheckToken(const LaunchOptions& o) {
  const char* const token = std::getenv("TWOFOLD_JOB_TOKEN");
  const bool has = (token != nullptr && *token != '\0') || std::getenv("SLURM_JOB_ID") != nullptr;
  const bool here = o.master.starts_with("127.") || o.master.starts_with("localhost:") || o.master.starts_with("[::1]");
  if (has || here || !o.program.empty() || o.print) return absl::OkStatus();
  return InvalidArgument(
      "--nodes=", o.nodes, ": this job has no token, so any process that can reach ", o.master,
      " could join; set TWOFOLD_JOB_TOKEN to the same text, which others cannot guess, on all hosts");
}

// The --fabric of the command; "" if it has none.
std::string FabricOfCommand(const LaunchOptions& o) {
  for (size_t i = 0; i < o.command.size(); ++i) {
    if (o.command[i] == "--fabric" && i + 1 < o.command.size()) return o.command[i + 1];
    if (o.command[i].starts_with("--fabric=")) return o.command[i].substr(std::strlen("--fabric="));
  }
  return "";
}

// Whether ranks see the same files as this process: they are its children, or mpirun was given no other hosts.
bool RanksAreHere(const LaunchOptions& o) {
  if (ByVariables(o)) return true;
  constexpr const char* kHostsElsewhere[] = {"SLURM_JOB_ID", "PBS_JOBID", "LSB_JOBID", "PE_HOSTFILE"};
  return std::none_of(std::begin(kHostsElsewhere), std::end(kHostsElsewhere),
                      [](const char* name) { return std::getenv(name) != nullptr; });
}

// Checks in advance what every rank would refuse, so that it is reported once.
absl::Status CheckCommand(LaunchOptions& o) {
  if (!o.program.empty()) return absl::OkStatus();
  if (const std::string says = FabricOfCommand(o); !says.empty() && says != o.fabric) {
    return InvalidArgument("--fabric=", o.fabric, ", but the command has --fabric=", says, "; leave one of them out");
  }
  if (o.command[0] != "run" && o.command[0] != "bench" && o.command[0] != "calibrate") {
    const std::string& word = o.command[0];
    const bool itself = word == "twofold" || word.ends_with("/twofold");
    return InvalidArgument(
        "launch cannot start the command \"", word, "\"; use run, bench or calibrate",
        itself ? StrCat(": leave \"", word, "\" out") : StrCat(", or --program=", word, " for a program of your own"));
  }
  if (o.command[0] != "run" || o.print || !RanksAreHere(o)) return absl::OkStatus();
  absl::StatusOr<std::optional<RunWords>> run = ReadRunCommand(o.command, o.fabric);
  if (!run.ok()) return run.status();
  o.run = *std::move(run);
  if (!o.run || (o.nodes > 1 && !o.slurm)) return absl::OkStatus();
  const int64_t needed = RanksToStart(o.run->spec);
  if (needed == o.ranks) return absl::OkStatus();
  return InvalidArgument("--ranks=", o.ranks, ", but the spec has ", needed,
                         " ranks (parallel: dp * tp * cp * pp); use --ranks=", needed,
                         ", or change the spec's, as by --set=parallel.dp=N after `run`");
}

absl::Status CheckRestarts(const LaunchOptions& o) {
  const int least = o.least_ranks.value_or(1);
  if (!o.restarts) {
    return o.least_ranks
               ? InvalidArgument("--min-ranks=", least, " is only for --restarts=R; add it, or leave this out")
               : absl::OkStatus();
  }
  if (*o.restarts < 0) return InvalidArgument("--restarts must be at least 0 (got ", *o.restarts, ")");
  if (least < 1 || least > o.ranks)
    return InvalidArgument("--min-ranks must be from 1 to --ranks=", o.ranks, " (got ", least, ")");
  if (!o.program.empty() || o.command[0] != "run") {
    return InvalidArgument("--restarts is for the command run, which resumes from checkpoints; leave it out for ",
                           o.program.empty() ? o.command[0] : StrCat("--program=", o.program));
  }
  if (o.nodes > 1 || !RanksAreHere(o)) {
    return InvalidArgument(
        "--restarts is for ranks on this host only; on several, let the job scheduler start the job again "
        "(docs/elastic_training.md, \"Slurm with requeue\")");
  }
  return absl::OkStatus();
}

// Whether a script for Slurm can start it.
absl::Status CheckSlurm(const LaunchOptions& o) {
  if (!o.slurm)
    return o.time.empty() ? absl::OkStatus()
                          : InvalidArgument("--time=", o.time, " is only for --slurm; add it, or leave this out");
  if (!o.program.empty() || o.restarts || o.replacements || o.node_rank >= 0 || !o.master.empty() || o.label ||
      o.print) {
    return InvalidArgument(
        "--slurm prints a script in which srun starts the ranks of this program: it excludes --program, --restarts, "
        "--replace, --node-rank, --master, --label and --print");
  }
  if (o.ranks % o.nodes != 0)
    return InvalidArgument("--ranks must be a multiple of --nodes (got --ranks=", o.ranks, " and --nodes=", o.nodes,
                           ")");
  return o.time.empty() ? absl::OkStatus() : CheckSlurmTime(o.time);
}

// Call after CheckCommand.
absl::Status CheckReplacements(const LaunchOptions& o) {
  if (!o.replacements) return absl::OkStatus();
  if (*o.replacements < 0) return InvalidArgument("--replace must be at least 0 (got ", *o.replacements, ")");
  if (o.restarts) return InvalidArgument("--replace and --restarts cannot be combined; leave one of them out");
  if (!ByVariables(o) || !o.run || !o.run->spec.train().has_elastic() || !o.run->spec.fabric().has_gloo()) {
    return InvalidArgument(
        "--replace starts new ranks for a run that goes on without lost ones: it needs fabric gloo and a spec with "
        "train { elastic {} }; use --restarts for other runs");
  }
  return absl::OkStatus();
}

absl::Status Check(LaunchOptions& o) {
  if (o.ranks < 1) return InvalidArgument("--ranks must be at least 1 (got ", o.ranks, ")");
  if (o.nodes < 1) return InvalidArgument("--nodes must be at least 1 (got ", o.nodes, ")");
  if (o.ranks / o.nodes > kMostHere) {
    return InvalidArgument("--ranks must be at most ", kMostHere, " per host (got ", o.ranks, " with --nodes=", o.nodes,
                           ")");
  }
  if (!(o.grace_s >= 0 && o.grace_s <= kMostGrace)) {
    return InvalidArgument("--grace must be from 0 to ", kMostGrace, " seconds (got ", o.grace_s, ")");
  }
  const Launch launch = LaunchedAs();
  if (launch.size > 1 && o.nodes == 1) {
    return InvalidArgument("launch: this process was itself started by a launcher (", launch.launcher,
                           "); call launch from a plain shell, or once per node with --nodes=", launch.size);
  }
  if (const absl::Status s = CheckFabric(o); !s.ok()) return s;
  if (o.command.empty() && o.program.empty()) {
    return InvalidArgument("launch: nothing to run; give a command after --, such as `-- run SPEC`");
  }
  if (const absl::Status s = CheckSlurm(o); !s.ok()) return s;
  if (const absl::Status s = CheckRestarts(o); !s.ok()) return s;
  if (const absl::Status s = CheckCommand(o); !s.ok()) return s;
  if (o.slurm) return absl::OkStatus();
  if (const absl::Status s = CheckReplacements(o); !s.ok()) return s;
  if (!ByVariables(o)) {
    if (o.nodes == 1 && o.node_rank < 0 && o.master.empty() && !o.label && o.grace_s == kGrace) return absl::OkStatus();
    const std::string launcher = FindBackend(o.fabric)->launcher(1).front();
    return InvalidArgument("--fabric=", o.fabric, " is started by ", launcher,
                           ", which does not accept --nodes, --node-rank, --master, --label or --grace; call ",
                           launcher, " yourself, with its own options");
  }
  if (o.nodes > 1) {
    const absl::Status nodes = CheckNodes(o, launch);
    return nodes.ok() ? CheckToken(o) : nodes;
  }
  if (o.node_rank > 0 || !o.master.empty()) {
    return InvalidArgument("--node-rank and --master are only for several nodes; add --nodes=N, or leave them out");
  }
  return absl::OkStatus();
}

// This program, or the requested one, and the command with its fabric.
std::vector<std::string> Words(const LaunchOptions& o) {
  std::error_code error;
  std::vector<std::string> words = {o.program.empty() ? std::filesystem::read_symlink("/proc/self/exe", error).string()
                                                      : o.program};
  words.insert(words.end(), o.command.begin(), o.command.end());
  if (o.program.empty() && FabricOfCommand(o).empty()) words.push_back(StrCat("--fabric=", o.fabric));
  return words;
}

// ---- By the fabric's launcher ----

std::vector<std::string> LauncherWords(const LaunchOptions& o) {
  std::vector<std::string> words = FindBackend(o.fabric)->launcher(o.ranks);
  for (std::string& word : Words(o)) words.push_back(std::move(word));
  return words;
}

// Returns only if the launcher cannot be started. Otherwise this process becomes the launcher, with its signals and
// exit status.
int Become(std::vector<std::string> words) {
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  std::fflush(nullptr);
  execvp(argv[0], argv.data());
  LogError("cannot start ", words[0], ": ", std::strerror(errno), "; is it installed and on the PATH?");
  return kExitFailed;
}

// ---- By environment variables ----

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

void Print(const std::vector<RankProcess>& ranks) {
  for (const RankProcess& rank : ranks) {
    for (const auto& [name, value] : rank.variables) {
      if (!value.empty() && name != "TWOFOLD_JOB_TOKEN") std::printf("%s=%s ", name.c_str(), value.c_str());
    }
    std::printf("%s\n", absl::StrJoin(rank.words, " ").c_str());
  }
}

// ---- By Slurm ----

std::string Script(const LaunchOptions& o) {
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

// ---- Either way ----

// The processes that this one supervises: all ranks, or a launcher that starts them.
std::vector<RankProcess> Processes(const LaunchOptions& o) {
  if (ByVariables(o)) return Ranks(o);
  std::vector<std::string> words = LauncherWords(o);
  std::string name = words[0];
  return {{.words = std::move(words), .variables = {}, .launcher = std::move(name)}};
}

Supervised SuperviseAttempt(LaunchOptions o, const Attempt& attempt) {
  o.ranks = attempt.ranks;
  o.command.insert(o.command.end(), attempt.more_words.begin(), attempt.more_words.end());
  std::vector<RankProcess> processes = Processes(o);
  for (RankProcess& process : processes) process.variables.emplace_back(kEndingsVariable, attempt.endings);
  return Supervise(processes, {.label = o.label, .grace_s = o.grace_s});
}

// How the processes of a run are supervised, if it is the only attempt.
SuperviseOptions HowToSupervise(const LaunchOptions& o) {
  return {.label = o.label,
          .grace_s = o.grace_s,
          .elastic = o.run && o.run->spec.train().has_elastic(),
          .replacements = o.replacements.value_or(0)};
}

// Whether this process stays to supervise the ranks. mpirun would kill ranks that save when SIGTERM comes.
bool Supervises(const LaunchOptions& o) {
  return ByVariables(o) || o.restarts || (o.run && SavesOnSignal(o.run->spec.train()));
}

int RunLaunch(LaunchOptions o) {
  if (o.fabric.empty() && o.program.empty()) o.fabric = FabricOfCommand(o);
  if (o.fabric.empty() && o.program.empty()) o.fabric = kDefaultFabric;
  if (const absl::Status s = Check(o); !s.ok()) {
    LogError(s.message());
    return kExitWrongInput;
  }
  if (o.slurm) return std::fputs(Script(o).c_str(), stdout), kExitFine;
  if (o.print) return Print(Processes(o)), kExitFine;
  if (!Supervises(o)) return Become(LauncherWords(o));
  if (!o.restarts || !o.run) return Supervise(Processes(o), HowToSupervise(o)).exit_status;
  return RunWithRestarts(
      *o.run, {.fabric = o.fabric, .ranks = o.ranks, .restarts = *o.restarts, .least_ranks = o.least_ranks.value_or(1)},
      [&o](const Attempt& attempt) { return SuperviseAttempt(o, attempt); });
}

}  // namespace

void AddLaunchCommand(const Command& program, int& exit_status) {
  const Command command = program.AddCommand("launch", "starts ranks as processes");
  auto options = std::make_shared<LaunchOptions>();
  command.Group("Ranks").AddOption("--ranks=N", options->ranks, "number of processes in all, one per rank").Required();
  command.AddOption("--fabric=FABRIC", options->fabric,
                    StrCat("the fabric that ranks communicate over (default: that of COMMAND, else ", kDefaultFabric,
                           "; with --program: none)"));
  command.AddOption("--program=PROGRAM", options->program,
                    "a program of your own to start instead of twofold; the words after -- are its arguments");
  command.Group("Several hosts")
      .AddOption("--nodes=N", options->nodes, "number of hosts; if several, call launch once on each")
      .ShowDefault();
  command.AddOption("--node-rank=N", options->node_rank,
                    "with several hosts: the number of this host, from 0 (default under srun with one task per node: "
                    "the task's number)");
  command.AddOption("--master=HOST:PORT", options->master,
                    "with several hosts: where rank 0, on host 0, listens (default under srun with one "
                    "task per node: the first node of the step)");
  command.Group("Slurm").AddFlag("--slurm", options->slurm,
                                 "print a script for sbatch, in which srun starts the ranks on --nodes; a run with "
                                 "train.checkpoint is started again after preemption, time limits and lost nodes");
  command.AddOption("--time=LIMIT", options->time,
                    "with --slurm: the job's time limit, such as 08:00:00 (default: the partition's)");
  command.Group("Output").AddFlag("--label", options->label, "begin each line of stderr with the rank that wrote it");
  command.Group("Lost ranks")
      .AddOption("--grace=SECONDS", options->grace_s,
                 "time that the other ranks have to end by themselves after one has failed")
      .ShowDefault();
  command.AddOption("--restarts=N", options->restarts,
                    "start a run again at most so many times if it lost ranks; see below");
  command.AddOption("--min-ranks=N", options->least_ranks,
                    "with --restarts: the least number of ranks to go on with (default: 1)");
  command.AddOption("--replace=N", options->replacements,
                    "with train.elastic: start a new process in place of a lost rank's, at most so many times");
  command.Group("Output").AddFlag("--print", options->print, "only print the command lines that would be run");
  command.AddOption("COMMAND", options->command, "after --: a twofold command with its arguments").IsCommandLine();
  command.Footer(
      R"(COMMAND is run, bench or calibrate.

Fabric mpi: launch calls mpirun. On a cluster, call mpirun or srun yourself, with the list of hosts:
  mpirun -n 16 --hostfile hosts twofold run SPEC --fabric=mpi
  srun -n 16 --mpi=pmix twofold run SPEC --fabric=mpi

Fabrics nccl (the spec needs `device: CUDA`) and gloo, and programs of your own: launch starts each rank in a process group
of its own and sets RANK, WORLD_SIZE, LOCAL_RANK, LOCAL_WORLD_SIZE, NODE_RANK, NNODES, MASTER_ADDR, MASTER_PORT and
TWOFOLD_JOB_TOKEN for it, as torchrun does. Under a launcher that sets these variables itself, leave launch out. When a
rank fails, launch names it, gives the others --grace seconds to end by themselves, ends those that remain, and exits
with the status of the failed rank. Signals are passed on to the ranks; a second signal, half a second later or more,
kills them. When all ranks have ended, the processes left in their groups are ended, too. With several hosts, set the
same TWOFOLD_JOB_TOKEN on all of them: a text that others cannot guess. Without it, and outside a Slurm job, ranks of
this program refuse to connect to other hosts.

With --restarts=R, launch starts a run again that failed because ranks were lost (killed or hung): with the ranks that
are left, from the last checkpoint that it saved, R times at most. The spec needs train.checkpoint, else the run begins
anew. parallel.dp becomes the greatest that the ranks suffice for and the spec allows; train.elastic says what happens
to the batch, and bounds dp. Failures that would come again (wrong input, out of memory, a collective mismatch) and
interrupts end the run. Before a restart the report moves to DIR/attempt-<n>; the notes of the last report list the
restarts. launch does so on one host only; docs/elastic_training.md shows how Slurm does it on several.

If the spec has train.elastic, a run on fabric gloo or nccl goes on with the ranks that are left, and launch lets it.
With --replace=N, on gloo, it starts a new process for each lost one, N times at most; the new rank joins the run between two steps.
Rank 0 cannot be lost: its process connects the others.

If the spec has train.checkpoint.on_signal, SIGTERM or SIGUSR1 to launch lets all ranks save before they end.

Exit status: 0 fine; 2 wrong input; otherwise that of the first rank that failed, 128 + N if signal N ended it, 127 if its
program cannot be started. With fabric mpi: that of mpirun. With --restarts: that of the last attempt.

Examples:
  twofold launch --ranks=4 --fabric=mpi -- run my.textproto --set=parallel.dp=4
  twofold launch --ranks=8 --restarts=3 --min-ranks=4 -- run my.textproto --set=parallel.dp=8
  twofold launch --ranks=2 -- calibrate
  twofold launch --ranks=4 --fabric=gloo -- run my.textproto --set=parallel.dp=4
  twofold launch --ranks=4 --fabric=gloo --replace=10 -- run elastic.textproto
  twofold launch --ranks=8 --fabric=nccl -- run my.textproto --set=device=CUDA
  twofold launch --ranks=16 --fabric=nccl --nodes=2 --node-rank=0 --master=node1:29500 -- run cuda.textproto
  srun --ntasks-per-node=1 twofold launch --ranks=16 --fabric=nccl --nodes=2 -- run cuda.textproto
  twofold launch --ranks=4 --program=./my_training -- --steps=10)");
  command.OnParsed([options, &exit_status] { exit_status = RunLaunch(*options); });
}

}  // namespace twofold
