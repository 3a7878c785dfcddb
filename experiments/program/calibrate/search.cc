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

namespace {

constexpr double kDifference = 0.02;  // of a logarithm
constexpr double kFirstDamping = 1e-2, kMostDamping = 1e6;
constexpr double kLeastFall = 1e-4;  // of the sum, relative: less is none

using Matrix = std::vector<std::vector<double>>;

// x of a x = b, by Gauss's elimination; `a` is positive definite.
std::vector<double> Solved(Matrix a, std::vector<double> b) {
  const size_t n = b.size();
  for (size_t i = 0; i < n; ++i) {
    for (size_t r = i + 1; r < n; ++r) {
      const double factor = a[r][i] / a[i][i];
      for (size_t c = i; c < n; ++c) a[r][c] -= factor * a[i][c];
      b[r] -= factor * b[i];
    }
  }
  for (size_t i = n; i-- > 0;) {
    for (size_t c = i + 1; c < n; ++c) b[i] -= a[i][c] * b[c];
    b[i] /= a[i][i];
  }
  return b;
}

double SumOf(const std::vector<double>& residuals, double small) {
  double sum = 0;
  for (const double r : residuals) sum += std::hypot(r, small);
  return sum;
}

void Set(Constant& c, double value) {
  c.value = std::clamp(value, c.low, c.high);
  c.set(c.value);
}

// Derivatives of the residuals by the constants' logarithms: by constant.
Matrix Derivatives(std::vector<Constant>& constants, const std::vector<double>& here,
                   const std::function<std::vector<double>()>& residuals_of) {
  Matrix found;
  for (Constant& c : constants) {
    const double value = c.value;
    Set(c, value * std::exp(value < c.high ? kDifference : -kDifference));
    std::vector<double> there = residuals_of();
    const double step = std::log(c.value / value);
    for (size_t r = 0; r < there.size(); ++r) there[r] = (there[r] - here[r]) / step;
    found.push_back(std::move(there));
    Set(c, value);
  }
  return found;
}

}  // namespace

double FitResiduals(std::vector<Constant>& constants, int rounds,
                    const std::function<std::vector<double>()>& residuals_of, double small) {
  for (Constant& c : constants) Set(c, c.value);
  std::vector<double> residuals = residuals_of();
  double sum = SumOf(residuals, small), damping = kFirstDamping;
  const size_t n = constants.size();
  for (int round = 0; round < rounds; ++round) {
    const Matrix by = Derivatives(constants, residuals, residuals_of);
    Matrix normal(n, std::vector<double>(n));
    std::vector<double> down(n);
    for (size_t r = 0; r < residuals.size(); ++r) {
      const double weight = 1 / std::hypot(residuals[r], small);
      for (size_t i = 0; i < n; ++i) {
        down[i] -= weight * by[i][r] * residuals[r];
        for (size_t j = 0; j < n; ++j) normal[i][j] += weight * by[i][r] * by[j][r];
      }
    }
    const double before = sum;
    for (; damping < kMostDamping; damping *= 8) {
      Matrix damped = normal;
      for (size_t i = 0; i < n; ++i) damped[i][i] += damping * (normal[i][i] + small);
      const std::vector<double> step = Solved(damped, down);
      const std::vector<Constant> here = constants;
      for (size_t i = 0; i < n; ++i) Set(constants[i], constants[i].value * std::exp(std::clamp(step[i], -1.0, 1.0)));
      std::vector<double> there = residuals_of();
      if (const double moved = SumOf(there, small); moved < sum) {
        sum = moved, residuals = std::move(there), damping /= 8;
        break;
      }
      for (size_t i = 0; i < n; ++i) Set(constants[i], here[i].value);
    }
    if (before - sum < kLeastFall * before) break;
  }
  for (Constant& c : constants) c.set(c.value);
  return sum;
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
