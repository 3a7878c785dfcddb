#include "experiments/program/calibrate/law_table.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_split.h"
#include "core/base/check.h"
#include "core/base/status.h"

namespace twofold::calibrate {

absl::StatusOr<LawTable> LawTable::Read(const std::string& path) {
  const gzFile file = gzopen(path.c_str(), "rb");  // reads plain text too
  if (file == nullptr) return NotFound(path, ": cannot be read");
  const absl::Cleanup close = [file] { gzclose(file); };
  std::string text;
  std::array<char, 1 << 16> buffer{};
  for (int got = 0; (got = gzread(file, buffer.data(), buffer.size())) != 0;) {
    if (got < 0) return InvalidArgument(path, ": is damaged, or not compressed with gzip");
    text.append(buffer.data(), static_cast<size_t>(got));
  }
  int error = Z_OK;
  gzerror(file, &error);
  if (error != Z_OK) return InvalidArgument(path, ": ends too early");
  return Parse(text, path);
}

absl::StatusOr<LawTable> LawTable::Parse(std::string_view text, const std::string& path) {
  LawTable table;
  table.path_ = path;
  int64_t line = 0;
  for (std::string row : std::vector<std::string>(absl::StrSplit(std::string(text), '\n'))) {
    ++line;
    if (row.ends_with('\r')) row.pop_back();
    if (row.empty()) continue;
    const std::vector<std::string> cells = absl::StrSplit(row, ',');
    if (table.names_.empty()) {
      table.names_ = cells;
      continue;
    }
    if (cells.size() != table.names_.size()) {
      return InvalidArgument(path, ":", line, ": has ", cells.size(), " cells; the first line names ",
                             table.names_.size(), " columns");
    }
    table.cells_.insert(table.cells_.end(), cells.begin(), cells.end());
    ++table.rows_;
  }
  if (table.rows_ == 0)
    return InvalidArgument(path, ": has no rows; it needs a line of column names and one row or more");
  return table;
}

size_t LawTable::IndexOf(std::string_view column) const {
  return static_cast<size_t>(std::find(names_.begin(), names_.end(), column) - names_.begin());
}

bool LawTable::Has(std::string_view column) const { return IndexOf(column) < names_.size(); }

bool LawTable::HasAll(std::initializer_list<std::string_view> columns) const {
  return std::all_of(columns.begin(), columns.end(), [this](std::string_view c) { return Has(c); });
}

std::string_view LawTable::Text(size_t row, std::string_view column) const {
  const size_t index = IndexOf(column);
  TWOFOLD_CHECK(index < names_.size() && row < rows_, "the table has this cell");
  return cells_[row * names_.size() + index];
}

absl::StatusOr<std::vector<double>> LawTable::Numbers(std::string_view column) const {
  std::vector<double> numbers;
  for (size_t row = 0; row < rows_; ++row) {
    const std::string text(Text(row, column));
    double number = 0;
    if (!text.empty() && (!absl::SimpleAtod(text, &number) || !std::isfinite(number) || number < 0)) {
      return InvalidArgument(path_, ": row ", row + 1, ", column ", column, ": \"", text,
                             "\": must be a number that is not negative");
    }
    numbers.push_back(number);
  }
  return numbers;
}

absl::StatusOr<std::vector<int64_t>> LawTable::Sizes(std::string_view column) const {
  std::vector<int64_t> sizes;
  for (size_t row = 0; row < rows_; ++row) {
    int64_t size = 0;
    if (!absl::SimpleAtoi(std::string(Text(row, column)), &size) || size < 1 || size > (int64_t{1} << 31)) {
      return InvalidArgument(path_, ": row ", row + 1, ", column ", column, ": \"", Text(row, column),
                             "\": must be an integer from 1 to 2^31");
    }
    sizes.push_back(size);
  }
  return sizes;
}

}  // namespace twofold::calibrate
