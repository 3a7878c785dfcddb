#include "experiments/program/compare.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "core/base/format.h"
#include "core/base/strings.h"
#include "experiments/program/report/gpu_kernels.h"
#include "experiments/program/report/load.h"
#include "experiments/program/report/rank_rows.h"
#include "experiments/program/report/tables.h"
#include "experiments/program/spec/difference.h"
#include "strategies/from_spec.h"

namespace twofold {
namespace {

using report::Report;
using Unit = ComparedValue::Unit;

constexpr char kBeyond[] = "the median step minus the traced step";

int64_t Highest(const Report& r, int64_t (report::Rank::*get)() const) {
  int64_t highest = 0;
  for (const report::Rank& rank : r.ranks()) highest = std::max(highest, (rank.*get)());
  return highest;
}

double FinalLoss(const Report& r) {
  const std::vector<double> losses = LossesRead(r);
  return losses.empty() ? std::nan("") : losses.back();
}

bool LossesAreStandIns(const spec::Spec& spec) {
  return spec.fabric().has_simulated() && spec.fabric().simulated().data() == spec::Simulated::SYMBOLIC;
}

bool Imported(const Report& r) { return !r.imported_from().empty(); }

// Of a prediction for another framework that is held against that framework's own trace: what it allocates there.
int64_t PeakBytes(const report::Rank& r, bool framework) {
  return framework && r.has_framework() ? r.framework().allocated_bytes() : r.peak_bytes();
}
int64_t ReservedBytes(const report::Rank& r, bool framework) {
  return framework && r.has_framework() ? r.framework().reserved_bytes() : r.reserved_bytes();
}

// A trace that was imported may not have throughput, memory and losses: what it does not have has no row.
void AddValues(const Report& p, const spec::Spec& p_spec, const Report& m, const spec::Spec& m_spec, Comparison& out) {
  const bool imported = Imported(p) || Imported(m);
  const auto add = [&](std::string name, Unit unit, double predicted, double measured, bool always = false) {
    const bool known = (!Imported(p) || predicted > 0) && (!Imported(m) || measured > 0);
    if (known || always) out.values.push_back({unit, std::move(name), predicted, measured});
  };
  const auto add_bytes = [&](std::string name, auto bytes) {
    const auto highest = [&](const Report& r) {
      int64_t most = 0;
      for (const report::Rank& rank : r.ranks()) most = std::max(most, bytes(rank, imported));
      return static_cast<double>(most);
    };
    add(std::move(name), Unit::kBytes, highest(p), highest(m));
  };
  add("step time", Unit::kSeconds, p.median_step_seconds(), m.median_step_seconds(), /*always=*/true);
  const auto model = ModelOf((p_spec.has_model() ? p_spec : m_spec).model());
  if (model != nullptr)
    add(StrCat(ItemName(*model), " a second"), Unit::kPerSecond, p.tokens_per_second(), m.tokens_per_second());
  add("exposed communication", Unit::kSeconds, p.exposed_communication_seconds(), m.exposed_communication_seconds(),
      /*always=*/true);
  add_bytes("peak memory", PeakBytes);
  add_bytes("reserved memory", ReservedBytes);
  const int64_t p_host = Highest(p, &report::Rank::host_peak_bytes),
                m_host = Highest(m, &report::Rank::host_peak_bytes);
  if (p_host > 0 || m_host > 0) {
    add("peak host memory", Unit::kBytes, static_cast<double>(p_host), static_cast<double>(m_host));
    add("reserved host memory", Unit::kBytes, static_cast<double>(Highest(p, &report::Rank::host_reserved_bytes)),
        static_cast<double>(Highest(m, &report::Rank::host_reserved_bytes)));
  }
  if (imported) return;  // traces have no losses
  add("final loss", Unit::kLoss, FinalLoss(p), FinalLoss(m));
  out.values.back().comparable = !LossesAreStandIns(p_spec) && !LossesAreStandIns(m_spec);
}

double KernelSeconds(const Report& r) {
  double seconds = 0;
  for (const report::KernelTotal& k : r.kernels()) seconds += k.seconds();
  return seconds;
}

double TracedExposed(const Report& r) {
  double seconds = r.waiting_seconds() + r.exposed_other_seconds();
  for (const report::Collective& c : r.collectives()) seconds += c.exposed_seconds();
  return seconds;
}

double ExposedBeyondTraced(const Report& r) { return r.exposed_communication_seconds() - TracedExposed(r); }

double HostSeconds(const Report& r) { return r.traced_step_seconds() - KernelSeconds(r) - TracedExposed(r); }

void AddStepParts(const Report& p, const Report& m, Comparison& out) {
  if (p.traced_step_seconds() > 0 && m.traced_step_seconds() > 0) {
    const auto add = [&](std::string name, auto get) {
      out.step_parts.push_back({Unit::kSeconds, std::move(name), get(p), get(m)});
    };
    add(kKernelsPart, KernelSeconds);
    add(kExposedPart, [](const Report& r) { return r.exposed_communication_seconds(); });
    add("host between kernels", HostSeconds);
    add(StrCat("the rest: ", kBeyond),
        [](const Report& r) { return r.median_step_seconds() - r.traced_step_seconds() - ExposedBeyondTraced(r); });
    return;
  }
  const auto compute = [](const Report& r) { return r.median_step_seconds() - r.exposed_communication_seconds(); };
  out.step_parts.push_back({Unit::kSeconds, "compute", compute(p), compute(m)});
  out.step_parts.push_back(
      {Unit::kSeconds, kExposedPart, p.exposed_communication_seconds(), m.exposed_communication_seconds()});
}

void LargestErrorFirst(std::vector<ComparedValue>& values) {
  std::stable_sort(values.begin(), values.end(), [](const ComparedValue& a, const ComparedValue& b) {
    return std::abs(a.predicted - a.measured) > std::abs(b.predicted - b.measured);
  });
}

// Only collectives of both sides; times are per call, so that runs of different length can be compared.
void AddCollectives(const Report& p, const Report& m, Comparison& out) {
  for (const report::Collective& a : p.collectives()) {
    for (const report::Collective& b : m.collectives()) {
      if (a.operation() != b.operation() || a.group() != b.group() || a.count() == 0 || b.count() == 0) continue;
      out.collectives.push_back({Unit::kSeconds, StrCat(a.operation(), " on ", a.group()),
                                 a.seconds() / static_cast<double>(a.count()),
                                 b.seconds() / static_cast<double>(b.count())});
    }
  }
}

// Breaks down the compute stream's stalls, including every collective of either side.
void AddExposed(const Report& p, const Report& m, Comparison& out) {
  if (p.traced_step_seconds() <= 0 || m.traced_step_seconds() <= 0) return;
  std::map<std::string, std::pair<double, double>> seconds;
  for (const report::Collective& c : p.collectives())
    seconds[StrCat(c.operation(), " on ", c.group())].first = c.exposed_seconds();
  for (const report::Collective& c : m.collectives())
    seconds[StrCat(c.operation(), " on ", c.group())].second = c.exposed_seconds();
  seconds["waiting for other ranks"] = {p.waiting_seconds(), m.waiting_seconds()};
  seconds["transfers, and operations that were not traced"] = {p.exposed_other_seconds(), m.exposed_other_seconds()};
  seconds[kBeyond] = {ExposedBeyondTraced(p), ExposedBeyondTraced(m)};
  const auto some = [](double value) { return std::abs(value) > 1e-12; };  // more than rounding errors of a sum
  for (const auto& [name, both] : seconds) {
    if (some(both.first) || some(both.second)) out.exposed.push_back({Unit::kSeconds, name, both.first, both.second});
  }
  LargestErrorFirst(out.exposed);
}

// Every kernel of either side, sorted by descending difference. Other programs' kernels have other names, so they are
// compared by what they do.
void AddKernels(const Report& p, const Report& m, Comparison& out) {
  if (p.kernels().empty() || m.kernels().empty()) return;
  const bool by_work = Imported(p) != Imported(m);
  const auto name = [&](const std::string& kernel) { return by_work ? std::string(WorkName(kernel)) : kernel; };
  std::map<std::string, std::pair<double, double>> seconds;
  for (const report::KernelTotal& k : p.kernels()) seconds[name(k.kernel())].first += k.seconds();
  for (const report::KernelTotal& k : m.kernels()) seconds[name(k.kernel())].second += k.seconds();
  for (const auto& [name, both] : seconds) out.kernels.push_back({Unit::kSeconds, name, both.first, both.second});
  LargestErrorFirst(out.kernels);
}

// Called for two complete runs of the same job.
void RemarkOnMemory(const Report& p, const Report& m, Comparison& out) {
  const auto figures = [](const report::Rank& r) {
    return std::tuple(r.peak_bytes(), r.reserved_bytes(), r.host_peak_bytes(), r.host_reserved_bytes());
  };
  const std::vector<const report::Rank*> of_p = RowsByRank(p), of_m = RowsByRank(m);
  std::vector<int64_t> differ;
  for (size_t r = 0; r < std::min(of_p.size(), of_m.size()); ++r) {  // lost ranks have no row
    if (of_p[r] != nullptr && of_m[r] != nullptr && figures(*of_p[r]) != figures(*of_m[r]))
      differ.push_back(static_cast<int64_t>(r));
  }
  if (differ.empty()) return;
  constexpr size_t kShown = 16;
  const size_t more = differ.size() - std::min(kShown, differ.size());
  differ.resize(differ.size() - more);
  out.remarks.push_back(StrCat("peak or reserved bytes differ on rank", differ.size() > 1 ? "s " : " ",
                               absl::StrJoin(differ, ", "), more > 0 ? StrCat(" and ", more, " more") : "",
                               ": on the same kind of device they should be equal"));
}

// The blocks that decide what work is done; other blocks decide where and how.
std::vector<std::string> DifferingWork(const spec::Spec& p, const spec::Spec& m) {
  std::vector<std::string> differ = DifferingBlocks(p, m);
  std::erase_if(differ, [](const std::string& block) {
    return block != "model" && block != "data" && block != "train" && block != "parallel";
  });
  return differ;
}

// A rank with a lower limit on reserved memory frees cached blocks, so the limits must be equal.
bool SameBudget(const spec::Spec& p, const spec::Spec& m) {
  const std::vector<std::string> differ = DifferingBlocks(p, m);
  return std::find(differ.begin(), differ.end(), "memory") == differ.end();
}

// A trace does not say what was trained.
bool WorkIsUnsaid(const Report& r, const spec::Spec& spec) { return Imported(r) && !spec.has_model(); }

// Other programs call process groups otherwise. Where each run has an operation on one group only, it is the same
// group.
Report WithGroupsOf(const Report& named, const Report& other, std::vector<std::string>& remarks) {
  const auto group_of = [](const Report& r, const std::string& operation) {
    std::set<std::string> groups;
    for (const report::Collective& c : r.collectives()) {
      if (c.operation() == operation) groups.insert(c.group());
    }
    return groups.size() == 1 ? *groups.begin() : std::string();
  };
  Report renamed = other;
  std::set<std::string> said;
  for (report::Collective& c : *renamed.mutable_collectives()) {
    const std::string there = group_of(named, c.operation()), here = group_of(other, c.operation());
    if (there.empty() || here.empty() || there == here) continue;
    c.set_group(there);
    const std::string remark = StrCat("the process group ", here, " of the trace is taken to be ", there);
    if (said.insert(remark).second) remarks.push_back(remark);
  }
  return renamed;
}

}  // namespace

static Comparison CompareSameNames(const Report& predicted, const spec::Spec& predicted_spec, const Report& measured,
                                   const spec::Spec& measured_spec) {
  Comparison out{.name = measured.name(),
                 .predicted_fabric = predicted.fabric(),
                 .measured_fabric = measured.fabric(),
                 .first_predicted = predicted.predicted(),
                 .second_predicted = measured.predicted(),
                 .interval_low = predicted.low(),
                 .interval_high = predicted.high(),
                 .at_calibration = predicted.load(),
                 .at_run = measured.load()};
  const bool unsaid = WorkIsUnsaid(predicted, predicted_spec) || WorkIsUnsaid(measured, measured_spec);
  const std::vector<std::string> differ =
      unsaid ? std::vector<std::string>() : DifferingWork(predicted_spec, measured_spec);
  const bool same_work =
      (!unsaid || predicted.world_size() == measured.world_size()) &&
      std::all_of(differ.begin(), differ.end(), [](const std::string& block) { return block == "data"; });
  const bool both_stepped = predicted.median_step_seconds() > 0 && measured.median_step_seconds() > 0;
  if (out.judged() && same_work && both_stepped) {
    out.inside_interval =
        predicted.low() <= measured.median_step_seconds() && measured.median_step_seconds() <= predicted.high();
  }
  AddValues(predicted, predicted_spec, measured, measured_spec, out);
  AddStepParts(predicted, measured, out);
  AddExposed(predicted, measured, out);
  AddCollectives(predicted, measured, out);
  AddKernels(predicted, measured, out);
  if (unsaid) out.remarks.push_back("a trace does not say what was trained: both runs are taken to be of the same job");
  if (predicted.world_size() != measured.world_size() && (unsaid || Imported(predicted) || Imported(measured)))
    out.remarks.push_back(StrCat("the runs are of ", predicted.world_size(), " and ", measured.world_size(), " ranks"));
  if (!differ.empty())
    out.remarks.push_back(
        StrCat("the two runs did different work: their specs differ in ", absl::StrJoin(differ, ", ")));
  const spec::Fabric &first = predicted_spec.fabric(), &second = measured_spec.fabric();
  if (first.has_simulated() && second.has_simulated() && first.simulated().cluster() != second.simulated().cluster())
    out.remarks.push_back(StrCat("the first run is of cluster ", first.simulated().cluster(), ", the second of ",
                                 second.simulated().cluster()));
  const bool both_ended_well = predicted.outcome() == report::OK && measured.outcome() == report::OK;
  const bool own_memory = !Imported(predicted) && !Imported(measured);  // of one allocator
  if (own_memory && same_work && both_ended_well && SameBudget(predicted_spec, measured_spec))
    RemarkOnMemory(predicted, measured, out);
  for (const auto& [side, r] : {std::pair(out.judged() ? "predicted" : "first", &predicted),
                                std::pair(out.judged() ? "measured" : "second", &measured)}) {
    if (r->outcome() != report::OK) {
      out.remarks.push_back(
          StrCat("the ", side, " run ended with ", report::Outcome_Name(r->outcome()), ": ", r->message()));
    }
  }
  return out;
}

Comparison Compare(const Report& predicted, const spec::Spec& predicted_spec, const Report& measured,
                   const spec::Spec& measured_spec) {
  if (Imported(predicted) == Imported(measured))
    return CompareSameNames(predicted, predicted_spec, measured, measured_spec);
  std::vector<std::string> remarks;
  Comparison out =
      Imported(measured)
          ? CompareSameNames(predicted, predicted_spec, WithGroupsOf(predicted, measured, remarks), measured_spec)
          : CompareSameNames(WithGroupsOf(measured, predicted, remarks), predicted_spec, measured, measured_spec);
  out.remarks.insert(out.remarks.end(), remarks.begin(), remarks.end());
  return out;
}

}  // namespace twofold
