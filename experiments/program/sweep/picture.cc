#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>
#include <map>

#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "core/base/format.h"
#include "core/base/strings.h"
#include "experiments/program/pictures/panels.h"
#include "experiments/program/pictures/style.h"
#include "experiments/program/sweep/table.h"

namespace twofold::sweep {
namespace {

constexpr double kNone = std::numeric_limits<double>::quiet_NaN();

using Line = std::vector<std::optional<Figures>>;  // by position

// The lines of one side: the points that share all values but those of the horizontal axis.
struct Lines {
  std::vector<std::string> names;  // of the positions
  std::vector<double> positions;
  std::string axis;
  std::map<std::string, std::pair<Line, Line>> of;  // by name: predicted, measured
  std::vector<std::string> order;
};

bool SetsRanks(const std::string& path) {
  for (const char* axis : {"parallel.dp", "parallel.tp", "parallel.pp", "parallel.cp"})
    if (path == axis) return true;
  return false;
}

// The field along the horizontal axis: the one that sets the number of ranks, else the first.
size_t AxisOf(const Results& results) {
  for (size_t v = 0; v < results.varied.size(); ++v) {
    if (SetsRanks(results.varied[v].path)) return v;
  }
  return 0;
}

Lines LinesOf(const Results& results) {
  Lines lines;
  if (results.varied.empty()) return lines;
  const size_t axis = AxisOf(results);
  const size_t others = results.varied.size() - 1;
  const bool by_ranks = results.different_ranks() && SetsRanks(results.varied[axis].path);
  std::map<int64_t, size_t> of_ranks;
  lines.axis = by_ranks ? "ranks" : results.varied[axis].path;
  if (by_ranks) {
    for (const Row& row : results.rows) {
      if (row.ranks > 0) of_ranks[row.ranks];
    }
    for (auto& [ranks, place] : of_ranks) {
      place = lines.names.size();
      lines.names.push_back(CountText(ranks));
      lines.positions.push_back(std::log2(static_cast<double>(ranks)));
    }
  } else {
    lines.names = results.varied[axis].values;
    for (size_t i = 0; i < lines.names.size(); ++i) lines.positions.push_back(static_cast<double>(i));
  }
  for (const Row& row : results.rows) {
    if (row.ranks == 0) continue;  // it has no figures
    const auto value =
        std::find(results.varied[axis].values.begin(), results.varied[axis].values.end(), row.values[axis]);
    const size_t at = by_ranks ? of_ranks[row.ranks] : static_cast<size_t>(value - results.varied[axis].values.begin());
    std::vector<std::string> parts;
    for (size_t v = 0; v < row.values.size(); ++v) {
      const std::string& path = results.varied[v].path;
      if (v != axis) parts.push_back(StrCat(path.substr(path.rfind('.') + 1), "=", row.values[v]));
    }
    const std::string name = others == 0 ? "" : absl::StrJoin(parts, ", ");
    const auto [entry, added] = lines.of.try_emplace(name, Line(lines.names.size()), Line(lines.names.size()));
    if (added) lines.order.push_back(name);
    entry->second.first[at] = row.predicted, entry->second.second[at] = row.measured;
  }
  return lines;
}

struct Quantity {
  const char* title;
  double (*value)(const Figures&);
  std::string (*format)(double);
  bool interval;
};
const Quantity kQuantities[] = {
    {"step time", [](const Figures& f) { return f.seconds; }, SecondsText, true},
    {"speed-up", [](const Figures& f) { return f.speed_up > 0 ? f.speed_up : kNone; },
     [](double v) { return absl::StrFormat("%.3g", v); }, false},
    {"efficiency", [](const Figures& f) { return f.efficiency > 0 ? f.efficiency : kNone; },
     [](double v) { return absl::StrFormat("%.0f %%", 100 * v); }, false},
    {"peak memory of a rank", [](const Figures& f) { return static_cast<double>(f.peak_bytes); }, BytesText, false},
    {"exposed communication per step", [](const Figures& f) { return f.exposed_seconds; }, SecondsText, false}};

constexpr size_t kMemory = 3;  // among kQuantities

// So that the axis has round numbers.
void UseBinaryUnit(pictures::Panel& panel) {
  double most = 0;
  for (const pictures::PanelLine& line : panel.lines) {
    for (const double bytes : line.values) most = std::isfinite(bytes) ? std::max(most, bytes) : most;
  }
  constexpr const char* kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  double size = 1;
  for (; unit + 1 < std::size(kUnits) && most >= 1024 * size; ++unit) size *= 1024;
  for (pictures::PanelLine& line : panel.lines) {
    for (double& bytes : line.values) bytes /= size;
  }
  panel.format = [name = kUnits[unit]](double v) { return absl::StrFormat("%.3g %s", v, name); };
}

pictures::PanelLine DrawnLine(const Line& line, const Quantity& quantity) {
  pictures::PanelLine drawn;
  for (const std::optional<Figures>& f : line) {
    const bool known = f && f->known;
    drawn.values.push_back(known ? quantity.value(*f) : kNone);
    if (!quantity.interval) continue;
    drawn.low.push_back(known ? f->low : kNone);
    drawn.high.push_back(known ? f->high : kNone);
  }
  return drawn;
}

}  // namespace

std::string ResultsPicture(const Results& results) {
  const Lines lines = LinesOf(results);
  if (lines.names.empty()) return "";
  pictures::Panels all{.title = StrCat(results.name, results.scaling == Scaling::kStrong ? ": strong scaling"
                                                     : results.scaling == Scaling::kWeak ? ": weak scaling"
                                                                                         : ": sweep"),
                       .axis = lines.axis,
                       .names = lines.names,
                       .positions = lines.positions,
                       .ideal = "perfect scaling",
                       .interval = "from low to high"};
  for (const Quantity& quantity : kQuantities)
    all.panels.push_back({.title = quantity.title, .format = quantity.format});
  const bool both = results.predict && results.measure;
  const size_t most = both ? pictures::kPanelColors / 2 : pictures::kPanelColors;
  for (size_t i = 0; i < lines.order.size() && i < most; ++i) {
    const auto& [predicted, measured] = lines.of.at(lines.order[i]);
    for (const bool measures : {true, false}) {  // predictions are dashed, and drawn over the measurements
      if (measures ? !results.measure : !results.predict) continue;
      const std::string side = measures ? "measured" : "predicted";
      const std::string name = lines.order[i].empty() ? side
                               : both                 ? StrCat(lines.order[i], ", ", side)
                                                      : lines.order[i];
      const size_t color = both ? 2 * i + (measures ? 0 : 1) : i;
      all.series.push_back({.name = name, .color = static_cast<int>(color), .dashed = both && !measures});
      for (size_t q = 0; q < all.panels.size(); ++q)
        all.panels[q].lines.push_back(DrawnLine(measures ? measured : predicted, kQuantities[q]));
    }
  }
  UseBinaryUnit(all.panels[kMemory]);
  if (lines.order.size() > most) all.notes.push_back(StrCat(lines.order.size() - most, " more lines are in sweep.csv"));
  if (lines.axis == "ranks") {
    for (const double position : lines.positions) {
      all.panels[1].ideal.push_back(std::exp2(position - lines.positions.front()));
      all.panels[2].ideal.push_back(1);
    }
  }
  const std::string svg = pictures::PanelsPicture(all);
  return svg.empty() ? "" : pictures::StandAlone(svg);
}

}  // namespace twofold::sweep
