#include "experiments/program/assemble.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "core/base/errors.h"
#include "core/base/format.h"
#include "core/base/status.h"
#include "core/base/strings.h"
#include "core/proto/bytes.h"
#include "core/run/trace.h"
#include "experiments/program/async_sgd.h"
#include "experiments/program/bubble.h"
#include "experiments/program/report/load.h"
#include "experiments/program/report/rank_rows.h"
#include "experiments/program/report/write_report.h"
#include "experiments/program/step_time.h"
#include "strategies/from_spec.h"

namespace twofold {
namespace {

// The steps that count: from the first index on, until before the second. A record may have more than the spec asks for
// (PredictSteps).
std::pair<int, int> Steady(const spec::Spec& spec, const report::RankRecord& record) {
  int steps = record.steps_size();
  if (const int64_t asked = spec.train().steps() - record.first_step(); spec.train().has_steps() && asked > 0)
    steps = static_cast<int>(std::min<int64_t>(steps, asked));
  const auto warmup = std::min<int64_t>(spec.train().warmup_steps(), steps);
  return {warmup < steps ? static_cast<int>(warmup) : 0, steps};
}

// Rank 0's.
std::vector<report::Step> SteadySteps(const spec::Spec& spec, const report::RankRecord& record) {
  const auto [first, last] = Steady(spec, record);
  return {record.steps().begin() + first, record.steps().begin() + last};
}

void AddValidations(const spec::Spec& spec, const report::RankRecord& record, report::Report& out) {
  *out.mutable_validations() = record.validations();
  out.set_stopped_early(record.stopped_early());
  for (const report::Validation& v : record.validations()) {
    if (!out.has_best() || std::isnan(out.best().loss()) || v.loss() < out.best().loss()) *out.mutable_best() = v;
    *out.mutable_last() = v;
  }
  if (record.stopped_early()) {
    out.add_notes(StrCat("stopped early, after ", record.first_step() + record.steps_size(), " of ",
                         spec.train().steps(), " steps: ", spec.train().validation().patience(),
                         " validations in a row did not improve the loss",
                         record.spans_size() == 0 && spec.trace().enabled()
                             ? "; there is no trace, because the run could not know which steps would be its last"
                             : ""));
  }
}

// Number of executed steps that the trace covers: fewer than requested if the run ended early.
int64_t TracedSteps(const spec::Spec& spec, const report::RankRecord& record) {
  return record.first_step() + record.steps_size() -
         std::max(record.first_step(), spec.train().steps() - spec.trace().last_steps());
}

template <class Get>
std::vector<double> Column(const std::vector<report::Step>& steps, Get get) {
  std::vector<double> values;
  for (const report::Step& step : steps) values.push_back(get(step));
  return values;
}

// The errors of all kernels together, of links and of the machine as a whole are independent, so their squares add up.
// A pipeline's bubble is time in which other stages compute.
void AddInterval(const RankRecords& records, report::Report& out) {
  const double median = out.median_step_seconds();
  const double links = std::max(0.0, out.exposed_communication_seconds() - out.bubble_fraction() * median);
  double below = 0, above = 0;
  for (const report::RankRecord& r : records.kept()) {
    const auto off = [&](double compute, double communication, double machine) {
      return std::hypot((median - links) * (1 - compute), links * (1 - communication), median * (1 - machine));
    };
    below = std::max(below, off(r.compute_low_ratio(), r.communication_low_ratio(), r.machine_low_ratio()));
    above = std::max(above, off(r.compute_high_ratio(), r.communication_high_ratio(), r.machine_high_ratio()));
  }
  out.set_low(std::max(0.0, median - below));
  out.set_high(median + above);
}

void AddTimes(const spec::Spec& spec, const RankRecords& records, report::Report& out) {
  const std::vector<report::Step> steady = SteadySteps(spec, records.lead());
  const std::vector<double> seconds = Column(steady, [](const report::Step& s) { return s.seconds(); });
  const double median = Quantile(seconds, 0.5);
  out.set_median_step_seconds(median);
  out.set_exposed_communication_seconds(
      Quantile(Column(steady, [](const report::Step& s) { return s.exposed_communication_seconds(); }), 0.5));
  if (out.predicted()) {
    AddInterval(records, out);
  } else {
    out.set_low(Quantile(seconds, 0.1)), out.set_high(Quantile(seconds, 0.9));
  }
  if (median <= 0) return;
  const double items = static_cast<double>(spec.train().global_batch() * ItemsPerSample(*ModelOf(spec.model())));
  out.set_tokens_per_second(items / median);
  if (out.peak_flops_per_second() > 0) {
    const double mfu =
        out.model_flops_per_step() / median / (out.peak_flops_per_second() * static_cast<double>(out.world_size()));
    out.set_mfu(mfu);
    out.set_hfu(mfu * ModelOf(spec.model())->HardwareFlops(RecomputationOf(spec.train()), spec.train().global_batch()) /
                out.model_flops_per_step());
  }
}

void AddLoad(const RunFacts& facts, const RankRecords& records, report::Report& out) {
  report::Load load = facts.calibration;
  if (!facts.predicted) {
    std::vector<report::ProcessorUse> uses;
    for (const report::RankRecord& record : records.kept()) uses.push_back(record.processors());
    load = LoadOf(uses);
  }
  if (load.has_taken()) *out.mutable_load() = load;
  if (load.taken() <= kLoaded) return;
  out.add_notes(facts.predicted ? StrCat("the machine was loaded during calibration: ", LoadText(load),
                                         "; the interval is wider for that reason")
                                : StrCat("the machine was loaded during this run: ", LoadText(load)));
}

// What a report of a run whose ranks rarely meet must be read with.
std::vector<std::string> LocalUpdateNotes(const spec::Spec& spec) {
  std::vector<std::string> notes;
  if (!spec.train().has_local_update()) return notes;
  const int64_t every = EveryStepsOf(spec.train().local_update()), left = spec.train().steps() % every;
  if (spec.train().report_loss_every() % every != 0) {
    notes.push_back(StrCat("outer steps are taken every ", Counted(every, "step"), ", but the host waits every ",
                           Counted(spec.train().report_loss_every(), "step"),
                           " (train.report_loss_every): the median step leaves most of their time out"));
  }
  if (spec.parallel().islands() == 1) return notes;
  constexpr char kDiffer[] = "the islands end with different parameters, and checkpoints hold each";
  if (spec.train().steps() < every) {
    notes.push_back(
        StrCat("the run takes no outer step: it ends after ", Counted(spec.train().steps(), "step"), "; ", kDiffer));
  } else if (spec.train().local_update().has_streaming()) {
    notes.push_back(StrCat("fragments meet at different times: ", kDiffer));
  } else if (left != 0) {
    notes.push_back(StrCat("the run ends ", Counted(left, "step"), " after an outer step: ", kDiffer));
  }
  if (spec.parallel().sharding() == spec::Parallel::NO_SHARD && spec.parallel().dp() > spec.parallel().islands()) {
    notes.push_back(
        "each rank of an island sends all outer gradients; with parallel.sharding: ZERO_1 the ranks of an island would "
        "send a part each");
  }
  return notes;
}

// Options of communication among replicas that are set although there are no replicas.
std::vector<std::string> IdleOptions(const spec::Parallel& p) {
  const spec::Parallel& usual = spec::Parallel::default_instance();
  std::vector<std::string> notes;
  if (p.dp() * p.cp() > 1) return notes;
  const auto add = [&notes](auto... option) {
    notes.push_back(
        StrCat("parallel.", option...,
               " has no effect: parallel.dp * cp = 1, so there is no other replica to exchange gradients with"));
  };
  if (p.bucket_mib() != usual.bucket_mib()) add("bucket_mib = ", p.bucket_mib());
  if (p.prefetch() != usual.prefetch()) add("prefetch = ", p.prefetch());
  if (p.sharding() == spec::Parallel::NO_SHARD && p.reduce_every_micro_batch()) add("reduce_every_micro_batch = true");
  return notes;
}

// Appends `name` to a comma-separated list, unless it is already there.
void AddName(const std::string& name, std::set<std::string>& seen, std::string& list) {
  if (!name.empty() && seen.insert(name).second) StrAppend(&list, list.empty() ? "" : ", ", name);
}

// A message runs with its sender's algorithm; `ran` has the calls of one kind by size in bytes.
void NameWhatRan(const std::vector<RunResult::Ran>& ran, report::Collective& c) {
  std::set<std::string> algorithms, protocols;
  std::string algorithm, protocol;
  for (const RunResult::Ran& r : ran) {
    if (r.group != c.group() || r.operation != (c.operation() == "recv" ? "send" : c.operation())) continue;
    c.set_library(r.library);
    AddName(r.algorithm, algorithms, algorithm), AddName(r.protocol, protocols, protocol);
  }
  c.set_algorithm(algorithm), c.set_protocol(protocol);
}

std::string AssumedRouting(const spec::Moe& moe) {
  const spec::Routing& routing = moe.routing();
  std::string as = "every expert equally often";
  if (routing.has_zipf()) as = StrCat("experts by Zipf's law with exponent ", routing.zipf().exponent());
  if (routing.has_counts()) as = "experts in proportion to given counts";
  return StrCat("no tokens were routed: routers are assumed to choose ", as, " (model.moe.routing)");
}

void AddNotes(const spec::Spec& spec, const RunResult& result, const RankRecords& records, report::Report& out) {
  std::set<std::string> seen;
  const auto add = [&](const std::string& note) {
    if (seen.insert(note).second) out.add_notes(note);
  };
  const bool symbolic = spec.fabric().has_simulated() && spec.fabric().simulated().data() == spec::Simulated::SYMBOLIC;
  const bool emulated = !symbolic && spec.device() == spec::EMULATED;
  if (symbolic || emulated) {
    add(StrCat(symbolic ? "data SYMBOLIC" : "device EMULATED",
               ": no arithmetic was done; each loss is a stand-in, the logarithm of the number of classes"));
    if (spec.model().moe().dropless()) add(AssumedRouting(spec.model().moe()));
    if (spec.train().precision().loss_scale().has_dynamic()) {
      add("no gradients were computed, so none overflowed: no step was skipped, and the loss scale was not lowered");
    }
    if (spec.train().validation().patience() > 0) {
      add("no losses were computed, so the run did not stop early: it did all steps, and a run with data may do fewer");
    }
  }
  if (spec.train().report_loss_every() > 1) {
    add("the host waits for the device only where it reads the loss (train.report_loss_every), at the end of the "
        "warm-up and before the first traced step; each step from one wait to the next has their mean time");
  }
  const int steps = out.steps_size();
  if (steps > 0 && steps <= spec.train().warmup_steps()) {
    add(StrCat("the run ended within its ", spec.train().warmup_steps(),
               " warm-up steps: the median and its interval include them, all ", steps));
  }
  if (out.outcome() == report::OK && !out.predicted()) {
    const int64_t counted = steps > spec.train().warmup_steps() ? steps - spec.train().warmup_steps() : steps;
    if (counted < 10) add(StrCat("low and high are percentiles of only ", Counted(counted, "step")));
  }
  if (spec.train().has_elastic() && spec.fabric().has_mpi()) {
    add("train.elastic: this fabric survives no lost rank; only `twofold launch --restarts` heeds it");
  }
  for (const std::string& note : IdleOptions(spec.parallel())) add(note);
  for (const std::string& note : LocalUpdateNotes(spec)) add(note);
  if (out.predicted() && spec.train().checkpoint().on_signal())
    add("train.checkpoint.on_signal: no signal reaches simulated ranks, so it changes nothing here");
  for (const std::string& note : result.notes) add(note);
  for (const report::RankRecord& record : records.kept()) {
    for (const std::string& note : record.notes()) add(note);
  }
}

}  // namespace

double Quantile(std::vector<double> values, double q) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const double at = q * static_cast<double>(values.size() - 1);
  const auto below = static_cast<size_t>(at);
  const size_t above = std::min(below + 1, values.size() - 1);
  return values[below] + (at - static_cast<double>(below)) * (values[above] - values[below]);
}

void AddCodec(const report::RankRecord& first, report::Report& out) {
  double before = 0, after = 0, seconds = 0;
  for (const report::Step& step : first.steps()) {
    before += static_cast<double>(step.bytes_before_codec());
    after += static_cast<double>(step.bytes_after_codec());
  }
  if (before == 0) return;
  for (const report::KernelTotal& kernel : first.kernels()) {
    if (kernel.kernel().ends_with(kCodecEnding)) seconds += kernel.seconds();
  }
  out.mutable_codec()->set_bytes_before(before / first.steps_size());
  out.mutable_codec()->set_bytes_after(after / first.steps_size());
  out.mutable_codec()->set_seconds(seconds);
}

report::Outcome OutcomeOf(const absl::Status& status) {
  if (status.ok()) return report::OK;
  switch (FailureKind(status)) {
    case RankFailure::Kind::kOutOfMemory: return report::OUT_OF_MEMORY;
    case RankFailure::Kind::kDeadlock: return report::DEADLOCK;
    case RankFailure::Kind::kInterrupted: return report::INTERRUPTED;
    default: return report::FAILED;
  }
}

absl::StatusOr<RankRecords> ReadRecords(const spec::Spec& spec, const RunResult& result) {
  const RankResults& results = result.results;
  const RecorderOptions traced = RecorderOptionsOf(spec);
  RankRecords records;
  std::vector<std::optional<size_t>> kept(results.kept().size());  // indices into `records`
  for (size_t r = 0; r < results.size(); ++r) {
    const size_t which = results.which(r);
    if (results[r].empty() && result.status.ok() && !spec.train().has_elastic()) {  // elastic: it was lost
      return Internal("rank ", r, " left no record, although the run reports success");
    }
    if (results[r].empty()) continue;
    const bool fresh = !kept[which];
    if (fresh) {
      report::RankRecord record;
      if (absl::Status s = FromBytes(results[r], StrCat("the record of rank ", r), record); !s.ok()) return s;
      kept[which] = records.Keep(std::move(record));
    }
    const bool has_time_line =
        !records.kept()[*kept[which]].spans().empty() || !records.kept()[*kept[which]].samples().empty();
    const bool shown = fresh || results.size() <= kListedRanks;
    records.Add(static_cast<int64_t>(r), *kept[which], shown && has_time_line && IsTraced(traced, static_cast<int>(r)));
  }
  return records;
}

report::Report Assemble(const spec::Spec& spec, const RunFacts& facts, const RunResult& result,
                        const RankRecords& records) {
  report::Report out;
  out.set_schema_version(kReportSchemaVersion);
  out.set_name(spec.name());
  out.set_fabric(std::string(facts.fabric));
  out.set_predicted(facts.predicted);
  out.set_outcome(OutcomeOf(result.status));
  out.set_message(std::string(result.status.message()));
  out.set_world_size(facts.world_size);
  out.set_device(facts.device);
  if (result.folding_adds > 0) out.set_folding_adds(result.folding_adds);
  if (!records.empty()) out.set_bubble_fraction(BubbleFraction(spec, records, Steady(spec, records.lead())));
  out.set_model_flops_per_step(ModelOf(spec.model())->TrainingFlops(spec.train().global_batch()));
  out.set_peak_flops_per_second(facts.peak_flops_per_second);
  AddRankRows(records, out);
  if (!records.empty()) {
    const report::RankRecord& first = records.lead();
    *out.mutable_steps() = first.steps();
    *out.mutable_collectives() = first.collectives();
    for (report::Collective& c : *out.mutable_collectives()) NameWhatRan(result.ran, c);
    *out.mutable_kernels() = first.kernels();
    AddCodec(first, out);
    out.set_parameters(ParameterCount(*ModelOf(spec.model())));
    out.set_first_step(first.first_step());
    out.set_memory_at_device(first.samples_at_device());
    *out.mutable_checkpoints() = first.checkpoints();
    *out.mutable_generations() = first.generations();
    if (first.trained_seconds() > 0) {
      out.set_goodput(1 - first.lost_seconds() / first.trained_seconds());
      out.set_trained_seconds(first.trained_seconds());
    }
    AddTimes(spec, records, out);
    AddAsyncSgd(spec, records, out);
    AddStepTime(records, TracedSteps(spec, first), out);
    AddValidations(spec, first, out);
    if (facts.training_samples > 0) {
      out.set_epochs(static_cast<double>(first.steps_size() * spec.train().global_batch()) /
                     static_cast<double>(facts.training_samples));
    }
  }
  AddLoad(facts, records, out);
  AddNotes(spec, result, records, out);
  return out;
}

}  // namespace twofold
