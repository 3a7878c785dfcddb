#include "experiments/program/replayed_run.h"

#include <algorithm>
#include <map>
#include <utility>

#include "core/base/strings.h"
#include "experiments/program/workload/steps.h"

namespace twofold {
namespace {

std::vector<double> EndsOf(const std::vector<WorkloadRun::Times>& times) {
  std::vector<double> ends;
  for (const WorkloadRun::Times& t : times) ends.push_back(t.end);
  return ends;
}

ImportedCall CallOf(const WorkloadNode& node, const Workload::Group& group) {
  const auto ranks = static_cast<int64_t>(group.ranks.size());
  ImportedCall call{.operation = std::string(KindName(node.operation)), .group = group.name, .group_size = ranks};
  const bool parts = node.operation == Communication::kAllGather || node.operation == Communication::kGather;
  call.bytes = parts ? node.bytes * ranks : node.bytes;
  return call;
}

// As a trace of a device, whose kernels and collectives are named as ours and as NCCL's.
RankTrace TraceOf(const Workload& workload, const WorkloadRun& run, size_t rank, const std::string& of) {
  const std::vector<WorkloadNode>& nodes = workload.ranks[rank];
  RankTrace trace{.file = StrCat(of, ", rank ", rank), .program = "an execution trace"};
  trace.rank = static_cast<int64_t>(rank), trace.world_size = std::ssize(workload.ranks);
  std::map<std::string, int64_t> streams;
  double all = 0;
  for (size_t n = 0; n < nodes.size(); ++n) {
    const WorkloadNode& node = nodes[n];
    const WorkloadRun::Times& t = run.of[rank][n];
    all = std::max(all, t.end);
    const bool work = node.kind == WorkloadNode::kWork;
    if (node.kind == WorkloadNode::kMark || (work && (node.host || node.seconds == 0))) continue;
    DeviceSpan span{
        .name = work ? node.name : StrCat("nccl:", KindName(node.operation)), .start = t.begin, .end = t.end};
    if (span.name == "transfer") span.name = "Memcpy";
    span.stream = streams.try_emplace(node.stream, std::ssize(streams)).first->second;
    if (!work) span.call = CallOf(node, workload.groups[static_cast<size_t>(node.group)]);
    trace.device.push_back(std::move(span));
  }
  int64_t step = 0;
  for (const auto& [from, to] : StepSpans(nodes, EndsOf(run.of[rank])))
    trace.annotations.push_back({.name = StrCat("ProfilerStep#", step++), .start = from, .end = to});
  if (trace.annotations.empty()) trace.annotations.push_back({.name = "ProfilerStep#0", .start = 0, .end = all});
  return trace;
}

}  // namespace

ReplayedSteps StepsOf(const Workload& workload, const WorkloadRun& run) {
  ReplayedSteps steps;
  for (size_t r = 0; r < workload.ranks.size(); ++r) {
    const std::vector<double> ends = EndsOf(run.of[r]);
    for (const double end : ends) steps.all = std::max(steps.all, end);
    size_t step = 0;
    for (const auto& [from, to] : StepSpans(workload.ranks[r], ends)) {
      if (step == steps.seconds.size()) steps.seconds.push_back(0);
      steps.seconds[step] = std::max(steps.seconds[step], to - from);
      ++step;
    }
  }
  steps.marked = !steps.seconds.empty();
  if (!steps.marked) steps.seconds = {steps.all};
  return steps;
}

absl::StatusOr<MeasuredRun> ReplayedRun(const Workload& workload, const WorkloadRun& run, const std::string& name,
                                        const std::string& of, int traced) {
  std::vector<RankTrace> traces;
  for (size_t r = 0; r < workload.ranks.size() && std::ssize(traces) < traced; ++r)
    traces.push_back(TraceOf(workload, run, r, of));
  MeasuredRunOptions options;
  options.name = name;
  absl::StatusOr<MeasuredRun> made = MeasuredRunOf(std::move(traces), options);
  if (!made.ok()) return made;
  report::Report& report = made->report;
  report.set_fabric("simulated"), report.set_predicted(true);
  report.clear_notes();
  report.add_notes(StrCat("replayed from the execution traces ", of,
                          ": work takes what its nodes say, communication what the cluster's network says"));
  report.add_notes("losses, memory and what was trained are not in these traces: their figures are 0");
  for (const std::string& note : run.notes) report.add_notes(note);
  return made;
}

}  // namespace twofold
