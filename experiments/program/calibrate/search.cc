#include "experiments/program/calibrate/search.h"

#include <algorithm>
#include <cmath>

namespace twofold::calibrate {

constexpr int kStirredRounds = 15;

double Search(std::vector<Constant>& constants, int rounds, const std::function<double()>& loss_of, double least_step) {
  for (Constant& c : constants) c.value = std::clamp(c.value, c.low, c.high), c.set(c.value);
  std::vector<double> steps(constants.size(), 0.1);
  double loss = loss_of();
  for (int round = 1; round <= rounds; ++round) {
    for (size_t i = 0; i < constants.size(); ++i) {
      Constant& c = constants[i];
      bool better = false;
      for (const double sign : {1.0, -1.0}) {
        const double tried = std::clamp(c.value * std::exp(sign * steps[i]), c.low, c.high);
        if (tried == c.value) continue;
        c.set(tried);
        if (const double other = loss_of(); other < loss) {
          loss = other, c.value = tried, better = true;
          break;
        }
        c.set(c.value);
      }
      steps[i] *= better ? 1.5 : 0.5;
      if (steps[i] < 1e-3 && round % kStirredRounds == 0) steps[i] = 0.05;
    }
    if (*std::max_element(steps.begin(), steps.end()) < least_step) break;
  }
  return loss;
}

uint64_t Fnv(std::string_view text) {
  uint64_t hash = 14695981039346656037ull;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 1099511628211ull;
  return hash;
}

double Rounded(double value) {
  if (value == 0) return 0;
  const double scale = std::pow(10.0, 3 - std::ceil(std::log10(std::abs(value))));
  return std::round(value * scale) / scale;
}

}  // namespace twofold::calibrate
