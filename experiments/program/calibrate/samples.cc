#include "experiments/program/calibrate/samples.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/base/check.h"

namespace twofold::calibrate {

std::string Pack(const Samples& samples) {
  std::vector<double> flat;
  for (const std::vector<double>& row : samples) {
    flat.push_back(static_cast<double>(row.size()));
    flat.insert(flat.end(), row.begin(), row.end());
  }
  return std::string(reinterpret_cast<const char*>(flat.data()), flat.size() * sizeof(double));
}

Samples Unpack(const std::string& bytes) {
  std::vector<double> flat(bytes.size() / sizeof(double));
  if (!flat.empty()) std::memcpy(flat.data(), bytes.data(), flat.size() * sizeof(double));
  Samples samples;
  for (size_t i = 0; i < flat.size();) {
    const size_t n = static_cast<size_t>(flat[i]);
    TWOFOLD_CHECK_LE(i + 1 + n, flat.size());
    samples.emplace_back(flat.begin() + static_cast<std::ptrdiff_t>(i + 1),
                         flat.begin() + static_cast<std::ptrdiff_t>(i + 1 + n));
    i += 1 + n;
  }
  return samples;
}

void Append(Samples& to, const Samples& from) {
  if (to.size() < from.size()) to.resize(from.size());
  for (size_t i = 0; i < from.size(); ++i) to[i].insert(to[i].end(), from[i].begin(), from[i].end());
}

double Quantile(std::vector<double> samples, double share) {
  TWOFOLD_CHECK(!samples.empty(), "a quantile needs samples");
  std::sort(samples.begin(), samples.end());
  const double place = share * static_cast<double>(samples.size() - 1);
  const size_t below = static_cast<size_t>(place), above = std::min(below + 1, samples.size() - 1);
  return samples[below] + (place - std::floor(place)) * (samples[above] - samples[below]);
}

Spread SpreadOf(const std::vector<double>& samples) {
  return {Quantile(samples, 0.5), Quantile(samples, 0.1), Quantile(samples, 0.9)};
}

}  // namespace twofold::calibrate
