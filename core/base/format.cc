#include "core/base/format.h"

#include <algorithm>
#include <cmath>
#include <iterator>

#include "absl/strings/str_format.h"
#include "core/base/strings.h"

namespace twofold {
namespace {

// Three significant digits: 1.23, 12.3, 123, 1230.
std::string ThreeDigits(double value) {
  const double size = std::abs(value);
  return absl::StrFormat("%.*f", size < 9.995 ? 2 : size < 99.95 ? 1 : 0, value);
}

// The number of characters of a UTF-8 text.
size_t Width(std::string_view text) {
  return static_cast<size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
}

}  // namespace

std::string SecondsText(double seconds) {
  if (!std::isfinite(seconds)) return "-";
  const double size = std::abs(seconds);
  if (size < 0.005e-9) return "0 s";  // values that would round to zero
  if (size < 0.9995e-6) return StrCat(ThreeDigits(seconds * 1e9), " ns");
  if (size < 0.9995e-3) return StrCat(ThreeDigits(seconds * 1e6), " µs");
  if (size < 0.9995) return StrCat(ThreeDigits(seconds * 1e3), " ms");
  return StrCat(ThreeDigits(seconds), " s");
}

std::string CountText(int64_t count) {
  std::string digits = StrCat(count);
  const int64_t sign = count < 0 ? 1 : 0;
  for (int64_t i = static_cast<int64_t>(digits.size()) - 3; i > sign; i -= 3)
    digits.insert(static_cast<size_t>(i), ",");
  return digits;
}

std::string BytesText(double bytes) {
  if (!std::isfinite(bytes)) return "-";
  if (std::abs(bytes) < 1024) return absl::StrFormat("%.0f B", bytes);
  constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  for (bytes /= 1024; std::abs(bytes) >= 1024 && unit + 1 < std::size(kUnits); bytes /= 1024) ++unit;
  return StrCat(ThreeDigits(bytes), " ", kUnits[unit]);
}

std::string RateText(double per_second) {
  if (!std::isfinite(per_second)) return "-";
  return per_second >= 99.95 ? CountText(std::llround(per_second)) : ThreeDigits(per_second);
}

std::string PercentText(double change) {
  if (!std::isfinite(change)) return "-";
  return absl::StrFormat("%+.1f %%", std::abs(change) < 0.0005 ? 0.0 : change * 100);
}

std::string ShareText(double share) { return std::isfinite(share) ? absl::StrFormat("%.1f %%", 100 * share) : "-"; }

std::string Counted(int64_t n, std::string_view what) {
  const std::string_view plural = n == 1 ? "" : what.ends_with("ch") ? "es" : "s";
  return StrCat(CountText(n), " ", what, plural);
}

std::string RightAligned(std::string_view text, size_t width) {
  return StrCat(std::string(width - std::min(width, Width(text)), ' '), text);
}

std::string TableText(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (size_t c = 0; c < row.size(); ++c) widths[c] = std::max(widths[c], Width(row[c]));
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (size_t c = 0; c < row.size(); ++c) {
      StrAppend(&line, c == 0 ? row[c] : StrCat("  ", RightAligned(row[c], widths[c])));
      if (c == 0) line.append(widths[c] - Width(row[c]), ' ');
    }
    line.erase(line.find_last_not_of(' ') + 1);
    StrAppend(&text, line, "\n");
  }
  return text;
}

}  // namespace twofold
