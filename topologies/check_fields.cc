#include "topologies/check_fields.h"

namespace twofold {

absl::Status CheckPositive(std::string_view field, double value) {
  if (value > 0 && value < 1e100) return absl::OkStatus();  // finite in any unit
  return Refuse(field, value, value > 0 ? "must be less than 1e100" : "must be greater than 0");
}

absl::Status CheckNotNegative(std::string_view field, double value) {
  if (value >= 0 && value < 1e100) return absl::OkStatus();
  return Refuse(field, value, value > 0 ? "must be less than 1e100" : "must not be negative");
}

absl::Status CheckRange(std::string_view field, int64_t value, int64_t least, int64_t most) {
  if (value >= least && value <= most) return absl::OkStatus();
  return Refuse(field, value, "must be from ", least, " to ", most);
}

absl::Status Within(std::string_view prefix, const absl::Status& status) {
  if (status.ok()) return status;
  return absl::Status(status.code(), StrCat(prefix, std::string(status.message())));
}

}  // namespace twofold
