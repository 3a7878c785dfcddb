#include "experiments/program/spec/problems/problems.h"

#include <cmath>

#include "absl/strings/str_join.h"
#include "core/base/status.h"
#include "core/base/strings.h"
#include "core/proto/fields.h"

namespace twofold {

void Problems::Record(std::string_view path, const Bounds& range) const {
  if (ranges_ == nullptr) return;
  std::string plain;
  bool index = false;
  for (const char c : path) {
    index = index || c == '[';
    if (!index) plain += c;
    if (c == ']') index = false;
  }
  Bounds& known = (*ranges_)[plain];  // two calls for one field bound it together
  if (range.least && (!known.least || *range.least >= *known.least)) {
    known.above = range.above || (known.above && known.least == range.least);
    known.least = range.least;
  }
  if (range.most && (!known.most || *range.most <= *known.most)) {
    known.below = range.below || (known.below && known.most == range.most);
    known.most = range.most;
  }
}

bool Problems::Whole(std::string_view path, int64_t value, int64_t least, int64_t most, bool has) {
  Record(path, {.least = static_cast<double>(least), .most = static_cast<double>(most)});
  if (has && value >= least && value <= most) return true;
  Add(path, has ? StrCat(value, " is out of range") : "is missing", "; use a whole number from ", least, " to ", most);
  return false;
}

bool Problems::AtLeast(std::string_view path, double value, double least) {
  Record(path, {.least = least});
  if (std::isfinite(value) && value >= least) return true;
  Add(path, NumberText(value), " is out of range; use a number of ", NumberText(least), " or more");
  return false;
}

bool Problems::Above(std::string_view path, double value, double bound) {
  Record(path, {.least = bound, .above = true});
  if (std::isfinite(value) && value > bound) return true;
  Add(path, NumberText(value), " is out of range; use a number above ", NumberText(bound));
  return false;
}

bool Problems::Fraction(std::string_view path, double value) {
  Record(path, {.least = 0, .most = 1, .below = true});
  if (value >= 0 && value < 1) return true;
  Add(path, NumberText(value), " is out of range; use a number from 0 to below 1");
  return false;
}

void Problems::AddMoved(const Problems& found, std::string_view from, std::string_view to) {
  const std::string start = StrCat(file_, ": ", from), moved = StrCat(file_, ": ", to);
  for (const std::string& line : found.lines_) {
    lines_.push_back(line.starts_with(start) ? StrCat(moved, line.substr(start.size())) : line);
  }
}

absl::Status Problems::status() const {
  return lines_.empty() ? absl::OkStatus() : InvalidArgument(absl::StrJoin(lines_, "\n"));
}

}  // namespace twofold
