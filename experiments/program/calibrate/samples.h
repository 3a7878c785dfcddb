// Samples that a rank measured, and their serialized form.
#pragma once

#include <string>
#include <vector>

namespace twofold::calibrate {

// Rows of samples in seconds: one row per case, in the order of the cases.
using Samples = std::vector<std::vector<double>>;

std::string Pack(const Samples& samples);
Samples Unpack(const std::string& bytes);
void Append(Samples& to, const Samples& from);  // row by row

struct Spread {
  double median, low, high;  // 10th and 90th percentile
};
Spread SpreadOf(const std::vector<double>& samples);  // at least one sample
double Quantile(std::vector<double> samples, double share);

}  // namespace twofold::calibrate
