// twofold replay DIR --cluster=CLUSTER
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "core/base/format.h"
#include "core/base/status.h"
#include "core/base/strings.h"
#include "experiments/program/assemble.h"
#include "experiments/program/cli/log.h"
#include "experiments/program/cli/notes.h"
#include "experiments/program/commands.h"
#include "experiments/program/replayed_run.h"
#include "experiments/program/report/files.h"
#include "experiments/program/report/write_report.h"
#include "experiments/program/spec/spec.h"
#include "experiments/program/workload/chakra.h"
#include "nlohmann/json.hpp"

namespace twofold {
namespace {

struct Options {
  std::string folder, cluster, out, name;
  std::vector<std::string> sets;
  int traced = 64;
  bool json = false;
  std::string shown_notes = "short";
};

// The fabric, for so many ranks. The model is never trained: the traces say what ranks do.
absl::StatusOr<spec::Spec> SpecOf(const Options& o, size_t ranks) {
  for (const std::string& set : o.sets) {
    if (!absl::StartsWith(set, "fabric.simulated."))
      return InvalidArgument("--set=", set, ": only fields of fabric.simulated count here: the traces say the rest");
  }
  const std::string text =
      StrCat("model { mlp { inputs: 1 hidden: 1 classes: 2 } }\nparallel { dp: ", ranks,
             " }\nmemory { assume_fits: true }\ntrace { enabled: false }\nfabric { simulated { cluster: \"", o.cluster,
             "\" folding: OFF noise: OFF contention: OFF } }\n");
  return ResolveSpec(text, "replay", "simulated", o.sets);
}

nlohmann::ordered_json Json(const Options& o, const Workload& workload, const ReplayedSteps& steps,
                            const std::vector<std::string>& notes) {
  nlohmann::ordered_json json;
  size_t nodes = 0;
  for (const auto& rank : workload.ranks) nodes += rank.size();
  json["traces"] = o.folder, json["cluster"] = o.cluster;
  json["ranks"] = workload.ranks.size(), json["nodes"] = nodes, json["groups"] = workload.groups.size();
  json["step_seconds"] = steps.seconds, json["seconds"] = steps.all, json["steps_are_marked"] = steps.marked;
  json["notes"] = notes;
  return json;
}

void Print(const Options& o, const Workload& workload, const ReplayedSteps& steps,
           const std::vector<std::string>& notes) {
  if (o.json) return (void)std::printf("%s\n", Json(o, workload, steps, notes).dump(2).c_str());
  int64_t nodes = 0;
  for (const auto& rank : workload.ranks) nodes += std::ssize(rank);
  std::printf("%s on %s, predicted: %s of %s\n", o.folder.c_str(), o.cluster.c_str(), Counted(nodes, "node").c_str(),
              Counted(std::ssize(workload.ranks), "rank").c_str());
  if (steps.marked)
    std::printf("step time   %s, median of %s\n", SecondsText(Quantile(steps.seconds, 0.5)).c_str(),
                Counted(std::ssize(steps.seconds), "step").c_str());
  std::printf("all         %s\n", SecondsText(steps.all).c_str());
  std::printf("%s", NotesText(notes, o.shown_notes).c_str());
}

absl::Status Replay(const Options& o) {
  if (o.traced < 1) return InvalidArgument("--ranks must be at least 1 (got ", o.traced, ")");
  absl::StatusOr<ChakraTraces> traces = ReadChakraFolder(o.folder);
  if (!traces.ok()) return traces.status();
  const absl::StatusOr<spec::Spec> spec = SpecOf(o, traces->workload.ranks.size());
  if (!spec.ok()) return spec.status();
  if (!o.out.empty()) {
    if (absl::Status made = MakeOutFolder("--out", o.out); !made.ok()) return made;
  }
  const absl::StatusOr<WorkloadRun> run = RunWorkload(*spec, traces->workload);
  if (!run.ok()) return run.status();
  std::vector<std::string> notes = traces->notes;
  notes.push_back("devices are taken for alike: that ranks wait for the slowest of many is left out");
  for (const std::string& note : run->notes) {
    if (!absl::StartsWith(note, "kernel times: ")) notes.push_back(note);  // the traces' count
  }
  Print(o, traces->workload, StepsOf(traces->workload, *run), notes);
  if (o.out.empty()) return absl::OkStatus();
  WorkloadRun noted = *run;
  noted.notes = notes;
  const std::string name = std::filesystem::path(o.out).lexically_normal().filename().string();
  const absl::StatusOr<MeasuredRun> report =
      ReplayedRun(traces->workload, noted, name.empty() ? "replay" : name, o.folder, o.traced);
  if (!report.ok()) return report.status();
  if (absl::Status written = WriteReport(o.out, report->report, report->spec, report->records); !written.ok())
    return written;
  if (!o.json) std::printf("report: %s\n", o.out.c_str());
  return absl::OkStatus();
}

}  // namespace

void AddReplayCommand(const Command& program, int& exit_status) {
  const Command command = program.AddCommand(
      "replay", "predicts a job from its execution traces (MLCommons' Chakra) on any simulated cluster");
  auto options = std::make_shared<Options>();
  command
      .AddOption("DIR", options->folder,
                 "a folder with a trace of each rank, \"*.<rank>.et\", and groups.json, the ranks of process groups by "
                 "name; or a run's folder that has them in chakra/")
      .Required();
  command.AddOption("--cluster=CLUSTER", options->cluster, "a cluster of the catalogue, or a file").Required();
  command.AddOption("--set=FIELD=V", options->sets, "a field of fabric.simulated, as for `run`; may be repeated")
      .Repeatable();
  command.AddOption("--out=DIR", options->out, "write a run's folder, for `twofold report` and `twofold compare`");
  command.AddOption("--ranks=N", options->traced, "ranks with a time line in that folder (default: 64)");
  command.AddFlag("--json", options->json, "print JSON");
  AddNotesOption(command, options->shown_notes);
  command.Footer(
      R"(A node begins when all that it depends on has ended. Work takes the time that the trace gives; communication takes what the cluster's
network says, and waits for its peers. So a job that was traced once can be predicted on other networks, but not with other devices.

A run writes such traces with --set=trace.execution_graph=true, a file for each rank that was simulated; --set=fabric.simulated.folding=OFF
simulates, and writes, every rank. Traces of PyTorch that Chakra's converter made are read, too: of their dependencies data_deps count. Edges that they lack are added or left out,
and the notes say how many; a cycle is refused, and its nodes are named.

Exit status: 0 fine; 1 a failure, such as ranks that wait for each other; 2 a file is no such trace, ranks call different collectives, or
wrong options.

Examples:
  twofold run my.textproto --fabric=simulated --set=trace.execution_graph=true --set=fabric.simulated.folding=OFF --out=runs/mine
  twofold replay runs/mine --cluster=dgx-a100
  twofold replay traces --cluster=alps --set=fabric.simulated.nodes=64 --out=runs/on-alps)");
  command.OnParsed([options, &exit_status] {
    const absl::Status status = Replay(*options);
    if (status.ok()) return;
    LogError(status.message());
    exit_status = absl::IsInvalidArgument(status) || absl::IsNotFound(status) ? kExitWrongInput : kExitFailed;
  });
}

}  // namespace twofold
