// twofold topology show|list|import|export: their options and help. experiments/program/topology has what they do.
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "experiments/program/cli/log.h"
#include "experiments/program/commands.h"
#include "experiments/program/topology/options.h"

namespace twofold {
namespace {

Command AddSubcommand(const Command& topology, const std::string& name, const std::string& summary,
                      absl::Status (*run)(const topology::Options&), const std::shared_ptr<topology::Options>& options,
                      int& exit_status) {
  const Command command = topology.AddCommand(name, summary);
  command.OnParsed([run, options, &exit_status] {
    const absl::Status status = run(*options);
    if (status.ok()) return;
    LogError(status.message());
    exit_status = absl::IsInternal(status) ? kExitFailed : kExitWrongInput;
  });
  return command;
}

constexpr char kExitText[] = "\n\nExit status: 0 fine; 1 the output cannot be written; 2 wrong input.";
constexpr const char* kSubjectHelp =
    "a name of `twofold topology list`, a cluster's .textproto, or a file of NCCL, nvidia-smi or SimGrid";

void AddShow(const Command& program, const std::shared_ptr<topology::Options>& options, int& exit_status) {
  const Command show =
      AddSubcommand(program, "show", "draws a cluster as SVG (nodes, switches, link widths) and prints its figures",
                    topology::Show, options, exit_status);
  show.AddOption("CLUSTER", options->cluster, kSubjectHelp).Required();
  show.AddOption("--nodes=N", options->nodes,
                 "number of nodes used; default: all. A fat tree grows if it has fewer. A star or a full mesh is built "
                 "with these nodes only, any other "
                 "network with all its nodes (except with --nodes=1)");
  show.AddOption("--out=FILE", options->out, "the picture to write; default: NAME.svg in the current folder");
  show.AddFlag("--json", options->json, "print the figures as JSON; the picture is then written only with --out");
  show.Footer(
      std::string(
          "For a large cluster, only a part is drawn; the picture says what is left out. The figures are those of the\n"
          "whole cluster.\n"
          "Examples:\n  twofold topology show dgx-h100\n  twofold topology show mine.textproto --out=mine.svg\n  "
          "twofold topology show system.xml   # what NCCL_TOPO_DUMP_FILE wrote") +
      kExitText);
}

void AddList(const Command& program, const std::shared_ptr<topology::Options>& options, int& exit_status) {
  const Command list =
      AddSubcommand(program, "list", "the catalogue with its figures: endpoints, switches, cables, diameter, bisection",
                    topology::List, options, exit_status);
  list.AddFlag("--json", options->json, "print JSON: the figures of each cluster");
  list.Footer(
      std::string("`twofold list clusters` describes each of them.\n"
                  "Examples:\n  twofold topology list\n  twofold topology show dgx-h100     # one of them, drawn") +
      kExitText);
}

void AddImport(const Command& program, const std::shared_ptr<topology::Options>& options, int& exit_status) {
  const Command import =
      AddSubcommand(program, "import", "makes a cluster file from the description of a node or platform",
                    topology::Import, options, exit_status);
  import
      .AddOption("FILE", options->cluster,
                 "NCCL's XML (NCCL_TOPO_DUMP_FILE), the text of `nvidia-smi topo -m` with that of `nvidia-smi -L` "
                 "above it, or a SimGrid platform")
      .Required();
  import.AddOption("--from=FORMAT", options->from, "nccl, smi or simgrid; default: recognised by the content")
      .OneOf({"nccl", "smi", "simgrid"});
  import.AddOption(
      "--nodes=N", options->nodes,
      "number of such nodes, joined by one switch that is never a bottleneck; default: 1, without a network");
  import.AddOption("--nic-gbits=RATE", options->nic_gbits,
                   "of each NIC, in Gb/s each way, for --nodes; default: that of the slowest in the file. nvidia-smi's "
                   "matrix has none");
  import.AddOption("--pcie-gbytes=RATE", options->pcie_gbytes,
                   "of 16 lanes of PCIe, in GB/s each way, for nvidia-smi's matrix, which has none; default: that of "
                   "--device's cluster, or of the GPUs that the file names");
  import.AddOption(
      "--device=CLUSTER", options->device,
      "a cluster that has the same device (memory, rates); default: chosen by the architecture that NCCL's "
      "file names, or by the GPUs' name in nvidia-smi's");
  import.AddOption("--name=NAME", options->name, "the name of the cluster; default: that of the file");
  import.AddOption("--out=FILE", options->out, "the .textproto to write; default: stdout");
  import.Footer(
      std::string(
          "The cluster file refers to the imported file, which must stay where it is. NVIDIA GPUs get library nccl\n"
          "with the constants of their generation. A SimGrid platform gets library ideal, without software costs.\n"
          "Examples:\n  NCCL_TOPO_DUMP_FILE=node.xml mpirun -n 8 all_reduce_perf      # once, on the machine\n"
          "  twofold topology import node.xml --nodes=16 --out=mine.textproto\n  twofold bench all_reduce "
          "--fabric=simulated --cluster=mine.textproto\n"
          "  (nvidia-smi -L; nvidia-smi topo -m) > node.txt      # the GPUs' names, and the matrix\n"
          "  twofold topology import node.txt --nodes=16 --nic-gbits=200 --out=mine.textproto") +
      kExitText);
}

void AddExport(const Command& program, const std::shared_ptr<topology::Options>& options, int& exit_status) {
  const Command out =
      AddSubcommand(program, "export",
                    "writes a cluster as a file to edit, or for SimGrid or Graphviz, or writes an imported file back",
                    topology::Export, options, exit_status);
  out.AddOption("CLUSTER", options->cluster, kSubjectHelp).Required();
  out.AddOption(
         "--to=FORMAT", options->to,
         "cluster (a description to edit), simgrid or dot; nccl or smi only for a cluster that was imported from "
         "such a file")
      .Required()
      .OneOf({"cluster", "simgrid", "dot", "nccl", "smi"});
  out.AddOption("--nodes=N", options->nodes, "number of nodes; default: all");
  out.AddOption("--out=FILE", options->out, "the file to write; default: stdout");
  out.Footer(
      std::string("Examples:\n  twofold topology export dgx-h100 --to=cluster --nodes=1024 --out=mine.textproto\n"
                  "  twofold topology export dgx-h100 --to=simgrid --nodes=16 --out=platform.xml\n  "
                  "twofold topology export dgx-1v --to=dot | dot -Tsvg > dgx-1v.svg") +
      kExitText);
}

}  // namespace

void AddTopologyCommand(const Command& program, int& exit_status) {
  const Command command = program.AddCommand(
      "topology", "draws clusters, prints their figures, and reads and writes the formats of other programs");
  command.RequireCommand();
  const auto options = std::make_shared<topology::Options>();
  AddShow(command, options, exit_status);
  AddList(command, options, exit_status);
  AddImport(command, options, exit_status);
  AddExport(command, options, exit_status);
  command.Footer(
      std::string(
          "Examples:\n  twofold topology list\n  twofold topology show dgx-h100\n  twofold topology import node.xml "
          "--out=mine.textproto\n"
          "  twofold topology export dgx-h100 --to=simgrid --nodes=4\n`twofold topology SUBCOMMAND --help` has "
          "details.") +
      kExitText);
}

}  // namespace twofold
