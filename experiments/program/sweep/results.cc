#include "experiments/program/sweep/results.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "core/base/strings.h"
#include "core/proto/world_size.h"

namespace twofold::sweep {
namespace {

double MedianOf(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

int64_t HighestPeak(const report::Report& report) {
  int64_t peak = 0;
  for (const report::Rank& rank : report.ranks())
    peak = std::max({peak, rank.peak_bytes(), rank.framework().device_bytes()});
  return peak;
}

// Fields that say how ranks are laid out, not what they train.
bool IsLayout(const Varied& varied) {
  for (const char* axis : {"parallel.dp", "parallel.tp", "parallel.pp", "parallel.cp", "parallel.ep"})
    if (varied.path == axis) return true;
  return varied.path == "parallel";
}

// Whether the points differ in the layout alone, or in what follows from it.
bool Comparable(const Results& results, const Row& a, const Row& b) {
  for (size_t v = 0; v < results.varied.size(); ++v) {
    if (!IsLayout(results.varied[v]) && a.values[v] != b.values[v]) return false;
  }
  return true;
}

void ScaleSide(Results& results, std::optional<Figures> Row::*side) {
  const auto known = [&](const Row& row) { return (row.*side).has_value() && (row.*side)->known && row.ranks > 0; };
  for (Row& row : results.rows) {
    if (!known(row)) continue;
    const Row* base = nullptr;
    for (const Row& other : results.rows) {
      if (!Comparable(results, row, other) || other.ranks == 0) continue;
      if (base == nullptr || other.ranks < base->ranks) base = &other;
    }
    if (base == nullptr || !known(*base) || !((base->*side)->seconds > 0)) continue;
    Figures& figures = *(row.*side);
    const double base_rate = static_cast<double>(base->global_batch) / (base->*side)->seconds;
    figures.speed_up = static_cast<double>(row.global_batch) / figures.seconds / base_rate;
    figures.efficiency = figures.speed_up * static_cast<double>(base->ranks) / static_cast<double>(row.ranks);
  }
}

}  // namespace

Figures NoFigures(std::string why, bool foretold) { return {.foretold = foretold, .why = std::move(why)}; }

Figures FiguresOf(std::span<const report::Report> reports) {
  std::vector<double> exposed, rates;
  Figures figures{.known = true};
  for (const report::Report& report : reports) {
    if (report.outcome() != report::OK) {
      const bool ends = report.outcome() == report::OUT_OF_MEMORY || report.outcome() == report::DEADLOCK;
      return NoFigures(StrCat(report::Outcome_Name(report.outcome()), ": ", report.message()),
                       report.predicted() && ends);
    }
    figures.runs.push_back(report.median_step_seconds());
    exposed.push_back(report.exposed_communication_seconds());
    rates.push_back(report.tokens_per_second());
    figures.peak_bytes = std::max(figures.peak_bytes, HighestPeak(report));
    if (!report.predicted()) figures.taken = std::max(figures.taken, report.load().taken());
  }
  figures.seconds = MedianOf(figures.runs);
  const report::Report& first = reports.front();
  figures.notes.assign(first.notes().begin(), first.notes().end());
  const bool one = reports.size() == 1;
  figures.low = one ? first.low() : *std::min_element(figures.runs.begin(), figures.runs.end());
  figures.high = one ? first.high() : *std::max_element(figures.runs.begin(), figures.runs.end());
  figures.items_per_second = MedianOf(rates);
  figures.exposed_seconds = MedianOf(exposed);
  figures.mfu = figures.seconds > 0 ? first.mfu() * first.median_step_seconds() / figures.seconds : 0;
  return figures;
}

std::optional<double> Row::error() const {
  if (!predicted || !measured || !predicted->known || !measured->known || !(measured->seconds > 0)) return std::nullopt;
  return predicted->seconds / measured->seconds - 1;
}

bool Results::different_ranks() const {
  int64_t first = 0;
  for (const Row& row : rows) {
    if (row.ranks == 0) continue;
    if (first == 0) first = row.ranks;
    if (row.ranks != first) return true;
  }
  return false;
}

Results ResultsOf(const Points& points) {
  Results results{.name = points.name,
                  .fabric = points.fabric,
                  .scaling = points.scaling,
                  .predict = points.predict,
                  .measure = points.measure,
                  .varied = points.varied};
  for (const Point& point : points.points) {
    Row row{.values = point.values};
    for (const auto& [spec, side] : {std::pair(&point.predicted, &row.predicted), {&point.measured, &row.measured}}) {
      if (!spec->has_value()) continue;
      if (!(*spec)->ok()) {
        *side = NoFigures(std::string((*spec)->status().message()));
        continue;
      }
      *side = NoFigures("not run");
      row.ranks = WorldSize(***spec);
      row.global_batch = (**spec)->train().global_batch(), row.micro_batch = (**spec)->train().micro_batch();
    }
    results.rows.push_back(std::move(row));
  }
  return results;
}

void Scale(Results& results) {
  if (!results.different_ranks()) return;
  ScaleSide(results, &Row::predicted);
  ScaleSide(results, &Row::measured);
}

}  // namespace twofold::sweep
