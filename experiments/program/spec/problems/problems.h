// The problems of a spec: one line each, "file: field.path: value ...; what would be right".
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "core/base/strings.h"
#include "core/proto/spec.pb.h"

namespace twofold {

// What a number is held against. A bound that is absent is not checked, or not by a call that says so.
struct Bounds {
  std::optional<double> least, most;
  bool above = false, below = false;  // the bound itself is excluded
  friend bool operator==(const Bounds&, const Bounds&) = default;
};
// By the path of the field, without the indices of lists.
using BoundsByPath = std::map<std::string, Bounds>;

class Problems {
 public:
  // `ranges`, if given, receives the range of every number that is checked, valid or not.
  explicit Problems(std::string file, BoundsByPath* ranges = nullptr) : file_(std::move(file)), ranges_(ranges) {}

  void Add(std::string_view path, const auto&... text) { lines_.push_back(StrCat(file_, ": ", path, ": ", text...)); }
  Problems None() const { return Problems(file_, ranges_); }  // an empty list for the same file

  // Each returns whether the value is valid. `has`: false if the field, which is required, is absent.
  bool Whole(std::string_view path, int64_t value, int64_t least, int64_t most, bool has = true);
  bool AtLeast(std::string_view path, double value, double least);  // finite, >= least
  bool Above(std::string_view path, double value, double bound);    // finite, > bound
  bool Fraction(std::string_view path, double value);               // in [0, 1)

  // Adds problems found in a copy of the spec whose block `from` is at `to` in this one.
  void AddMoved(const Problems& found, std::string_view from, std::string_view to);

  absl::Status status() const;

 private:
  void Record(std::string_view path, const Bounds& range) const;

  std::string file_;
  BoundsByPath* ranges_;
  std::vector<std::string> lines_;
};

}  // namespace twofold
