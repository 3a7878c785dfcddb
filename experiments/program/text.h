// Numbers and tables formatted for people.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/proto/report.pb.h"

namespace twofold {

std::string SecondsText(double seconds);  // "12.3 ms"; three significant digits
std::string CountText(int64_t count);     // "12,345,678"
std::string BytesText(int64_t bytes);     // "52.1 MiB"
std::string RateText(double per_second);  // "41,600"
std::string PercentText(double share);    // "+3.2 %"; "-" if infinite or not a number

// "loss 1.2345, accuracy 93.1 % after step 40"; with the perplexity for a language model.
std::string ValidationText(const report::Validation& validation);

// Columns padded to their widest cell: the first left-aligned, the others right-aligned, two spaces between. A row may
// be shorter than the first; an empty row is printed as an empty line.
std::string TableText(const std::vector<std::vector<std::string>>& rows);

}  // namespace twofold
