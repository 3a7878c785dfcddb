#include "experiments/program/pictures/format.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace twofold::pictures {
namespace {

std::string ThreeDigits(double value) {
  const double size = std::abs(value);
  return absl::StrFormat(size >= 99.95 ? "%.0f" : size >= 9.995 ? "%.1f" : "%.2f", value);
}

}  // namespace

std::string Escape(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  for (const char c : text) {
    switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      case '\'': out += "&#39;"; break;
      default: out += c;
    }
  }
  return out;
}

std::string Duration(double seconds) {
  if (!std::isfinite(seconds)) return "-";
  const double size = std::abs(seconds);
  if (size == 0) return "0 s";
  if (size >= 0.9995) return absl::StrCat(ThreeDigits(seconds), " s");
  if (size >= 0.9995e-3) return absl::StrCat(ThreeDigits(seconds * 1e3), " ms");
  if (size >= 0.9995e-6) return absl::StrCat(ThreeDigits(seconds * 1e6), " µs");
  return absl::StrCat(ThreeDigits(seconds * 1e9), " ns");
}

std::string Size(double bytes) {
  if (!std::isfinite(bytes)) return "-";
  if (std::abs(bytes) < 1024) return absl::StrFormat("%.0f B", bytes);
  const char* const units[] = {"KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  for (bytes /= 1024; std::abs(bytes) >= 1024 && unit + 1 < std::size(units); ++unit) bytes /= 1024;
  return absl::StrCat(ThreeDigits(bytes), " ", units[unit]);
}

std::string Number(double value) {
  if (!std::isfinite(value)) return "-";
  const double size = std::abs(value);
  if (size >= 1e12) return absl::StrFormat("%.3g × 10^%d", value / std::pow(10, std::floor(std::log10(size))),
                                           static_cast<int>(std::floor(std::log10(size))));
  if (size >= 1e9) return absl::StrCat(ThreeDigits(value / 1e9), " billion");
  if (size >= 1e6) return absl::StrCat(ThreeDigits(value / 1e6), " million");
  if (size < 1000) return absl::StrFormat("%.4g", value);
  std::string digits = absl::StrFormat("%.0f", value);
  for (int i = static_cast<int>(digits.size()) - 3; i > (value < 0 ? 1 : 0); i -= 3) digits.insert(static_cast<size_t>(i), ",");
  return digits;
}

std::string Share(double share) { return std::isfinite(share) ? absl::StrFormat("%.1f %%", 100 * share) : "-"; }

std::string Change(double from, double to) {
  if (from == 0 || !std::isfinite(from) || !std::isfinite(to)) return "-";
  return absl::StrFormat("%+.1f %%", 100 * (to / from - 1));
}

std::string Px(double x) {
  std::string text = absl::StrFormat("%.2f", x);
  while (text.back() == '0') text.pop_back();
  if (text.back() == '.') text.pop_back();
  return text == "-0" ? "0" : text;
}

std::vector<double> Ticks(double low, double high, int count) {
  if (!(high > low)) return {low};
  const double raw = (high - low) / count, power = std::pow(10, std::floor(std::log10(raw)));
  double step = 10 * power;
  for (const double nice : {1.0, 2.0, 5.0}) {
    if (nice * power >= raw * 0.999) {
      step = nice * power;
      break;
    }
  }
  std::vector<double> ticks;
  for (double i = std::ceil(low / step - 1e-9) + 0.0 /* no -0 */; i * step <= high * (1 + 1e-12) + 1e-300; ++i) ticks.push_back(i * step);
  return ticks;
}

}  // namespace twofold::pictures
