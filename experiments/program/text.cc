#include "experiments/program/text.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_format.h"
#include "core/base/strings.h"

namespace twofold {
namespace {

// Three significant digits: 1.23, 12.3, 123, 1230.
std::string ThreeDigits(double value) {
  const double size = std::abs(value);
  return absl::StrFormat("%.*f", size < 10 ? 2 : size < 100 ? 1 : 0, value);
}

}  // namespace

std::string SecondsText(double seconds) {
  const double size = std::abs(seconds);
  if (size < 0.005e-9) return "0 s";  // values that would round to zero
  if (size < 1e-6) return StrCat(ThreeDigits(seconds * 1e9), " ns");
  if (size < 1e-3) return StrCat(ThreeDigits(seconds * 1e6), " us");
  if (size < 1) return StrCat(ThreeDigits(seconds * 1e3), " ms");
  return StrCat(ThreeDigits(seconds), " s");
}

std::string CountText(int64_t count) {
  std::string digits = StrCat(count);
  const int64_t sign = count < 0 ? 1 : 0;
  for (int64_t i = static_cast<int64_t>(digits.size()) - 3; i > sign; i -= 3)
    digits.insert(static_cast<size_t>(i), ",");
  return digits;
}

std::string BytesText(int64_t bytes) {
  constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB"};
  if (bytes < 1024) return StrCat(bytes, " B");
  double value = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  for (; value >= 1024 && unit < 3; value /= 1024) ++unit;
  return StrCat(ThreeDigits(value), " ", kUnits[unit]);
}

std::string RateText(double per_second) {
  return per_second >= 100 ? CountText(std::llround(per_second)) : ThreeDigits(per_second);
}

std::string PercentText(double share) {
  if (!std::isfinite(share)) return "-";
  return absl::StrFormat("%+.1f %%", std::abs(share) < 0.0005 ? 0.0 : share * 100);
}

std::string ValidationText(const report::Validation& v) {
  return StrCat("loss ", absl::StrFormat("%.4f", v.loss()),
                std::isnan(v.accuracy()) ? absl::StrFormat(", perplexity %.4g", v.perplexity())
                                         : absl::StrFormat(", accuracy %.1f %%", 100 * v.accuracy()),
                " after step ", v.step());
}

std::string TableText(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], row[c].size());
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (size_t c = 0; c < row.size(); ++c) {
      const std::string space(widths[c] - row[c].size(), ' ');
      StrAppend(&line, c == 0 ? "" : "  ", c == 0 ? row[c] : space, c == 0 ? space : row[c]);
    }
    line.erase(line.find_last_not_of(' ') + 1);
    StrAppend(&text, line, "\n");
  }
  return text;
}

}  // namespace twofold
