#include "experiments/program/report/rank_rows.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "core/base/status.h"
#include "core/base/strings.h"

namespace twofold {
namespace {

using Ranks = std::span<const int64_t>;

report::RankRange RangeOf(int64_t first, int64_t stride, size_t count) {
  report::RankRange range;
  range.set_first(first), range.set_stride(stride), range.set_last(first + stride * (static_cast<int64_t>(count) - 1));
  return range;
}

// The length of the arithmetic progression that `ranks` starts with.
size_t RunLength(Ranks ranks) {
  size_t n = std::min<size_t>(ranks.size(), 2);
  while (n < ranks.size() && ranks[n] - ranks[n - 1] == ranks[1] - ranks[0]) ++n;
  return n;
}

// Whether rows of `width` ranks are shifted copies of each other, by `ranks[width] - ranks[0]`.
bool IsGrid(Ranks ranks, size_t width) {
  if (ranks.size() % width != 0 || ranks.size() == width) return false;
  const int64_t apart = ranks[width] - ranks[0];
  for (size_t i = width; i < ranks.size(); ++i) {
    if (ranks[i] - ranks[i - width] != apart) return false;
  }
  return true;
}

report::RankSet SetOf(Ranks ranks) {
  report::RankSet set;
  set.set_count(static_cast<int64_t>(ranks.size()));
  for (report::RankRange& range : RangesOf(ranks)) *set.add_ranges() = std::move(range);
  return set;
}

// Distinct rows, and all ranks that have each, sorted by the first of them.
std::vector<std::pair<report::Rank, std::vector<int64_t>>> SharedRows(const RankRecords& records) {
  std::vector<std::pair<report::Rank, std::vector<int64_t>>> rows;
  std::map<std::string, size_t> known;  // keyed by content without the rank
  std::vector<size_t> row_of;           // by record
  for (const report::RankRecord& record : records.kept()) {
    report::Rank memory = record.memory();
    memory.clear_rank();
    const auto [row, fresh] = known.try_emplace(memory.SerializeAsString(), rows.size());
    if (fresh) rows.push_back({std::move(memory), {}});
    row_of.push_back(row->second);
  }
  for (size_t i = 0; i < records.size(); ++i) rows[row_of[records.which(i)]].second.push_back(records[i].rank);
  std::erase_if(rows, [](const auto& row) { return row.second.empty(); });
  std::sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return a.second[0] < b.second[0]; });
  return rows;
}

template <class Tell>
void ForRanksOf(const report::Rank& row, const Tell& tell) {
  if (!row.has_stands_for()) return tell(row.rank());
  for (const report::RankRange& range : row.stands_for().ranges()) {
    for (int64_t rank = range.first(); rank <= range.last(); rank += range.stride()) tell(rank);
  }
}

absl::Status Wrong(const std::string& field, int64_t value, const auto&... right) {
  return InvalidArgument(field, ": ", value, " is out of range; expected ", right...);
}

// Checked before any range is expanded.
absl::Status CheckRanges(const report::RankSet& set, const std::string& path, int64_t world_size) {
  for (int i = 0; i < set.ranges_size(); ++i) {
    const report::RankRange& range = set.ranges(i);
    const std::string here = StrCat(path, "ranges[", i, "].");
    if (range.first() < 0 || range.first() >= world_size)
      return Wrong(here + "first", range.first(), "0 to ", world_size - 1);
    if (range.last() < range.first() || range.last() >= world_size)
      return Wrong(here + "last", range.last(), range.first(), " to ", world_size - 1);
    if (range.stride() < 1 || range.stride() > world_size)
      return Wrong(here + "stride", range.stride(), "1 to ", world_size);
  }
  return absl::OkStatus();
}

}  // namespace

std::vector<report::RankRange> RangesOf(Ranks ranks) {
  std::vector<report::RankRange> ranges;
  while (!ranks.empty()) {
    const size_t run = RunLength(ranks);
    if (IsGrid(ranks, run) && ranks.size() / run > run) {  // fewer columns than rows
      for (size_t i = 0; i < run; ++i) ranges.push_back(RangeOf(ranks[i], ranks[run] - ranks[0], ranks.size() / run));
      return ranges;
    }
    ranges.push_back(RangeOf(ranks[0], run > 1 ? ranks[1] - ranks[0] : 1, run));
    ranks = ranks.subspan(run);
  }
  return ranges;
}

void AddRankRows(const RankRecords& records, report::Report& out) {
  const auto add = [&out](const report::Rank& memory, int64_t rank) {
    report::Rank* const row = out.add_ranks();
    *row = memory;
    row->set_rank(rank);
    return row;
  };
  if (records.size() > kListedRanks) {
    for (const auto& [memory, ranks] : SharedRows(records)) *add(memory, ranks[0])->mutable_stands_for() = SetOf(ranks);
    return;
  }
  for (size_t i = 0; i < records.size(); ++i) add(records[i].record.memory(), records[i].rank);
}

absl::Status CheckRankRows(const report::Report& report) {
  std::vector<bool> seen(static_cast<size_t>(report.world_size()));
  int64_t before = -1;
  for (int i = 0; i < report.ranks_size(); ++i) {
    const report::Rank& row = report.ranks(i);
    const std::string path = StrCat("ranks[", i, "].");
    if (row.rank() <= before || row.rank() >= report.world_size())
      return Wrong(path + "rank", row.rank(), before + 1, " to ", report.world_size() - 1);
    before = row.rank();
    if (absl::Status s = CheckRanges(row.stands_for(), path + "stands_for.", report.world_size()); !s.ok()) return s;
    int64_t count = 0, twice = -1;
    ForRanksOf(row, [&](int64_t rank) {
      if (seen[static_cast<size_t>(rank)]) twice = rank;
      seen[static_cast<size_t>(rank)] = true;
      ++count;
    });
    if (twice >= 0)
      return InvalidArgument(path, "stands_for: rank ", twice, " already has a row; expected one row per rank");
    if (row.has_stands_for() && count != row.stands_for().count())
      return Wrong(path + "stands_for.count", row.stands_for().count(), count);
    if (!seen[static_cast<size_t>(row.rank())])
      return Wrong(path + "rank", row.rank(), "the first rank that it stands for");
  }
  return absl::OkStatus();
}

std::vector<const report::Rank*> RowsByRank(const report::Report& report) {
  std::vector<const report::Rank*> rows(static_cast<size_t>(report.world_size()));
  for (const report::Rank& row : report.ranks())
    ForRanksOf(row, [&](int64_t rank) { rows[static_cast<size_t>(rank)] = &row; });
  return rows;
}

}  // namespace twofold
