#include "experiments/program/pictures/panels.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "experiments/program/pictures/format.h"

namespace twofold::pictures {
namespace {

constexpr double kPanelWidth = 330, kPanelHeight = 220, kGap = 14;
constexpr double kBefore = 70, kAfter = 16, kAbove = 30, kBelow = 40;  // around the area that is drawn on
constexpr size_t kPerRow = 3;
constexpr double kLegendLine = 18, kHead = 30;

double HighestOf(const Panel& panel) {
  double high = 0;
  const auto take = [&](const std::vector<double>& values) {
    for (const double v : values) {
      if (std::isfinite(v)) high = std::max(high, v);
    }
  };
  for (const PanelLine& line : panel.lines) take(line.values), take(line.high);
  take(panel.ideal);
  return high;
}

bool HasValues(const Panel& panel) {
  return std::any_of(panel.lines.begin(), panel.lines.end(), [](const PanelLine& line) {
    return std::any_of(line.values.begin(), line.values.end(), [](double v) { return std::isfinite(v); });
  });
}

class PanelDrawing {
 public:
  PanelDrawing(const Panels& all, const Panel& panel, double x, double y)
      : all_(all), panel_(panel), x_(x), y_(y), high_(1.06 * std::max(HighestOf(panel), 1e-300)) {}

  std::string Draw() {
    Frame();
    if (!panel_.ideal.empty()) absl::StrAppend(&body_, "<path class=\"ideal\" d=\"", PathOf(panel_.ideal), "\"/>");
    for (size_t s = 0; s < panel_.lines.size(); ++s) Add(all_.series[s], panel_.lines[s]);
    return body_;
  }

 private:
  double X(size_t i) const {
    const double first = all_.positions.front(), span = all_.positions.back() - first;
    const double share = span > 0 ? (all_.positions[i] - first) / span : 0.5;
    return x_ + kBefore + share * (kPanelWidth - kBefore - kAfter);
  }
  double Y(double v) const { return y_ + kAbove + (1 - v / high_) * (kPanelHeight - kAbove - kBelow); }

  void Frame() {
    absl::StrAppend(&body_, "<text class=\"head\" x=\"", Px(x_ + kBefore), "\" y=\"", Px(y_ + 16), "\">",
                    Escape(panel_.title), "</text>");
    for (const double v : Ticks(0, high_, 4)) {
      absl::StrAppend(&body_, "<path class=\"rule\" d=\"M", Px(x_ + kBefore), " ", Px(Y(v)), "H",
                      Px(x_ + kPanelWidth - kAfter), "\"/><text class=\"soft end\" x=\"", Px(x_ + kBefore - 7),
                      "\" y=\"", Px(Y(v) + 4), "\">", Escape(panel_.format(v)), "</text>");
    }
    double room = -1e9;  // where the last name ended
    for (size_t i = 0; i < all_.names.size(); ++i) {
      const double half = 3.6 * static_cast<double>(all_.names[i].size());
      if (X(i) - half < room) continue;
      room = X(i) + half + 4;
      absl::StrAppend(&body_, "<text class=\"soft mid\" x=\"", Px(X(i)), "\" y=\"", Px(y_ + kPanelHeight - kBelow + 17),
                      "\">", Escape(all_.names[i]), "</text>");
    }
    absl::StrAppend(&body_, "<text class=\"soft mid\" x=\"", Px(x_ + (kBefore + kPanelWidth - kAfter) / 2), "\" y=\"",
                    Px(y_ + kPanelHeight - 6), "\">", Escape(all_.axis), "</text>");
  }

  std::string PathOf(const std::vector<double>& values) const {
    std::string d;
    bool drawn = false;
    for (size_t i = 0; i < values.size(); ++i) {
      const bool there = std::isfinite(values[i]);
      if (there) absl::StrAppend(&d, drawn ? "L" : "M", Px(X(i)), " ", Px(Y(values[i])));
      drawn = there;
    }
    return d;
  }

  void Add(const PanelSeries& series, const PanelLine& line) {
    absl::StrAppend(&body_, "<path class=\"series p", series.color, series.dashed ? " dashed" : "", "\" d=\"",
                    PathOf(line.values), "\"/>");
    for (size_t i = 0; i < line.values.size(); ++i) {
      if (!std::isfinite(line.values[i])) continue;
      if (i < line.low.size() && std::isfinite(line.low[i]) && std::isfinite(line.high[i]))
        absl::StrAppend(&body_, "<path class=\"series thin p", series.color, "\" d=\"M", Px(X(i)), " ",
                        Px(Y(line.low[i])), "V", Px(Y(line.high[i])), "\"/>");
      absl::StrAppend(&body_, "<circle class=\"q", series.color, "\" cx=\"", Px(X(i)), "\" cy=\"",
                      Px(Y(line.values[i])), "\" r=\"2.8\"><title>", Escape(series.name), ", ", Escape(all_.names[i]),
                      ": ", Escape(panel_.format(line.values[i])), "</title></circle>");
    }
  }

  const Panels& all_;
  const Panel& panel_;
  const double x_, y_, high_;
  std::string body_;
};

// What the lines mean, from left to right, in as many rows as they need. y(): the last row's.
class Legend {
 public:
  Legend(double width, double y) : width_(width), y_(y) {}

  // A sample of a line of these classes, and what it is.
  void Add(const std::string& classes, const std::string& text, bool upright = false) {
    const double room = 34 + 7.2 * static_cast<double>(text.size()) + 16;
    if (x_ > 0 && x_ + room > width_) x_ = 0, y_ += kLegendLine;
    absl::StrAppend(&body_, "<path class=\"", classes, "\" d=\"M", Px(upright ? x_ + 13 : x_), " ", Px(y_ + 6),
                    upright ? "m0 -6v12" : "h26", "\"/><text x=\"", Px(x_ + 34), "\" y=\"", Px(y_ + 10), "\">",
                    Escape(text), "</text>");
    x_ += room;
  }
  const std::string& body() const { return body_; }
  double y() const { return y_; }

 private:
  const double width_;
  double x_ = 0, y_;
  std::string body_;
};

bool HasIntervals(const Panel& panel) {
  return std::any_of(panel.lines.begin(), panel.lines.end(), [](const PanelLine& line) { return !line.low.empty(); });
}

bool HasIdeal(const Panel& panel) { return !panel.ideal.empty(); }

}  // namespace

std::string PanelsPicture(const Panels& all) {
  std::vector<const Panel*> drawn;
  for (const Panel& panel : all.panels) {
    if (HasValues(panel)) drawn.push_back(&panel);
  }
  if (drawn.empty()) return "";
  const size_t columns = std::min(kPerRow, drawn.size()), rows = (drawn.size() + columns - 1) / columns;
  const double width = static_cast<double>(columns) * (kPanelWidth + kGap) - kGap;
  std::string body = absl::StrCat("<text class=\"head\" x=\"0\" y=\"16\">", Escape(all.title), "</text>");
  Legend legend(width, kHead);
  for (const PanelSeries& series : all.series)
    legend.Add(absl::StrCat("series p", series.color, series.dashed ? " dashed" : ""), series.name);
  const auto any = [&drawn](bool (*has)(const Panel&)) {
    return std::any_of(drawn.begin(), drawn.end(), [has](const Panel* panel) { return has(*panel); });
  };
  if (any(HasIdeal)) legend.Add("ideal", all.ideal);
  if (any(HasIntervals) && !all.series.empty())
    legend.Add(absl::StrCat("series thin p", all.series.back().color), all.interval, true);
  body += legend.body();
  double y = legend.y() + kLegendLine + 6;
  for (size_t i = 0; i < drawn.size(); ++i) {
    const double left = static_cast<double>(i % columns) * (kPanelWidth + kGap);
    body += PanelDrawing(all, *drawn[i], left, y + static_cast<double>(i / columns) * (kPanelHeight + kGap)).Draw();
  }
  y += static_cast<double>(rows) * (kPanelHeight + kGap);
  for (const std::string& note : all.notes) {
    absl::StrAppend(&body, "<text class=\"soft\" x=\"0\" y=\"", Px(y + 4), "\">", Escape(note), "</text>");
    y += kLegendLine;
  }
  return absl::StrCat("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 ", Px(width), " ", Px(y),
                      "\" width=\"100%\" role=\"img\" aria-label=\"", Escape(all.title), "\">", body, "</svg>");
}

}  // namespace twofold::pictures
