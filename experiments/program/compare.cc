#include "experiments/program/compare.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "core/base/format.h"
#include "core/base/strings.h"
#include "experiments/program/report/json.h"
#include "experiments/program/report/load.h"
#include "experiments/program/report/rank_rows.h"
#include "experiments/program/report/tables.h"
#include "experiments/program/spec/difference.h"
#include "strategies/from_spec.h"

namespace twofold {
namespace {

using report::Report;
using Unit = ComparedValue::Unit;

constexpr char kKernels[] = "kernels", kExposed[] = "exposed communication",
               kBeyond[] = "the median step minus the traced step";

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

void AddValues(const Report& p, const spec::Spec& p_spec, const Report& m, const spec::Spec& m_spec, Comparison& out) {
  const auto add = [&out](std::string name, Unit unit, double predicted, double measured) {
    out.values.push_back({unit, std::move(name), predicted, measured});
  };
  add("step time", Unit::kSeconds, p.median_step_seconds(), m.median_step_seconds());
  add(StrCat(ItemName(*ModelOf(p_spec.model())), " a second"), Unit::kPerSecond, p.tokens_per_second(),
      m.tokens_per_second());
  add("exposed communication", Unit::kSeconds, p.exposed_communication_seconds(), m.exposed_communication_seconds());
  add("peak memory", Unit::kBytes, static_cast<double>(Highest(p, &report::Rank::peak_bytes)),
      static_cast<double>(Highest(m, &report::Rank::peak_bytes)));
  add("reserved memory", Unit::kBytes, static_cast<double>(Highest(p, &report::Rank::reserved_bytes)),
      static_cast<double>(Highest(m, &report::Rank::reserved_bytes)));
  const int64_t p_host = Highest(p, &report::Rank::host_peak_bytes),
                m_host = Highest(m, &report::Rank::host_peak_bytes);
  if (p_host > 0 || m_host > 0) {
    add("peak host memory", Unit::kBytes, static_cast<double>(p_host), static_cast<double>(m_host));
    add("reserved host memory", Unit::kBytes, static_cast<double>(Highest(p, &report::Rank::host_reserved_bytes)),
        static_cast<double>(Highest(m, &report::Rank::host_reserved_bytes)));
  }
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
    add(kKernels, KernelSeconds);
    add(kExposed, [](const Report& r) { return r.exposed_communication_seconds(); });
    add("host between kernels", HostSeconds);
    add(StrCat("the rest: ", kBeyond),
        [](const Report& r) { return r.median_step_seconds() - r.traced_step_seconds() - ExposedBeyondTraced(r); });
    return;
  }
  const auto compute = [](const Report& r) { return r.median_step_seconds() - r.exposed_communication_seconds(); };
  out.step_parts.push_back({Unit::kSeconds, "compute", compute(p), compute(m)});
  out.step_parts.push_back(
      {Unit::kSeconds, kExposed, p.exposed_communication_seconds(), m.exposed_communication_seconds()});
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

// Every kernel of either side, sorted by descending difference.
void AddKernels(const Report& p, const Report& m, Comparison& out) {
  if (p.kernels().empty() || m.kernels().empty()) return;
  std::map<std::string, std::pair<double, double>> seconds;
  for (const report::KernelTotal& k : p.kernels()) seconds[k.kernel()].first = k.seconds();
  for (const report::KernelTotal& k : m.kernels()) seconds[k.kernel()].second = k.seconds();
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

std::string ValueText(Unit unit, double value) {
  switch (unit) {
    case Unit::kSeconds: return SecondsText(value);
    case Unit::kBytes: return CountText(static_cast<int64_t>(value));
    case Unit::kPerSecond: return RateText(value);
    case Unit::kLoss: return absl::StrFormat("%.6f", value);
  }
  return "";
}

const ComparedValue* Find(const std::vector<ComparedValue>& values, const std::string& name) {
  const auto found = std::find_if(values.begin(), values.end(), [&](const ComparedValue& v) { return v.name == name; });
  return found == values.end() ? nullptr : &*found;
}

using Values = std::vector<ComparedValue> Comparison::*;

// One row per value, in order of first appearance; for each comparison the measured value and the error.
void AppendRows(std::span<const Comparison> comparisons, Values values, std::vector<std::vector<std::string>>& rows) {
  std::vector<const ComparedValue*> named;
  for (const Comparison& c : comparisons) {
    for (const ComparedValue& v : c.*values) {
      const bool known =
          std::any_of(named.begin(), named.end(), [&](const ComparedValue* n) { return n->name == v.name; });
      if (!known) named.push_back(&v);
    }
  }
  for (const ComparedValue* name : named) {
    std::vector<std::string>& row = rows.emplace_back();
    row = {StrCat(name->name, name->unit == Unit::kBytes ? " (bytes)" : ""), ValueText(name->unit, name->predicted)};
    for (const Comparison& c : comparisons) {
      const ComparedValue* v = Find(c.*values, name->name);
      row.push_back(v == nullptr ? "-" : ValueText(v->unit, v->measured));
      row.push_back(v == nullptr ? "-" : v->comparable ? PercentText(v->error()) : "stand-in");
    }
  }
}

nlohmann::ordered_json ValuesJson(const std::vector<ComparedValue>& values) {
  const auto number = [](double v) { return std::isfinite(v) ? nlohmann::ordered_json(v) : nullptr; };
  auto json = nlohmann::ordered_json::array();
  for (const ComparedValue& v : values) {
    constexpr const char* kUnits[] = {"seconds", "bytes", "per_second", "loss"};
    json.push_back({{"name", v.name},
                    {"unit", kUnits[v.unit]},
                    {"predicted", number(v.predicted)},
                    {"measured", number(v.measured)},
                    {"error", v.comparable ? number(v.error()) : nullptr}});
  }
  return json;
}

}  // namespace

Comparison Compare(const Report& predicted, const spec::Spec& predicted_spec, const Report& measured,
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
  const std::vector<std::string> differ = DifferingWork(predicted_spec, measured_spec);
  const bool same_work =
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
  if (!differ.empty())
    out.remarks.push_back(
        StrCat("the two runs did different work: their specs differ in ", absl::StrJoin(differ, ", ")));
  const bool both_ended_well = predicted.outcome() == report::OK && measured.outcome() == report::OK;
  if (same_work && both_ended_well && SameBudget(predicted_spec, measured_spec))
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

namespace {

constexpr size_t kShownDetails = 8;

const char* FirstHead(const Comparison& c) { return c.first_predicted ? "predicted" : "measured"; }
const char* SecondHead(const Comparison& c) { return c.second_predicted ? "predicted" : "measured"; }
const char* ErrorHead(const Comparison& c) { return c.judged() ? "error" : "difference"; }

bool Loaded(const report::Load& load) { return load.taken() > kLoaded; }

// What the reports know of the machine's load, as a reason why a measured median lies outside the interval, or as a
// caution.
std::string LoadRemark(const Comparison& c) {
  const auto state = [](std::string_view when, const report::Load& load) {
    return StrCat("  ", when, load.has_taken() ? LoadText(load) : "the load of the machine is not known", ".\n");
  };
  const std::string both = StrCat(state("While the prediction's kernels were calibrated: ", c.at_calibration),
                                  state("During the measured run: ", c.at_run));
  if (*c.inside_interval) return Loaded(c.at_calibration) || Loaded(c.at_run) ? both : "";
  const double measured = c.values[0].measured, alone = measured * (1 - c.at_run.taken());
  std::string why;
  if (!c.at_run.has_taken() || !c.at_calibration.has_taken()) {
    why = "Load may or may not be the reason: calibrate and measure again on a machine that does nothing else.";
  } else if (Loaded(c.at_run) && alone <= c.interval_high && measured > c.interval_high) {
    why = StrCat("Load can be the reason: without it the step would have taken between ", SecondsText(alone), " and ",
                 SecondsText(measured),
                 ". Measure again while the machine does nothing else, or calibrate under the same load.");
  } else if (Loaded(c.at_calibration) && measured < c.interval_low) {
    why =
        "Load can be the reason: calibration was delayed more than its interval accounts for. Calibrate again while "
        "the machine does nothing else.";
  } else {
    why = StrCat("Load ", Loaded(c.at_run) || Loaded(c.at_calibration) ? "alone " : "",
                 "is not the reason: the table above shows the parts of the error.");
  }
  return StrCat(both, "  ", why, "\n");
}

std::string VerdictText(const Comparison& c) {
  const std::string interval =
      StrCat("the predicted interval, ", SecondsText(c.interval_low), " to ", SecondsText(c.interval_high));
  const double measured = c.values[0].measured;
  if (*c.inside_interval) return StrCat("The measured median lies inside ", interval, ".\n", LoadRemark(c));
  const bool above = measured > c.interval_high;
  return absl::StrFormat("*** OUTSIDE: the measured median, %s, lies outside %s: %.0f %% %s it. ***\n%s",
                         SecondsText(measured), interval,
                         100 * std::abs(measured / (above ? c.interval_high : c.interval_low) - 1),
                         above ? "above" : "below", LoadRemark(c));
}

// The parts of the error in step time, and whether the measurement lies in the predicted interval. Parts add up to the
// error, and details to their part.
std::string ErrorText(const Comparison& c) {
  std::vector<std::vector<std::string>> rows = {
      {"", FirstHead(c), SecondHead(c), ErrorHead(c), StrCat("of the ", c.judged() ? "measured" : "second", " step")}};
  const auto add = [&](std::string name, double predicted, double measured) {
    const double part = predicted - measured;
    rows.push_back({std::move(name), SecondsText(predicted), SecondsText(measured), SecondsText(part),
                    PercentText(part / c.values[0].measured)});
  };
  const auto add_details = [&](const std::vector<ComparedValue>& details) {
    ComparedValue others{Unit::kSeconds, ""};
    for (size_t i = 0; i < details.size(); ++i) {
      if (i < kShownDetails)
        add(StrCat("    ", details[i].name), details[i].predicted, details[i].measured);
      else
        others.predicted += details[i].predicted, others.measured += details[i].measured;
    }
    const size_t more = details.size() - std::min(details.size(), kShownDetails);
    if (more > 0) add(StrCat("    ", Counted(more, "other")), others.predicted, others.measured);
  };
  add("step", c.values[0].predicted, c.values[0].measured);
  for (const ComparedValue& v : c.step_parts) {
    add(StrCat("  ", v.name), v.predicted, v.measured);
    if (v.name == kKernels) add_details(c.kernels);
    if (v.name == kExposed) add_details(c.exposed);
  }
  std::string text = StrCat("\nParts of the ", ErrorHead(c), " in step time ", c.judged() ? "against " : "from ",
                            c.measured_fabric, "\n", TableText(rows));
  return c.inside_interval ? StrCat(text, "\n", VerdictText(c)) : text;
}

}  // namespace

std::string ComparisonText(std::span<const Comparison> comparisons) {
  const Comparison& first = comparisons[0];
  std::vector<std::vector<std::string>> rows = {{first.name, FirstHead(first)}, {"", first.predicted_fabric}};
  for (const Comparison& c : comparisons) {
    rows[0].insert(rows[0].end(), {SecondHead(c), ErrorHead(c)});
    rows[1].insert(rows[1].end(), {c.measured_fabric, ""});
  }
  AppendRows(comparisons, &Comparison::values, rows);
  if (std::any_of(comparisons.begin(), comparisons.end(), [](const Comparison& c) { return !c.collectives.empty(); })) {
    rows.push_back({});
    rows.push_back({"Seconds per call"});
    AppendRows(comparisons, &Comparison::collectives, rows);
  }
  std::string text;
  for (const Comparison& c : comparisons) {
    for (const std::string& remark : c.remarks)
      StrAppend(&text, "Note", comparisons.size() > 1 ? StrCat(" on ", c.measured_fabric) : "", ": ", remark, "\n");
  }
  if (!text.empty()) text += "\n";
  text += TableText(rows);
  for (const Comparison& c : comparisons) text += ErrorText(c);
  return text;
}

static nlohmann::ordered_json LoadJson(const report::Load& load) {
  return load.has_taken() ? ToJson(load) : nlohmann::ordered_json(nullptr);
}

static nlohmann::ordered_json OneJson(const Comparison& c) {
  return {{"name", c.name},
          {"predicted_fabric", c.predicted_fabric},
          {"measured_fabric", c.measured_fabric},
          {"values", ValuesJson(c.values)},
          {"step_parts", ValuesJson(c.step_parts)},
          {"collectives", ValuesJson(c.collectives)},
          {"kernels", ValuesJson(c.kernels)},
          {"exposed", ValuesJson(c.exposed)},
          {"interval",
           {{"low", c.interval_low},
            {"high", c.interval_high},
            {"inside", c.inside_interval ? nlohmann::ordered_json(*c.inside_interval) : nullptr}}},
          {"load", {{"at_calibration", LoadJson(c.at_calibration)}, {"at_run", LoadJson(c.at_run)}}},
          {"remarks", c.remarks}};
}

nlohmann::ordered_json ComparisonJson(std::span<const Comparison> comparisons) {
  if (comparisons.size() == 1) return OneJson(comparisons[0]);
  auto json = nlohmann::ordered_json::array();
  for (const Comparison& c : comparisons) json.push_back(OneJson(c));
  return json;
}

}  // namespace twofold
