// Numbers formatted for people, and text escaped for HTML and SVG.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace twofold::pictures {

std::string Escape(std::string_view text);  // & < > " '
std::string Duration(double seconds);       // "12.3 ms", "950 ns", "2.05 s", "-" where not finite
std::string Size(double bytes);             // "12.3 MiB"
std::string Number(double value);           // "12.3 million", "1,234"
std::string Share(double share);            // "12.3 %"
std::string Change(double from, double to); // "+12.3 %", "-" where from is 0

// A coordinate, to a hundredth of a pixel, as short as possible.
std::string Px(double x);

// Round numbers from 0 (or `low`) to `high`, about `count` of them.
std::vector<double> Ticks(double low, double high, int count);

}  // namespace twofold::pictures
