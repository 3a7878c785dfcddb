// Checks of user input. Messages start with the field and its value and say which values are valid.
#pragma once

#include <cstdint>
#include <string_view>

#include "absl/status/status.h"
#include "core/base/status.h"
#include "core/base/strings.h"

namespace twofold {

// "field = value: right"
template <class Number>
absl::Status Refuse(std::string_view field, Number value, const auto&... right) {
  return InvalidArgument(field, " = ", value, ": ", right...);
}
absl::Status CheckPositive(std::string_view field, double value);     // also finite
absl::Status CheckNotNegative(std::string_view field, double value);  // also finite
absl::Status CheckRange(std::string_view field, int64_t value, int64_t least, int64_t most);
// `status` with `prefix` put before its message.
absl::Status Within(std::string_view prefix, const absl::Status& status);

// Keeps the first check that fails.
class Checks {
 public:
  Checks& operator<<(const absl::Status& status) {
    if (first_.ok()) first_ = status;
    return *this;
  }
  bool ok() const { return first_.ok(); }
  operator absl::Status() const { return first_; }  // NOLINT: what it is for

 private:
  absl::Status first_;
};

}  // namespace twofold
