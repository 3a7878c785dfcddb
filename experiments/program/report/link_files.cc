#include "experiments/program/report/link_files.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <map>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_replace.h"
#include "core/base/status.h"
#include "core/base/strings.h"
#include "experiments/program/report/files.h"

namespace twofold {
namespace {

constexpr char kLinksHead[] = "link,kind,links,bandwidth,operation,group,phases,bytes";
constexpr char kLoadsHead[] = "link,start,seconds,bytes,load";
constexpr double kMostBins = 1 << 16;

std::string Shortest(double value) {
  char text[32];
  return std::string(text, std::to_chars(text, text + sizeof(text), value).ptr);
}

// Quoted: names of imported topologies may have any letters.
std::string Quoted(const std::string& text) { return StrCat("\"", absl::StrReplaceAll(text, {{"\"", "\"\""}}), "\""); }

using Row = std::vector<std::string>;

Row CellsOf(std::string_view line) {
  Row cells(1);
  bool quoted = false;
  for (size_t i = 0; i < line.size(); ++i) {
    if (line[i] == '"') {
      if (quoted && i + 1 < line.size() && line[i + 1] == '"')
        cells.back() += line[i++];
      else
        quoted = !quoted;
    } else if (line[i] == ',' && !quoted) {
      cells.emplace_back();
    } else {
      cells.back() += line[i];
    }
  }
  return cells;
}

// The rows below the head. `numbers`: columns that must be numbers.
absl::StatusOr<std::vector<Row>> ReadRows(const std::string& path, std::string_view head,
                                          const std::vector<size_t>& numbers) {
  const absl::StatusOr<std::string> text = ReadFile(path);
  if (!text.ok()) return text.status();
  std::vector<Row> rows;
  size_t number = 0;
  for (size_t at = 0; at < text->size(); ++number) {
    const size_t end = std::min(text->find('\n', at), text->size());
    const std::string_view line = std::string_view(*text).substr(at, end - at);
    at = end + 1;
    const auto wrong = [&](const auto&... what) { return InvalidArgument(path, ": line ", number + 1, ": ", what...); };
    if (number == 0) {
      if (line != head) return wrong("expected ", head);
      continue;
    }
    Row row = CellsOf(line);
    const size_t columns = CellsOf(head).size();
    if (row.size() != columns) return wrong("expected ", columns, " values, not ", row.size());
    for (const size_t n : numbers) {
      double value = 0;
      if (!absl::SimpleAtod(row[n], &value) || !std::isfinite(value) || value < -1e300)
        return wrong(CellsOf(head)[n], ": \"", row[n], "\" is not a number");
    }
    rows.push_back(std::move(row));
  }
  if (number == 0) return InvalidArgument(path, ": line 1: expected ", head);
  return rows;
}

double NumberIn(const std::string& cell) {
  double value = 0;
  (void)absl::SimpleAtod(cell, &value);
  return value;
}

absl::StatusOr<LinkLoads> AddBins(const std::string& path, const std::vector<Row>& rows,
                                  const std::map<std::string, size_t>& places, LinkLoads loads) {
  if (rows.empty()) return loads;
  loads.begin = NumberIn(rows[0][1]), loads.width = NumberIn(rows[0][2]);
  for (const Row& row : rows) loads.begin = std::min(loads.begin, NumberIn(row[1]));
  for (size_t i = 0; i < rows.size(); ++i) {
    const Row& row = rows[i];
    const auto wrong = [&](const auto&... what) { return InvalidArgument(path, ": line ", i + 2, ": ", what...); };
    const auto place = places.find(row[0]);
    if (place == places.end()) return wrong("link: ", row[0], " is not in ", kLinks);
    if (!(loads.width > 0) || NumberIn(row[2]) != loads.width)
      return wrong("seconds: ", row[2], "; expected those of the first row, more than 0");
    const double bin = std::round((NumberIn(row[1]) - loads.begin) / loads.width);
    if (!(bin < kMostBins)) return wrong("start: ", row[1], " is too far from the first");
    std::vector<double>& bytes = loads.rows[place->second].bytes;
    bytes.resize(std::max(bytes.size(), static_cast<size_t>(bin) + 1));
    bytes[static_cast<size_t>(bin)] += NumberIn(row[3]);
  }
  return loads;
}

}  // namespace

std::string LinksCsv(const LinkLoads& loads) {
  std::string csv = StrCat(kLinksHead, "\n");
  for (const LinkLoads::Row& row : loads.rows) {
    for (const LinkLoads::Flow& flow : row.flows) {
      StrAppend(&csv, Quoted(row.link), ",", Quoted(row.kind), ",", row.links, ",", Shortest(row.bandwidth), ",",
                flow.operation, ",", Quoted(flow.group), ",", flow.phases, ",", Shortest(flow.bytes), "\n");
    }
  }
  return csv;
}

std::string LinkLoadsCsv(const LinkLoads& loads, double origin) {
  std::string csv = StrCat(kLoadsHead, "\n");
  for (const LinkLoads::Row& row : loads.rows) {
    for (size_t b = 0; b < row.bytes.size(); ++b) {
      if (row.bytes[b] == 0) continue;
      StrAppend(&csv, Quoted(row.link), ",", Shortest(loads.begin - origin + static_cast<double>(b) * loads.width), ",",
                Shortest(loads.width), ",", Shortest(row.bytes[b]), ",",
                Shortest(row.bytes[b] / (loads.width * row.bandwidth)), "\n");
    }
  }
  return csv;
}

absl::StatusOr<LinkLoads> ReadLinkLoads(const std::string& folder) {
  LinkLoads loads;
  const std::string links = StrCat(folder, "/", kLinks), bins = StrCat(folder, "/", kLinkLoads);
  if (!std::filesystem::exists(links) || !std::filesystem::exists(bins)) return loads;
  const absl::StatusOr<std::vector<Row>> rows = ReadRows(links, kLinksHead, {2, 3, 6, 7});
  if (!rows.ok()) return rows.status();
  std::map<std::string, size_t> places;
  for (const Row& row : *rows) {
    const auto [place, fresh] = places.try_emplace(row[0], loads.rows.size());
    if (fresh) {
      loads.rows.push_back({.link = row[0],
                            .kind = row[1],
                            .links = static_cast<int64_t>(NumberIn(row[2])),
                            .bandwidth = NumberIn(row[3])});
    }
    loads.rows[place->second].flows.push_back({.operation = row[4],
                                               .group = row[5],
                                               .phases = static_cast<int64_t>(NumberIn(row[6])),
                                               .bytes = NumberIn(row[7])});
  }
  const absl::StatusOr<std::vector<Row>> filled = ReadRows(bins, kLoadsHead, {1, 2, 3, 4});
  if (!filled.ok()) return filled.status();
  return AddBins(bins, *filled, places, std::move(loads));
}

}  // namespace twofold
