#include "experiments/program/sweep/table.h"

#include <algorithm>
#include <set>

#include "absl/strings/match.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "core/base/format.h"
#include "core/base/strings.h"
#include "core/proto/fields.h"
#include "experiments/program/cli/note_names.h"
#include "experiments/program/report/load.h"

namespace twofold::sweep {
namespace {

using Rows = std::vector<std::vector<std::string>>;
using Json = nlohmann::ordered_json;

struct Side {
  const char* name;
  std::optional<Figures> Row::*figures;
};
std::vector<Side> SidesOf(const Results& results) {
  std::vector<Side> sides;
  if (results.predict) sides.push_back({"predicted", &Row::predicted});
  if (results.measure) sides.push_back({"measured", &Row::measured});
  return sides;
}

std::string ShortName(const std::string& path) { return path.substr(path.rfind('.') + 1); }

std::vector<std::string> Heads(const Results& results) {
  std::vector<std::string> heads;
  for (const Varied& varied : results.varied) heads.push_back(ShortName(varied.path));
  if (heads.empty()) heads.emplace_back("");
  heads.insert(heads.end(), {"ranks", "global batch", "micro-batch"});
  return heads;
}

std::vector<std::string> Cells(const Row& row) {
  std::vector<std::string> cells = row.values;
  if (cells.empty()) cells.emplace_back("");
  for (const int64_t n : {row.ranks, row.global_batch, row.micro_batch}) cells.push_back(n > 0 ? CountText(n) : "-");
  return cells;
}

Rows TimeRows(const Results& results) {
  Rows rows = {Heads(results)};
  for (const Side& side : SidesOf(results)) rows[0].insert(rows[0].end(), {side.name, "low", "high"});
  const bool both = results.predict && results.measure;
  if (both) rows[0].emplace_back("error");
  for (const Row& row : results.rows) {
    std::vector<std::string>& cells = rows.emplace_back(Cells(row));
    for (const Side& side : SidesOf(results)) {
      const Figures& f = *(row.*side.figures);
      for (const double seconds : {f.seconds, f.low, f.high}) cells.push_back(f.known ? SecondsText(seconds) : "-");
    }
    if (both) cells.push_back(row.error() ? PercentText(*row.error()) : "-");
  }
  return rows;
}

Rows ScalingRows(const Results& results) {
  Rows rows = {Heads(results)};
  const std::vector<Side> sides = SidesOf(results);
  const bool scales = results.different_ranks();
  struct Column {
    const char* name;
    std::string (*text)(const Figures&);
    bool of_scaling;
  };
  const Column columns[] = {
      {"speed-up",
       [](const Figures& f) { return f.speed_up > 0 ? absl::StrFormat("%.2f", f.speed_up) : std::string("-"); }, true},
      {"efficiency", [](const Figures& f) { return f.efficiency > 0 ? ShareText(f.efficiency) : std::string("-"); },
       true},
      {"peak memory", [](const Figures& f) { return BytesText(static_cast<double>(f.peak_bytes)); }, false},
      {"exposed", [](const Figures& f) { return SecondsText(f.exposed_seconds); }, false}};
  for (const Column& column : columns) {
    for (const Side& side : sides) {
      if (column.of_scaling && !scales) continue;
      rows[0].push_back(sides.size() == 1 ? column.name : StrCat(column.name, side.name[0] == 'p' ? " p." : " m."));
    }
  }
  for (const Row& row : results.rows) {
    std::vector<std::string>& cells = rows.emplace_back(Cells(row));
    for (const Column& column : columns) {
      for (const Side& side : sides) {
        if (column.of_scaling && !scales) continue;
        const Figures& f = *(row.*side.figures);
        cells.push_back(f.known ? column.text(f) : "-");
      }
    }
  }
  return rows;
}

// "dp=3, cluster=alps"
std::string NameOf(const Results& results, const Row& row) {
  std::vector<std::string> parts;
  for (size_t v = 0; v < results.varied.size(); ++v)
    parts.push_back(StrCat(ShortName(results.varied[v].path), "=", row.values[v]));
  return parts.empty() ? results.name : absl::StrJoin(parts, ", ");
}

// A cell of a CSV file (RFC 4180).
std::string Quoted(const std::string& text) {
  if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
  return StrCat("\"", absl::StrReplaceAll(text, {{"\"", "\"\""}}), "\"");
}

Json SideJson(const Figures& f) {
  if (!f.known) return {{"why", f.why}, {"foretold", f.foretold}};
  return {{"median_step_seconds", f.seconds},
          {"low", f.low},
          {"high", f.high},
          {"runs", f.runs},
          {"tokens_per_second", f.items_per_second},
          {"speed_up", f.speed_up},
          {"efficiency", f.efficiency},
          {"peak_bytes", f.peak_bytes},
          {"exposed_communication_seconds", f.exposed_seconds},
          {"mfu", f.mfu},
          {"taken", f.taken},
          {"notes", f.notes},
          {"note_names", NoteNames(f.notes)}};
}

}  // namespace

std::string ResultsText(const Results& results) {
  std::string text = StrCat("step time\n", TableText(TimeRows(results)), "\n",
                            results.different_ranks() ? "scaling, memory" : "memory",
                            " and exposed communication per step\n", TableText(ScalingRows(results)));
  for (const Row& row : results.rows) {
    std::string told;
    for (const Side& side : SidesOf(results)) {
      const Figures& f = *(row.*side.figures);
      if (f.known || f.why == told) continue;  // both sides are often refused for one reason
      StrAppend(&text, "no figures of ", NameOf(results, row), ", ", side.name, ": ",
                absl::StrReplaceAll(f.why, {{"\n", "\n  "}}), "\n");
      told = f.why;
    }
  }
  return text;
}

std::vector<std::string> NotesOf(const Results& results) {
  double taken = 0;
  for (const Row& row : results.rows) taken = std::max(taken, row.measured ? row.measured->taken : 0);
  std::vector<std::string> notes;
  if (taken > kLoaded)
    notes.push_back(
        absl::StrFormat("other work on this machine delayed measurements by up to %.0f %% of the time", 100 * taken));
  for (const Row& row : results.rows) {
    for (const Side& side : SidesOf(results)) {
      for (const std::string& note : (row.*side.figures)->notes) {
        const bool how = absl::StartsWith(note, "ranks are folded") || absl::StartsWith(note, "ranks were not folded");
        const bool in_first = NoteName(note) == "loaded-run";  // of each run, where the first note has the worst
        if (!how && !in_first && std::find(notes.begin(), notes.end(), note) == notes.end()) notes.push_back(note);
      }
    }
  }
  return notes;
}

std::string ResultsCsv(const Results& results) {
  std::vector<std::string> heads;
  for (const Varied& varied : results.varied) heads.push_back(varied.path);
  heads.insert(heads.end(), {"ranks", "global_batch", "micro_batch"});
  for (const Side& side : SidesOf(results)) {
    for (const char* figure :
         {"step_seconds", "low", "high", "speed_up", "efficiency", "peak_bytes", "exposed_communication_seconds"})
      heads.push_back(StrCat(side.name, "_", figure));
  }
  heads.insert(heads.end(), {"error", "why"});
  std::string csv = absl::StrJoin(heads, ",") + "\n";
  const auto number = [](bool known, double value) { return known ? NumberText(value) : std::string(); };
  for (const Row& row : results.rows) {
    std::vector<std::string> cells, reasons;
    for (const std::string& value : row.values) cells.push_back(Quoted(value));
    for (const int64_t n : {row.ranks, row.global_batch, row.micro_batch}) cells.push_back(n > 0 ? StrCat(n) : "");
    for (const Side& side : SidesOf(results)) {
      const Figures& f = *(row.*side.figures);
      const bool scaled = f.known && f.speed_up > 0;
      cells.insert(cells.end(), {number(f.known, f.seconds), number(f.known, f.low), number(f.known, f.high),
                                 number(scaled, f.speed_up), number(scaled, f.efficiency),
                                 f.known ? StrCat(f.peak_bytes) : "", number(f.known, f.exposed_seconds)});
      if (!f.known) reasons.push_back(StrCat(side.name, ": ", f.why));
    }
    cells.push_back(row.error() ? NumberText(*row.error()) : "");
    cells.push_back(Quoted(absl::StrJoin(reasons, "; ")));
    StrAppend(&csv, absl::StrJoin(cells, ","), "\n");
  }
  return csv;
}

nlohmann::ordered_json ResultsJson(const Results& results) {
  constexpr const char* kScaling[] = {"", "strong", "weak"};
  Json json = {{"name", results.name},
               {"fabric", results.fabric},
               {"scaling", kScaling[static_cast<int>(results.scaling)]},
               {"points", Json::array()}};
  for (const Row& row : results.rows) {
    Json one = {{"set", Json::object()},
                {"ranks", row.ranks},
                {"global_batch", row.global_batch},
                {"micro_batch", row.micro_batch}};
    for (size_t v = 0; v < results.varied.size(); ++v) one["set"][results.varied[v].path] = row.values[v];
    for (const Side& side : SidesOf(results)) one[side.name] = SideJson(*(row.*side.figures));
    if (row.error()) one["error"] = *row.error();
    json["points"].push_back(std::move(one));
  }
  return json;
}

}  // namespace twofold::sweep
