// Numbers and tables formatted for people. "-" stands for what is infinite or not a number.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace twofold {

std::string SecondsText(double seconds);  // "12.3 ms", "4.56 µs"; three significant digits
std::string CountText(int64_t count);     // "12,345,678"
std::string BytesText(double bytes);      // "52.1 MiB"
std::string RateText(double per_second);  // "41,600"
std::string PercentText(double change);   // "+3.2 %"
std::string ShareText(double share);      // "12.3 %"
// "1 rank", "16,384 ranks", "2 switches", "4 micro-batches".
std::string Counted(int64_t n, std::string_view what);

// Columns padded to their widest cell: the first left-aligned, the others right-aligned, two spaces between. A row may
// be shorter than the first; an empty row is printed as an empty line.
std::string TableText(const std::vector<std::vector<std::string>>& rows);
// Padded with spaces on the left to `width` characters, not bytes: absl::StrFormat counts "µ" as two.
std::string RightAligned(std::string_view text, size_t width);

}  // namespace twofold
