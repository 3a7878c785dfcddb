// Gradients against central differences in f64.
#pragma once

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "gtest/gtest.h"
#include "tests/unit/nn/testing.h"

namespace twofold::nn {

inline constexpr double kStep = 1e-5, kTolerance = 1e-6;

// d loss / d values, one element at a time.
inline void ExpectGradient(const std::string& what, const Tensor& values, const std::vector<double>& gradient,
                           absl::FunctionRef<double()> loss) {
  double largest = 1e-3;
  for (double g : gradient) largest = std::max(largest, std::abs(g));
  double* x = values.data<double>();
  ASSERT_EQ(static_cast<int64_t>(gradient.size()), values.numel()) << what;
  for (int64_t i = 0; i < values.numel(); ++i) {
    const double kept = x[i];
    x[i] = kept + kStep;
    const double above = loss();
    x[i] = kept - kStep;
    const double below = loss();
    x[i] = kept;
    EXPECT_NEAR((above - below) / (2 * kStep), gradient[static_cast<size_t>(i)], kTolerance * largest)
        << what << ", element " << i;
  }
}

// The loss is <y, r> for a fixed random r.
inline void CheckModule(test::Cpu& cpu, Module& module, const Tensor& x) {
  if (module.path().empty() && module.children().empty())
    module.Finalize("layer");
  else
    module.Finalize();
  test::Materialize(cpu.ctx, module);
  test::Scatter(module);
  std::vector<double> r;
  Saved saved;
  auto loss = [&] {
    Saved scratch;
    const std::vector<double> y = test::Values(module.Forward(cpu.ctx, x, scratch));
    double sum = 0;
    for (size_t i = 0; i < y.size(); ++i) sum += y[i] * r[i];
    return sum;
  };

  Tensor y = module.Forward(cpu.ctx, x, saved);
  Tensor dy = test::Random(cpu, y.shape(), 99);
  r = test::Values(dy);
  const Tensor dx = module.Backward(cpu.ctx, dy, saved);
  EXPECT_EQ(test::Values(dy), r) << "a gradient that the caller still holds was written over";
  EXPECT_TRUE(saved.empty());

  for (Parameter* p : module.Parameters()) {
    EXPECT_TRUE(p->has_gradient()) << p->name();
    ExpectGradient(p->name(), p->data(), test::Values(p->gradient()), loss);
  }
  if (!dx.empty()) {
    EXPECT_EQ(dx.shape(), x.shape());
    ExpectGradient("input", x, test::Values(dx), loss);
  }
}

}  // namespace twofold::nn
