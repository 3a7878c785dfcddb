#include "experiments/program/pictures/chart.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "experiments/program/pictures/format.h"

namespace twofold::pictures {
namespace {

constexpr double kWidth = 550, kHeight = 250, kLeft = 66, kRight = 14, kTop = 48, kBottom = 42;

struct ValueRange {
  double low = 1e300, high = -1e300;
};

ValueRange RangeOf(const std::vector<Series>& series, bool from_zero) {
  ValueRange r;
  for (const Series& s : series) {
    for (const double v : s.values) {
      if (std::isfinite(v)) r.low = std::min(r.low, v), r.high = std::max(r.high, v);
    }
    if (s.median > 0) r.low = std::min(r.low, s.low), r.high = std::max(r.high, s.high);
  }
  if (from_zero) r.low = 0;
  const double room = r.high > r.low ? 0.06 * (r.high - r.low) : 0.06 * std::max(std::abs(r.high), 1e-12);
  r.high += room;
  if (!from_zero) r.low -= room;
  return r;
}

class Drawing {
 public:
  Drawing(ValueRange range, size_t steps) : range_(range), steps_(static_cast<double>(std::max<size_t>(steps, 2))) {}

  void Frame(const std::string& title, const std::function<std::string(double)>& format) {
    absl::StrAppend(&body_, "<text class=\"head\" x=\"0\" y=\"14\">", Escape(title), "</text>");
    for (const double v : Ticks(range_.low, range_.high, 5)) {
      absl::StrAppend(&body_, "<path class=\"rule\" d=\"M", Px(kLeft), " ", Px(Y(v)), "H", Px(kWidth - kRight),
                      "\"/><text class=\"soft end\" x=\"", Px(kLeft - 7), "\" y=\"", Px(Y(v) + 4), "\">", format(v),
                      "</text>");
    }
    for (const double s : Ticks(0, steps_ - 1, 6)) {
      if (s != std::floor(s)) continue;
      absl::StrAppend(&body_, "<text class=\"soft mid\" x=\"", Px(X(s)), "\" y=\"", Px(kHeight - kBottom + 17), "\">",
                      Number(s), "</text>");
    }
    absl::StrAppend(&body_, "<text class=\"soft mid\" x=\"", Px((kLeft + kWidth - kRight) / 2), "\" y=\"",
                    Px(kHeight - 5), "\">step</text>");
  }

  void Add(const Series& s) {
    if (s.median > 0) {
      absl::StrAppend(&body_, "<rect class=\"band", s.color, "\" x=\"", Px(kLeft), "\" y=\"", Px(Y(s.high)),
                      "\" width=\"", Px(kWidth - kRight - kLeft), "\" height=\"",
                      Px(std::max(0.5, Y(s.low) - Y(s.high))), "\"/><path class=\"median", s.color, "\" d=\"M",
                      Px(kLeft), " ", Px(Y(s.median)), "H", Px(kWidth - kRight), "\"/>");
    }
    std::string d;
    for (size_t i = 0; i < s.values.size(); ++i) {
      if (!std::isfinite(s.values[i])) continue;
      absl::StrAppend(&d, d.empty() ? "M" : "L", Px(X(static_cast<double>(i))), " ", Px(Y(s.values[i])));
    }
    absl::StrAppend(&body_, "<path class=\"line", s.color, "\" d=\"", d, "\"/>");
    if (!s.values.empty() && s.values.size() <= 80) Dots(s);
    absl::StrAppend(&body_, "<rect class=\"dot", s.color, "\" x=\"", Px(legend_),
                    "\" y=\"24\" width=\"12\" height=\"12\"/><text x=\"", Px(legend_ + 17), "\" y=\"34.5\">",
                    Escape(s.name), "</text>");
    legend_ += 17 + 7.2 * static_cast<double>(s.name.size()) + 14;
  }

  std::string Finish(const std::string& title) const {
    return absl::StrCat("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 ", Px(kWidth), " ", Px(kHeight),
                        "\" width=\"100%\" role=\"img\" aria-label=\"", Escape(title), "\">", body_, "</svg>");
  }

 private:
  double X(double step) const { return kLeft + step / (steps_ - 1) * (kWidth - kLeft - kRight); }
  double Y(double v) const {
    return kTop + (range_.high - v) / (range_.high - range_.low) * (kHeight - kTop - kBottom);
  }

  void Dots(const Series& s) {
    for (size_t i = 0; i < s.values.size(); ++i) {
      if (!std::isfinite(s.values[i])) continue;
      absl::StrAppend(&body_, "<circle class=\"dot", s.color, "\" cx=\"", Px(X(static_cast<double>(i))), "\" cy=\"",
                      Px(Y(s.values[i])), "\" r=\"2.4\"><title>step ", i, ": ", Number(s.values[i]),
                      "</title></circle>");
    }
  }

  const ValueRange range_;
  const double steps_;
  double legend_ = kLeft;
  std::string body_;
};

}  // namespace

std::string Chart(const std::vector<Series>& series, const std::string& title, bool from_zero,
                  const std::function<std::string(double)>& format) {
  const ValueRange range = RangeOf(series, from_zero);
  if (!(range.high > range.low)) return "";
  size_t steps = 0;
  for (const Series& s : series) steps = std::max(steps, s.values.size());
  Drawing drawing(range, steps);
  drawing.Frame(title, format);
  for (const Series& s : series) drawing.Add(s);
  return drawing.Finish(title);
}

}  // namespace twofold::pictures
