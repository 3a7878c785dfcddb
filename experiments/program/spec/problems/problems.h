// The problems of a spec: one line each, "file: field.path: value ...; what would be right".
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "core/base/strings.h"
#include "core/proto/spec.pb.h"

namespace twofold {

class Problems {
 public:
  explicit Problems(std::string file) : file_(std::move(file)) {}

  void Add(std::string_view path, const auto&... text) { lines_.push_back(StrCat(file_, ": ", path, ": ", text...)); }
  Problems None() const { return Problems(file_); }  // an empty list for the same file

  // Each returns whether the value is valid. `has`: false if the field, which is required, is absent.
  bool Whole(std::string_view path, int64_t value, int64_t least, int64_t most, bool has = true);
  bool AtLeast(std::string_view path, double value, double least);  // finite, >= least
  bool Above(std::string_view path, double value, double bound);    // finite, > bound
  bool Fraction(std::string_view path, double value);               // in [0, 1)

  // Adds problems found in a copy of the spec whose block `from` is at `to` in this one.
  void AddMoved(const Problems& found, std::string_view from, std::string_view to);

  absl::Status status() const;

 private:
  std::string file_;
  std::vector<std::string> lines_;
};

}  // namespace twofold
