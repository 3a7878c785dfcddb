// twofold launch --ranks=N --fabric=F -- run SPEC ...: by the fabric's own launcher, or by environment variables
// (backends/launch/launch.h); with --restarts again and again (restarts.h). launch_checks.h has what it refuses,
// launch_processes.h what it starts, supervisor.h how.
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "backends/launch/ending.h"
#include "core/base/strings.h"
#include "experiments/program/cli/log.h"
#include "experiments/program/commands.h"
#include "experiments/program/launch_checks.h"
#include "experiments/program/launch_options.h"
#include "experiments/program/launch_processes.h"
#include "experiments/program/restarts.h"
#include "experiments/program/supervisor.h"
#include "strategies/from_spec.h"

namespace twofold {
namespace {

constexpr char kDefaultFabric[] = "mpi";

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

void Print(const std::vector<RankProcess>& ranks) {
  for (const RankProcess& rank : ranks) {
    for (const auto& [name, value] : rank.variables) {
      if (!value.empty() && name != "TWOFOLD_JOB_TOKEN") std::printf("%s=%s ", name.c_str(), value.c_str());
    }
    std::printf("%s\n", absl::StrJoin(rank.words, " ").c_str());
  }
}

Supervised SuperviseAttempt(LaunchOptions o, const Attempt& attempt) {
  o.ranks = attempt.ranks;
  o.command.insert(o.command.end(), attempt.more_words.begin(), attempt.more_words.end());
  std::vector<RankProcess> processes = LaunchedProcesses(o);
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
  if (const absl::Status s = CheckLaunch(o); !s.ok()) {
    LogError(s.message());
    return kExitWrongInput;
  }
  if (o.slurm) return std::fputs(LaunchScript(o).c_str(), stdout), kExitFine;
  if (o.print) return Print(LaunchedProcesses(o)), kExitFine;
  if (!Supervises(o)) return Become(LauncherWords(o));
  if (!o.restarts || !o.run) return Supervise(LaunchedProcesses(o), HowToSupervise(o)).exit_status;
  return RunWithRestarts(
      *o.run, {.fabric = o.fabric, .ranks = o.ranks, .restarts = *o.restarts, .least_ranks = o.least_ranks.value_or(1)},
      [&o](const Attempt& attempt) { return SuperviseAttempt(o, attempt); });
}

constexpr char kLaunchHelp[] =
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
  twofold launch -- run my.textproto
  twofold launch --ranks=4 --fabric=mpi -- run my.textproto --set=parallel.dp=4
  twofold launch --ranks=8 --restarts=3 --min-ranks=4 -- run my.textproto --set=parallel.dp=8
  twofold launch --ranks=2 -- calibrate
  twofold launch --ranks=4 --fabric=gloo -- run my.textproto --set=parallel.dp=4
  twofold launch --ranks=4 --fabric=gloo --replace=10 -- run elastic.textproto
  twofold launch --ranks=8 --fabric=nccl -- run my.textproto --set=device=CUDA
  twofold launch --ranks=16 --fabric=nccl --nodes=2 --node-rank=0 --master=node1:29500 -- run cuda.textproto
  srun --ntasks-per-node=1 twofold launch --ranks=16 --fabric=nccl --nodes=2 -- run cuda.textproto
  twofold launch --ranks=4 --program=./my_training -- --steps=10)";

}  // namespace

void AddLaunchCommand(const Command& program, int& exit_status) {
  const Command command = program.AddCommand("launch", "starts ranks as processes");
  auto options = std::make_shared<LaunchOptions>();
  command.Group("Ranks").AddOption(
      "--ranks=N", options->asked_ranks,
      "number of processes in all, one per rank (default: as many as the spec of a run has)");
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
  command.Footer(kLaunchHelp);
  command.OnParsed([options, &exit_status] { exit_status = RunLaunch(*options); });
}

}  // namespace twofold
