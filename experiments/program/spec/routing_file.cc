// Reads model.moe.routing.counts.file, a routing.csv that a run with data has written.
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "core/base/status.h"
#include "core/base/strings.h"
#include "experiments/program/spec/spec.h"

namespace twofold {
namespace {

constexpr std::string_view kWritten =
    "; `twofold run` writes such files for models with moe { dropless: true } and data";

using Counts = std::vector<int64_t>;
using ByPlace = std::map<std::pair<int64_t, int64_t>, Counts>;  // by block and rank

// A line's numbers. Empty if one is none, or is negative.
Counts NumbersOf(const std::string& line) {
  Counts numbers;
  for (const absl::string_view text : absl::StrSplit(line, ',')) {
    int64_t n = 0;
    if (!absl::SimpleAtoi(text, &n) || n < 0) return {};
    numbers.push_back(n);
  }
  return numbers;
}

absl::StatusOr<ByPlace> Read(std::istream& in, const std::string& where) {
  std::string line;
  if (!std::getline(in, line) || !line.starts_with("rank,block,expert 0"))
    return InvalidArgument(where, ":1: does not begin with \"rank,block,expert 0,...\"", kWritten);
  const std::vector<absl::string_view> columns = absl::StrSplit(line, ',');
  const size_t width = columns.size();
  ByPlace all;
  for (int64_t number = 2; std::getline(in, line); ++number) {
    Counts row = NumbersOf(line);
    if (row.size() != width)
      return InvalidArgument(where, ":", number, ": is not a row of ", width, " numbers of 0 or more", kWritten);
    const std::pair place(row[1], row[0]);
    row.erase(row.begin(), row.begin() + 2);
    if (!all.try_emplace(place, std::move(row)).second)
      return InvalidArgument(where, ":", number, ": rank ", place.second, " has two rows for block ", place.first,
                             kWritten);
  }
  if (all.empty()) return InvalidArgument(where, ": has no rows", kWritten);
  return all;
}

}  // namespace

absl::Status ExpandRoutingFile(spec::Spec& spec, const std::string& file) {
  if (!spec.model().moe().routing().counts().has_file()) return absl::OkStatus();
  spec::Routing::Counts& counts = *spec.mutable_model()->mutable_moe()->mutable_routing()->mutable_counts();
  const std::string field = StrCat(file, ": model.moe.routing.counts"), path = counts.file();
  if (!counts.rows().empty()) return InvalidArgument(field, ".file: \"", path, "\" and rows are both given; keep one");
  std::error_code error;
  const bool folder = std::filesystem::is_directory(path, error);
  errno = 0;
  std::ifstream in(path);
  if (!in || folder) {
    return InvalidArgument(field, ".file: \"", path,
                           "\" cannot be read: ", folder ? "it is a folder" : std::strerror(errno),
                           "; give the routing.csv of a run with data");
  }
  absl::StatusOr<ByPlace> all = Read(in, StrCat(field, ".file: ", path));
  if (!all.ok()) return all.status();
  int64_t last = 0;
  std::map<int64_t, Counts> sums;
  for (const auto& [place, row] : *all) {
    last = std::max(last, place.second);
    Counts& sum = sums[place.first];
    sum.resize(row.size());
    for (size_t e = 0; e < row.size(); ++e) sum[e] += row[e];
  }
  const int64_t ranks = WorldSize(spec);
  if (counts.by_rank() && last + 1 != ranks) {
    return InvalidArgument(field, ".by_rank: true needs a rank of the file for each of this run's ", ranks,
                           " ranks, but ", path, " has ", last + 1, "; use false, or as many ranks");
  }
  const auto add = [&counts](int64_t block, const Counts& tokens) {
    spec::Routing::Row& row = *counts.add_rows();
    row.set_block(block);
    row.mutable_tokens()->Add(tokens.begin(), tokens.end());
    return &row;
  };
  if (counts.by_rank()) {
    for (const auto& [place, row] : *all) add(place.first, row)->set_rank(place.second);
  } else {
    for (const auto& [block, sum] : sums) add(block, sum);
  }
  counts.clear_file(), counts.clear_by_rank();
  return absl::OkStatus();
}

}  // namespace twofold
