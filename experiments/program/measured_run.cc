#include "experiments/program/measured_run.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "core/base/format.h"
#include "core/base/status.h"
#include "core/proto/world_size.h"
#include "experiments/program/assemble.h"
#include "experiments/program/report/rank_rows.h"
#include "experiments/program/report/write_report.h"
#include "experiments/program/step_time.h"
#include "strategies/from_spec.h"

namespace twofold {
namespace {

// Gives each trace its rank, sorts them by it, and returns the number of ranks of the job. If no trace says it, the
// spec's counts.
absl::StatusOr<int64_t> NumberRanks(std::vector<RankTrace>& traces, const std::optional<spec::Spec>& spec,
                                    std::vector<std::string>& notes) {
  const auto says = [](const RankTrace& t) { return t.rank.has_value(); };
  const auto silent = std::find_if_not(traces.begin(), traces.end(), says);
  int64_t world = 0;
  if (silent != traces.end()) {
    const auto other = std::find_if(traces.begin(), traces.end(), says);
    if (other != traces.end()) {
      return InvalidArgument(silent->file, ": does not say which rank it is of (distributedInfo), but ", other->file,
                             " does; give traces of one job");
    }
    for (size_t i = 0; i < traces.size(); ++i) {
      traces[i].rank = static_cast<int64_t>(i);
      world = std::max<int64_t>(world, std::ssize(traces));
      for (const DeviceSpan& s : traces[i].device) world = std::max(world, s.call ? s.call->group_size : 0);
      for (const HostCall& c : traces[i].calls) world = std::max(world, c.call.group_size);
    }
    constexpr int64_t kMostRanks = 1 << 20;
    if (world > kMostRanks)
      return InvalidArgument(traces[0].file, ": Group size: ", world, " is out of range; expected 1 to ", kMostRanks);
    const bool of_spec = spec && WorldSize(*spec) > world;  // not all ranks were traced
    if (of_spec) world = WorldSize(*spec);
    if (world > 1) {
      notes.push_back(StrCat("the traces do not say which ranks they are of: the order of the files counts, and ",
                             Counted(world, "rank"),
                             of_spec ? ", as the spec has" : ", the size of the largest group"));
    }
  } else {
    world = *traces[0].world_size;
    for (const RankTrace& t : traces) {
      if (t.world_size != world)
        return InvalidArgument(t.file, ": is of a job of ", *t.world_size, " ranks, but ", traces[0].file, " of ",
                               world, "; give traces of one job");
    }
  }
  std::stable_sort(traces.begin(), traces.end(),
                   [](const RankTrace& a, const RankTrace& b) { return a.rank < b.rank; });
  for (size_t i = 1; i < traces.size(); ++i) {
    if (traces[i].rank == traces[i - 1].rank)
      return InvalidArgument(traces[i].file, ": is of rank ", *traces[i].rank, ", as is ", traces[i - 1].file,
                             "; give one file for each rank");
  }
  return world;
}

// Clocks of different machines, or of traces without a common origin, may be far apart.
void SetOrigins(const std::vector<RankTrace>& traces, std::vector<report::RankRecord>& records,
                std::vector<std::string>& notes) {
  const auto since_first = [&](size_t i) {
    return (static_cast<double>(traces[i].clock_nanoseconds) - static_cast<double>(traces[0].clock_nanoseconds)) * 1e-9;
  };
  const auto begins = [](const report::RankRecord& r) { return r.spans().empty() ? 0 : r.spans(0).start(); };
  bool apart = false;
  constexpr double kTogether = 60;  // seconds: ranks cannot be so far apart within a step
  for (size_t i = 1; i < traces.size(); ++i)
    apart = apart || std::abs(since_first(i) + begins(records[i]) - begins(records[0])) > kTogether;
  double earliest = 0;
  for (size_t i = 0; i < traces.size(); ++i) {
    records[i].set_trace_origin_seconds(apart ? -begins(records[i]) : since_first(i));
    earliest = std::min(earliest, records[i].trace_origin_seconds());
  }
  for (report::RankRecord& r : records) r.set_trace_origin_seconds(r.trace_origin_seconds() - earliest);
  if (apart) notes.push_back("the clocks of the ranks are more than a minute apart: each time line begins at 0");
}

void AddTimes(const MeasuredRunOptions& options, report::Report& out) {
  std::vector<double> seconds, exposed;
  for (const report::Step& s : out.steps())
    seconds.push_back(s.seconds()), exposed.push_back(s.exposed_communication_seconds());
  out.set_median_step_seconds(Quantile(seconds, 0.5));
  out.set_low(Quantile(seconds, 0.1)), out.set_high(Quantile(seconds, 0.9));
  out.set_exposed_communication_seconds(Quantile(exposed, 0.5));
  if (std::ssize(seconds) < 10)
    out.add_notes(StrCat("low and high are percentiles of only ", Counted(std::ssize(seconds), "step")));
  if (!options.spec) return;
  const spec::Spec& spec = *options.spec;
  const auto model = ModelOf(spec.model());
  out.set_parameters(ParameterCount(*model));
  out.set_model_flops_per_step(model->TrainingFlops(spec.train().global_batch()));
  out.set_tokens_per_second(static_cast<double>(spec.train().global_batch() * ItemsPerSample(*model)) /
                            out.median_step_seconds());
}

void AddNotes(const std::vector<RankTrace>& traces, const MeasuredRunOptions& options, const RankRecords& records,
              const std::vector<std::string>& notes, report::Report& out) {
  std::set<std::string> seen;
  const auto add = [&](const std::string& note) {
    if (seen.insert(note).second) out.add_notes(note);
  };
  add(StrCat("imported from ", Counted(std::ssize(traces), "trace"), " of ", traces[0].program, ": ", traces[0].file,
             traces.size() > 1 ? ", ..." : ""));
  add(StrCat("a step lasts from its first ", traces[0].on_host ? "operator" : "work on the GPU",
             " to the next step's; losses are not in traces"));
  if (!options.spec)
    add("traces do not say what was trained: throughput, flops and parameters are 0 (--spec gives a spec of the job)");
  if (traces.size() == 1 && out.world_size() > 1)
    add("one rank's trace is given, so waiting for other ranks is part of the collectives");
  for (const std::string& note : notes) add(note);
  for (const report::RankRecord& record : records.kept()) {
    for (const std::string& note : record.notes())
      add(records.size() > 1 ? StrCat("rank ", record.rank(), ": ", note) : note);
  }
}

}  // namespace

absl::StatusOr<MeasuredRun> MeasuredRunOf(std::vector<RankTrace> traces, const MeasuredRunOptions& options) {
  std::vector<std::string> notes;
  for (const RankTrace& t : traces) {
    if (t.program != traces[0].program)
      return InvalidArgument(t.file, ": is of ", t.program, ", but ", traces[0].file, " of ", traces[0].program,
                             "; give traces of one program");
  }
  const absl::StatusOr<int64_t> world = NumberRanks(traces, options.spec, notes);
  if (!world.ok()) return world.status();
  if (options.spec && WorldSize(*options.spec) != *world)
    return InvalidArgument("--spec: ", options.spec->name(), " is a job of ", WorldSize(*options.spec),
                           " ranks, but the traces are of ", *world);
  std::vector<report::RankRecord> of_each;
  for (const RankTrace& trace : traces) {
    absl::StatusOr<report::RankRecord> record = ToRecord(trace, options.import);
    if (!record.ok()) return record.status();
    record->set_rank(*trace.rank);
    record->mutable_memory()->set_rank(*trace.rank);
    of_each.push_back(*std::move(record));
  }
  SetOrigins(traces, of_each, notes);
  MeasuredRun run;
  for (report::RankRecord& record : of_each) {
    const int64_t rank = record.rank();
    run.records.Add(rank, run.records.Keep(std::move(record)), true);
  }
  report::Report& out = run.report;
  out.set_schema_version(kReportSchemaVersion);
  out.set_name(options.name), out.set_fabric(traces[0].fabric), out.set_predicted(false), out.set_outcome(report::OK);
  out.set_world_size(*world), out.set_device(traces[0].device_name), out.set_imported_from(traces[0].program);
  out.set_memory_at_device(false);
  AddRankRows(run.records, out);
  const report::RankRecord& first = run.records.lead();
  *out.mutable_steps() = first.steps();
  *out.mutable_collectives() = first.collectives();
  *out.mutable_kernels() = first.kernels();
  AddTimes(options, out);
  AddStepTime(run.records, first.steps_size(), out);
  AddNotes(traces, options, run.records, notes, out);
  if (options.spec) run.spec = *options.spec;
  run.spec.set_name(options.name);
  run.spec.mutable_trace()->set_enabled(true);
  return run;
}

}  // namespace twofold
