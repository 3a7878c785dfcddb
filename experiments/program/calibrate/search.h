// A search for constants that minimise a loss: one constant at a time, by a factor, for as long as the loss falls.
#pragma once

#include <cstdint>
#include <functional>
#include <string_view>
#include <vector>

namespace twofold::calibrate {

struct Constant {
  std::function<void(double)> set;
  double value, low, high;  // greater than 0
};

// Changes `constants` in turn for so many rounds, in rising and falling steps, and leaves them set to the best that was
// found. Steps are stirred from time to time. Ends before if no step is above `least_step` (a share of the value).
// Returns the loss. The same input gives the same result.
double Search(std::vector<Constant>& constants, int rounds, const std::function<double()>& loss_of,
              double least_step = 0);

// Moves `constants` to where the sum of hypot(residual, small) is least, and leaves them set: residuals much larger
// than `small` count by their size, smaller ones by their squares. Damped least squares in the logarithms of the
// constants (Marquardt 1963), reweighted by residual, with derivatives from differences. For residuals that follow
// smoothly from constants which can stand for each other, where Search creeps. Returns the sum.
double FitResiduals(std::vector<Constant>& constants, int rounds,
                    const std::function<std::vector<double>()>& residuals_of, double small);

// 64 bits of FNV-1a. What a fit leaves out is chosen by it, so that it is the same every time.
uint64_t Fnv(std::string_view text);

// Three digits: more would not change a prediction, and files stay readable.
double Rounded(double value);

}  // namespace twofold::calibrate
