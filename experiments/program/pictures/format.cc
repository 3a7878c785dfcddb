#include "experiments/program/pictures/format.h"

#include <cmath>

#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "core/base/format.h"

namespace twofold::pictures {
std::string Escape(std::string_view text) {
  return absl::StrReplaceAll(absl::string_view(text.data(), text.size()),
                             {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}, {"'", "&#39;"}});
}

std::string Number(double value) {
  if (!std::isfinite(value)) return "-";
  const double size = std::abs(value);
  if (size >= 1e12)
    return absl::StrFormat("%.3g × 10^%d", value / std::pow(10, std::floor(std::log10(size))),
                           static_cast<int>(std::floor(std::log10(size))));
  if (size >= 1e9) return absl::StrFormat("%.3g billion", value / 1e9);
  if (size >= 1e6) return absl::StrFormat("%.3g million", value / 1e6);
  return size < 1000 ? absl::StrFormat("%.4g", value) : CountText(std::llround(value));
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
  for (double i = std::ceil(low / step - 1e-9) + 0.0 /* no -0 */; i * step <= high * (1 + 1e-12) + 1e-300; ++i)
    ticks.push_back(i * step);
  return ticks;
}

}  // namespace twofold::pictures
