#include "experiments/program/launch_checks.h"

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "backends/launch/launch.h"
#include "backends/registry.h"
#include "core/base/status.h"
#include "core/base/strings.h"
#include "experiments/program/cli/log.h"
#include "experiments/program/commands.h"
#include "experiments/program/slurm_script.h"
#include "experiments/program/spec/elastic.h"

namespace twofold {
namespace {

constexpr double kMostGrace = 1e6;  // seconds
constexpr int kMostHere = 4096;     // processes on one host

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

// Whether it is a command that launch starts.
absl::Status CheckWord(const LaunchOptions& o) {
  if (!o.program.empty()) return absl::OkStatus();
  if (o.command[0] != "run" && o.command[0] != "bench" && o.command[0] != "calibrate") {
    const std::string& word = o.command[0];
    const bool itself = word == "twofold" || word.ends_with("/twofold");
    return InvalidArgument(
        "launch cannot start the command \"", word, "\"; use run, bench or calibrate",
        itself ? StrCat(": leave \"", word, "\" out") : StrCat(", or --program=", word, " for a program of your own"));
  }
  return absl::OkStatus();
}

// As many as are asked for, else as the spec of a run has.
absl::Status FindRanks(LaunchOptions& o) {
  if (o.asked_ranks) return o.ranks = *o.asked_ranks, absl::OkStatus();
  if (!o.program.empty() || o.command.empty() || o.command[0] != "run")
    return InvalidArgument("--ranks is required, since only a run has a spec that says how many there are");
  const absl::StatusOr<std::optional<RunWords>> run = ReadRunCommand(o.command, o.fabric);
  if (!run.ok()) return run.status();
  if (!*run) return InvalidArgument("--ranks is required with `run --help` and `run --check`; or leave launch out");
  o.ranks = static_cast<int>(RanksToStart((*run)->spec));
  return absl::OkStatus();
}

// How many ranks there are, on how many hosts.
absl::Status CheckCounts(const LaunchOptions& o) {
  if (o.ranks < 1) return InvalidArgument("--ranks must be at least 1 (got ", o.ranks, ")");
  if (o.nodes < 1) return InvalidArgument("--nodes must be at least 1 (got ", o.nodes, ")");
  if (o.ranks / o.nodes > kMostHere) {
    return InvalidArgument("--ranks must be at most ", kMostHere, " per host (got ", o.ranks, " with --nodes=", o.nodes,
                           ")");
  }
  return absl::OkStatus();
}

// --nodes, --node-rank and --master, of which the fabric's own launcher knows nothing.
absl::Status CheckHosts(LaunchOptions& o, const Launch& launch) {
  if (!ByVariables(o)) {
    if (o.nodes == 1 && o.node_rank < 0 && o.master.empty() && !o.label && o.grace_s == kLaunchGrace)
      return absl::OkStatus();
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

}  // namespace

absl::Status CheckLaunch(LaunchOptions& o) {
  if (o.command.empty() && o.program.empty()) {
    return InvalidArgument("launch: nothing to run; give a command after --, such as `-- run SPEC`");
  }
  if (const absl::Status s = CheckWord(o); !s.ok()) return s;
  if (const absl::Status s = FindRanks(o); !s.ok()) return s;
  if (const absl::Status s = CheckCounts(o); !s.ok()) return s;
  if (!(o.grace_s >= 0 && o.grace_s <= kMostGrace)) {
    return InvalidArgument("--grace must be from 0 to ", kMostGrace, " seconds (got ", o.grace_s, ")");
  }
  const Launch launch = LaunchedAs();
  if (launch.size > 1 && o.nodes == 1) {
    return InvalidArgument("launch: this process was itself started by a launcher (", launch.launcher,
                           "); call launch from a plain shell, or once per node with --nodes=", launch.size);
  }
  if (const absl::Status s = CheckFabric(o); !s.ok()) return s;
  if (const absl::Status s = CheckSlurm(o); !s.ok()) return s;
  if (const absl::Status s = CheckRestarts(o); !s.ok()) return s;
  if (const absl::Status s = CheckCommand(o); !s.ok()) return s;
  if (o.slurm) return absl::OkStatus();
  if (const absl::Status s = CheckReplacements(o); !s.ok()) return s;
  return CheckHosts(o, launch);
}

}  // namespace twofold
