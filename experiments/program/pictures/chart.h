// Small line charts: a value over steps.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace twofold::pictures {

struct Series {
  std::string name;
  std::vector<double> values;            // by step; values that are not finite are left out
  int color = 0;                         // 0 to 7
  double median = 0, low = 0, high = 0;  // drawn as a line and a band where median is above 0
};

// An SVG element. `format` formats the values on the axis; `from_zero` starts the axis at 0. Empty if no series has a
// value.
std::string Chart(const std::vector<Series>& series, const std::string& title, bool from_zero,
                  const std::function<std::string(double)>& format);

}  // namespace twofold::pictures
