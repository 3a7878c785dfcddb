// Large numbers in words, coordinates, and text escaped for HTML and SVG.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace twofold::pictures {

std::string Escape(std::string_view text);  // & < > " '
std::string Number(double value);           // "12.3 million", "1,234"

// A coordinate, to a hundredth of a pixel, as short as possible.
std::string Px(double x);

// Round numbers from 0 (or `low`) to `high`, about `count` of them.
std::vector<double> Ticks(double low, double high, int count);

}  // namespace twofold::pictures
