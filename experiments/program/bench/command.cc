#include "experiments/program/bench/command.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "backends/launch/launch.h"
#include "backends/registry.h"
#include "core/base/format.h"
#include "core/base/strings.h"
#include "experiments/program/bench/plan.h"
#include "experiments/program/cli/log.h"
#include "experiments/program/cli/notes.h"
#include "experiments/program/cli/status_line.h"

namespace twofold {
namespace {

using namespace bench;

constexpr char kFooter[] =
    R"(Sizes accept the suffixes K, M and G (powers of 1024). As in nccl-tests, a size is that of the whole tensor of a rank:
of the output for all_gather, of the input for reduce_scatter.
For a prediction, lines above the table name the library, algorithm and protocol of each size; --json and --out have them
in each row.
algbw is size / time; busbw is the rate that the busiest link must reach at least; compare it with the link's bandwidth.
Exit status: 0 fine; 1 a failure at run time, or wrong values; 2 wrong input; 3 a simulation predicts out-of-memory.

Examples:
  twofold bench all_reduce                                  threads of this machine, measured
  twofold bench all_reduce --ranks=4 -b 1K -e 256M -f 4     four threads; fewer and larger sizes
  twofold bench all_reduce -e 1G --fabric=simulated --cluster=star-a100 --ranks=1024
                                                            1,024 GPUs, predicted
  twofold bench all_gather --fabric=simulated --cluster=star-h100 --algorithm=ring
  twofold bench all_reduce -e 1G --fabric=simulated --cluster=dgx-h100 --nodes=4 --protocol=Simple
  twofold launch --ranks=8 --fabric=nccl -- bench all_reduce -b 8 -e 8G
                                                            this machine's GPUs
  twofold bench reduce_scatter -d bfloat16 -o avg --json    for programs)";

// On a terminal: shows the current size.
std::function<void(size_t)> ProgressOf(const Request& request, int ranks) {
  if (!HasStatusLine()) return nullptr;
  return [blocks = request.blocks, op = request.operation, element = ElementSize(request.dtype), ranks](size_t i) {
    ShowStatusLine(StrCat("size ", i + 1, " of ", blocks.size(), ": ",
                          BytesText(static_cast<double>(WholeCount(*op, blocks[i], ranks) * element))));
  };
}

// Printed before the ranks exist, which may take long.
void AnnounceRanks(const Bench& bench) {
  const auto cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  if (bench.device == "cpu" && !RanksAreProcesses(*FindBackend(bench.fabric)) && bench.ranks / cores >= 32) {
    LogWarning(bench.ranks, " ranks run as threads that share ", cores, cores == 1 ? " core" : " cores",
               ": each call will be slow");
  }
  ShowStatusLine(StrCat("starting ", Counted(bench.ranks, "rank")));
}

absl::Status WriteCsv(const std::string& path, const Bench& bench) {
  std::ofstream file(path);
  file << CsvText(bench);
  file.close();
  if (file) return absl::OkStatus();
  return absl::UnknownError(StrCat("--out=", path, ": cannot be written"));
}

int Fail(const absl::Status& status, int exit_status) {
  LogError(status.message());
  return exit_status;
}

int RunBench(const Options& options) {
  absl::StatusOr<Plan> plan = MakePlan(options);
  if (!plan.ok()) return SaysWhatAllFound() ? Fail(plan.status(), 2) : 2;
  Bench& bench = plan->bench;
  bench.request.progress = ProgressOf(bench.request, bench.ranks);
  if (plan->fabric->processes() == 0) AnnounceRanks(bench);
  const absl::Status ran = Run(*plan);
  if (!plan->fabric->speaks()) return ran.ok() ? 0 : 1;
  ClearStatusLine();
  const std::string text =
      options.json ? JsonText(bench) : HeaderText(bench, options.shown_notes) + RowsText(bench) + FooterText(bench);
  std::fputs(text.c_str(), stdout);
  if (!options.out.empty()) {
    if (const absl::Status written = WriteCsv(options.out, bench); !written.ok()) return Fail(written, 1);
  }
  if (!ran.ok()) return Fail(ran, plan->fabric->predicted() && absl::IsResourceExhausted(ran) ? 3 : 1);
  return WrongValues(bench).value_or(0) == 0 ? 0 : 1;
}

// Options of nccl-tests that are refused by name, with a hint at what replaces them.
void AddOptionsOfNcclTests(const Command& command) {
  constexpr std::string_view
      kRanks = "an option of nccl-tests that does not exist here; use --ranks, which also counts GPUs",
      kWait = "an option of nccl-tests that does not exist here; use --wait",
      kNothing = "an option of nccl-tests that has no counterpart here; leave it out";
  constexpr std::pair<const char*, std::string_view> kOptions[] = {
      {"-g,--ngpus", kRanks},           {"-t,--nthreads", kRanks},         {"-m,--agg_iters", kNothing},
      {"-p,--parallel_init", kNothing}, {"-z,--blocking", kWait},          {"-T,--timeout", kNothing},
      {"-G,--cudagraph", kNothing},     {"-C,--report_cputime", kNothing}, {"-a,--average", kNothing},
      {"-R,--local_register", kNothing}};
  for (const auto& [names, why] : kOptions) command.Refuse(names, std::string(why));
}

}  // namespace

void AddBenchCommand(const Command& program, int& exit_status) {
  auto options = std::make_shared<Options>();
  const Command command = program.AddCommand(
      "bench", "times a collective over a range of sizes, on any fabric, and prints the table of nccl-tests");
  Options& o = *options;
  std::vector<std::string> operations;
  for (const Operation& operation : Operations()) operations.emplace_back(operation.name);
  command.AddOption("OPERATION", o.operation, absl::StrJoin(operations, ", ")).Required().Offers(operations);
  command.Group("Sizes").AddOption("-b,--minbytes=BYTES", o.least, "smallest size (default 8)");
  command.AddOption("-e,--maxbytes=BYTES", o.most, "largest size (default 64M; the ranks' memory must hold it)");
  command.AddOption("-f,--stepfactor=N", o.factor, "each size is this times the one before (default 2)");
  command.AddOption("-i,--stepbytes=BYTES", o.step,
                    "instead of --stepfactor: each size is this many bytes more than the one before");
  command.Group("Calls").AddOption("-n,--iters=N", o.iterations,
                                   "timed calls per size (default 20; predicted: 1, or 20 of broadcast and reduce)");
  command.AddOption("-w,--warmup_iters=N", o.warmup, "calls per size before the timed ones (default 5; predicted: 0)");
  command.AddFlag("--wait", o.wait,
                  "wait for each call before the next, as a program does that needs the result at once; default: as in "
                  "nccl-tests, calls are issued while the ones before them still run");
  command.AddOption("-o,--op=OP", o.reduce, "for reductions: sum, prod, min, max or avg (default sum)")
      .Offers({"sum", "prod", "min", "max", "avg"});
  command.AddOption("-d,--datatype=TYPE", o.dtype, "float, double, bfloat16, half, int32 or uint8 (default float)")
      .Offers({"float", "double", "bfloat16", "half", "int32", "uint8"});
  command.AddOption("-r,--root=RANK", o.root, "root rank of broadcast, reduce, gather and scatter (default 0)");
  command
      .AddOption("-c,--check=0|1", o.check,
                 "1: check results and count wrong values; 0: do not (default 1; predicted: 0)")
      .Offers({"0", "1"});
  command.Group("Where")
      .AddOption("--fabric=FABRIC", o.fabric, "where to run; see `twofold list fabrics`")
      .ShowDefault();
  command
      .AddOption("--device=DEVICE", o.device,
                 "device whose memory is used: cpu or cuda (default: cuda on nccl, else cpu)")
      .Offers({"cpu", "cuda"});
  command.AddOption(
      "--ranks=N", o.ranks,
      "number of ranks. Default: on in_memory, 2; on mpi, gloo and nccl, the processes that were started; on "
      "simulated, one per device of --nodes, or 8 without --nodes (fewer on a smaller cluster)");
  command.AddOption("--cluster=CLUSTER", o.cluster,
                    "simulated: a name of `twofold topology list`, or a file (default this-machine)");
  command.AddOption(
      "--nodes=N", o.nodes,
      "simulated: how many nodes of the cluster to use; `twofold topology list` shows how many it has, and a fat "
      "tree grows if it has fewer (default: as many as the ranks need)");
  command.AddOption("--ranks-per-node=N", o.ranks_per_node,
                    "simulated: use so many devices of each node, and as many nodes as the ranks need (default: all)");
  command.AddOption(
      "--algorithm=NAME", o.algorithm,
      "simulated: auto (default), or an algorithm of the cluster's library: ring, tree, direct, nvls, ...");
  command
      .AddOption("--protocol=NAME", o.protocol,
                 "simulated, clusters that run NCCL: auto (default), Simple, LL or LL128")
      .Offers({"auto", "Simple", "LL", "LL128"});
  command.Group("Results").AddFlag("--json", o.json, "print JSON instead of the table");
  AddNotesOption(command, o.shown_notes);
  command.AddOption("--out=FILE", o.out, "also write the rows to this file, as CSV");
  AddOptionsOfNcclTests(command);
  command.Footer(kFooter);
  command.OnParsed([options, &exit_status] { exit_status = RunBench(*options); });
}

}  // namespace twofold
