#include "experiments/program/comparison_text.h"

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "core/base/format.h"
#include "core/base/strings.h"
#include "experiments/program/cli/note_names.h"
#include "experiments/program/cli/note_text.h"
#include "experiments/program/report/json.h"
#include "experiments/program/report/load.h"

namespace twofold {
namespace {

using Unit = ComparedValue::Unit;
using Rows = std::vector<std::vector<std::string>>;

constexpr const char* kUnits[] = {"seconds", "bytes", "per_second", "loss"};

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
void AppendRows(std::span<const Comparison> comparisons, Values values, Rows& rows) {
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
    json.push_back({{"name", v.name},
                    {"unit", kUnits[v.unit]},
                    {"predicted", number(v.predicted)},
                    {"measured", number(v.measured)},
                    {"error", v.comparable ? number(v.error()) : nullptr}});
  }
  return json;
}

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

// Kernels of C++ templates have names that are longer than a line.
std::string Shortened(const std::string& name) {
  constexpr size_t kLongest = 64;
  return name.size() <= kLongest ? name : StrCat(name.substr(0, kLongest - 3), "...");
}

// The parts of the error in step time. They add up to the error, and details to their part.
Rows ErrorRows(const Comparison& c) {
  Rows rows = {
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
        add(StrCat("    ", Shortened(details[i].name)), details[i].predicted, details[i].measured);
      else
        others.predicted += details[i].predicted, others.measured += details[i].measured;
    }
    const size_t more = details.size() - std::min(details.size(), kShownDetails);
    if (more > 0) add(StrCat("    ", Counted(more, "other")), others.predicted, others.measured);
  };
  add("step", c.values[0].predicted, c.values[0].measured);
  for (const ComparedValue& v : c.step_parts) {
    add(StrCat("  ", v.name), v.predicted, v.measured);
    if (v.name == kKernelsPart) add_details(c.kernels);
    if (v.name == kExposedPart) add_details(c.exposed);
  }
  return rows;
}

std::string ErrorTitle(const Comparison& c) {
  return StrCat("Parts of the ", ErrorHead(c), " in step time ", c.judged() ? "against " : "from ", c.measured_fabric);
}

// One row of figures after another, with two rows of heads: kinds of the runs and their fabrics.
Rows FigureRows(std::span<const Comparison> comparisons) {
  const Comparison& first = comparisons[0];
  Rows rows = {{first.name, FirstHead(first)}, {"", first.predicted_fabric}};
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
  return rows;
}

// Each begins with "Note:"; of several comparisons, with the fabric that it is about.
std::vector<std::string> Notes(std::span<const Comparison> comparisons, const std::string& shown) {
  std::vector<std::string> notes;
  for (const Comparison& c : comparisons) {
    for (const std::string& remark : c.remarks) {
      const std::string about = comparisons.size() > 1 ? StrCat(" on ", c.measured_fabric) : "";
      if (shown == "full") {
        notes.push_back(StrCat("Note", NoteTag(remark), about, ": ", remark));
      } else if (shown != "none") {
        const std::string line = ShortNote(remark);
        notes.push_back(StrCat("Note", about, ": ", line, line.size() < remark.size() ? " ..." : ""));
      }
    }
  }
  return notes;
}

// A row of a Markdown table. Indented names keep their indent.
std::string MarkdownRow(const std::vector<std::string>& row, size_t columns) {
  std::string line = "|";
  for (size_t c = 0; c < columns; ++c) {
    std::string cell = c < row.size() ? row[c] : "";
    const size_t indent = std::min(cell.find_first_not_of(' '), cell.size());
    std::string shown;
    for (size_t i = 0; i < indent; ++i) shown += "&nbsp;";
    StrAppend(&line, " ", shown, absl::StrReplaceAll(cell.substr(indent), {{"|", "\\|"}, {"\n", " "}}), " |");
  }
  return line + "\n";
}

// The first `heads` rows become one head.
std::string MarkdownTable(const Rows& rows, size_t heads) {
  std::vector<std::string> head = rows[0];
  for (size_t r = 1; r < heads; ++r) {
    for (size_t c = 0; c < rows[r].size() && c < head.size(); ++c) {
      if (!rows[r][c].empty()) StrAppend(&head[c], " (", rows[r][c], ")");
    }
  }
  std::string text = MarkdownRow(head, head.size()) + "|---|";
  for (size_t c = 1; c < head.size(); ++c) text += "---:|";
  text += "\n";
  for (size_t r = heads; r < rows.size(); ++r) {
    if (!rows[r].empty()) text += MarkdownRow(rows[r], head.size());
  }
  return text;
}

std::string CsvCell(const std::string& text) {
  if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
  return StrCat("\"", absl::StrReplaceAll(text, {{"\"", "\"\""}}), "\"");
}

// The shortest exact form; empty if it is not finite.
std::string CsvNumber(double value) { return std::isfinite(value) ? nlohmann::json(value).dump() : ""; }

}  // namespace

std::string ComparisonText(std::span<const Comparison> comparisons, const std::string& shown_notes) {
  std::string text;
  for (const std::string& note : Notes(comparisons, shown_notes)) StrAppend(&text, note, "\n");
  if (!text.empty()) text += "\n";
  text += TableText(FigureRows(comparisons));
  for (const Comparison& c : comparisons) {
    StrAppend(&text, "\n", ErrorTitle(c), "\n", TableText(ErrorRows(c)));
    if (c.inside_interval) StrAppend(&text, "\n", VerdictText(c));
  }
  return text;
}

std::string ComparisonMarkdown(std::span<const Comparison> comparisons, const std::string& shown_notes) {
  std::string text;
  for (const std::string& note : Notes(comparisons, shown_notes)) StrAppend(&text, "> ", note, "\n>\n");
  if (!text.empty()) text += "\n";
  text += MarkdownTable(FigureRows(comparisons), 2);
  for (const Comparison& c : comparisons) {
    StrAppend(&text, "\n**", ErrorTitle(c), "**\n\n", MarkdownTable(ErrorRows(c), 1));
    // a line of stars and spaces would be a rule, and indented lines code
    if (c.inside_interval)
      StrAppend(&text, "\n", absl::StrReplaceAll(VerdictText(c), {{"*** ", "**"}, {" ***", "**"}, {"\n  ", "\n\n"}}));
  }
  return text;
}

std::string ComparisonCsv(std::span<const Comparison> comparisons) {
  std::string text = "measured_fabric,section,name,unit,predicted,measured,error\n";
  for (const Comparison& c : comparisons) {
    for (const auto& [section, values] : {std::pair("values", &c.values),
                                          {"step_parts", &c.step_parts},
                                          {"kernels", &c.kernels},
                                          {"exposed", &c.exposed},
                                          {"collectives", &c.collectives}}) {
      for (const ComparedValue& v : *values) {
        StrAppend(&text, CsvCell(c.measured_fabric), ",", section, ",", CsvCell(v.name), ",", kUnits[v.unit], ",",
                  CsvNumber(v.predicted), ",", CsvNumber(v.measured), ",", v.comparable ? CsvNumber(v.error()) : "",
                  "\n");
      }
    }
  }
  return text;
}

std::string ErrorsAbove(std::span<const Comparison> comparisons, double most) {
  std::string text;
  for (const Comparison& c : comparisons) {
    const double error = c.values[0].error();
    if (std::abs(error) <= most) continue;  // false for NaN: then nothing was shown to be right
    StrAppend(&text, text.empty() ? "" : "; ",
              std::isfinite(error) ? StrCat("the ", ErrorHead(c), " in step time is ", PercentText(error))
                                   : std::string("there is no step time to compare"),
              " (", c.predicted_fabric, " ", SecondsText(c.values[0].predicted), ", ", c.measured_fabric, " ",
              SecondsText(c.values[0].measured), ")");
  }
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
          {"remarks", c.remarks},
          {"remark_names", NoteNames(c.remarks)}};
}

nlohmann::ordered_json ComparisonJson(std::span<const Comparison> comparisons) {
  if (comparisons.size() == 1) return OneJson(comparisons[0]);
  auto json = nlohmann::ordered_json::array();
  for (const Comparison& c : comparisons) json.push_back(OneJson(c));
  return json;
}

}  // namespace twofold
