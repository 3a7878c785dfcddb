#include "experiments/program/bench/sizes.h"

#include "absl/strings/numbers.h"
#include "core/base/status.h"

namespace twofold::bench {
namespace {

constexpr int64_t kLargest = int64_t{1024} << 30;
constexpr size_t kMostSizes = 10000;

int64_t Multiplier(char suffix) {
  switch (suffix) {
    case 'k':
    case 'K': return int64_t{1} << 10;
    case 'm':
    case 'M': return int64_t{1} << 20;
    case 'g':
    case 'G': return int64_t{1} << 30;
    default: return 1;
  }
}

}  // namespace

absl::StatusOr<int64_t> ParseSize(std::string_view text) {
  const int64_t multiplier = text.empty() ? 1 : Multiplier(text.back());
  const std::string_view digits = multiplier == 1 ? text : text.substr(0, text.size() - 1);
  int64_t number = 0;
  const bool digits_only = !digits.empty() && digits.find_first_not_of("0123456789") == digits.npos;
  if (!digits_only || !absl::SimpleAtoi(absl::string_view(digits.data(), digits.size()), &number)) {
    return InvalidArgument("\"", text, "\" is not a size; use whole bytes, such as 8, 64K, 16M or 1G");
  }
  if (number < 1 || number > kLargest / multiplier) {
    return InvalidArgument("\"", text, "\" is out of range; use 1 to 1024G");
  }
  return number * multiplier;
}

absl::StatusOr<std::vector<int64_t>> Sizes(const Sweep& sweep) {
  if (sweep.least > sweep.most) {
    return InvalidArgument("--minbytes must be at most --maxbytes (got --minbytes=", sweep.least,
                           " and --maxbytes=", sweep.most, ")");
  }
  if (sweep.step == 0 && sweep.factor < 2) {
    return InvalidArgument("--stepfactor must be at least 2 (got ", sweep.factor, ")");
  }
  std::vector<int64_t> sizes;
  for (int64_t size = sweep.least; size <= sweep.most;) {
    if (sizes.size() == kMostSizes) {
      return InvalidArgument("--stepbytes=", sweep.step, " gives more than ", kMostSizes, " sizes from ", sweep.least,
                             " to ", sweep.most, "; use a larger step");
    }
    sizes.push_back(size);
    if (sweep.step == 0 && size > sweep.most / sweep.factor) break;
    size = sweep.step > 0 ? size + sweep.step : size * sweep.factor;
  }
  return sizes;
}

}  // namespace twofold::bench
