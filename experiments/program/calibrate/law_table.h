// Tables of measured kernel times: comma-separated, with one line of column names, optionally compressed with gzip.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace twofold::calibrate {

class LawTable {
 public:
  // Errors name the file, the line and the column. At least one row is required.
  static absl::StatusOr<LawTable> Read(const std::string& path);
  static absl::StatusOr<LawTable> Parse(std::string_view text, const std::string& path);

  bool Has(std::string_view column) const;
  bool HasAll(std::initializer_list<std::string_view> columns) const;
  size_t rows() const { return rows_; }
  const std::vector<std::string>& columns() const { return names_; }
  const std::string& path() const { return path_; }

  // The column must exist. A number: 0 for an empty cell; refuses text, negative numbers and infinities.
  absl::StatusOr<std::vector<double>> Numbers(std::string_view column) const;
  // Likewise, but refuses what is not an integer of at least 1.
  absl::StatusOr<std::vector<int64_t>> Sizes(std::string_view column) const;
  std::string_view Text(size_t row, std::string_view column) const;

 private:
  size_t IndexOf(std::string_view column) const;  // names_.size() if there is none

  std::string path_;
  std::vector<std::string> names_, cells_;  // cells_: row by row
  size_t rows_ = 0;
};

}  // namespace twofold::calibrate
