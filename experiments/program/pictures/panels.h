// Small line charts side by side, on one horizontal axis: figures of the points of a sweep.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace twofold::pictures {

inline constexpr int kPanelColors = 8;

struct PanelLine {
  std::vector<double> values;     // by position; values that are not finite are left out, and break the line
  std::vector<double> low, high;  // of each value, drawn as a bar; may be empty
};
struct PanelSeries {
  std::string name;
  int color = 0;        // 0 to kPanelColors - 1
  bool dashed = false;  // predictions are, beside measurements
};
struct Panel {
  std::string title;
  std::vector<PanelLine> lines;               // one for each series
  std::vector<double> ideal;                  // by position; drawn as a thin line; may be empty
  std::function<std::string(double)> format;  // of the values on the axis
};
struct Panels {
  std::string title, axis;         // axis: what the positions are
  std::vector<std::string> names;  // of the positions
  std::vector<double> positions;   // ascending
  std::vector<PanelSeries> series;
  std::string ideal, interval;     // what Panel::ideal and the bars from low to high are, for the legend
  std::vector<Panel> panels;       // those without any value are left out
  std::vector<std::string> notes;  // below the panels
};

// An SVG element without a style sheet; StandAlone (style.h) adds one. Vertical axes start at 0. Empty if no panel has
// a value.
std::string PanelsPicture(const Panels& panels);

}  // namespace twofold::pictures
