// Parameter updates and the scalars around them.
#include <cmath>

#include "tests/unit/kernels/lab.h"

namespace twofold {
namespace {

constexpr int64_t kSizes[] = {1, 3, 17, 129, 1025, 40001};
bool Narrow(DType t) { return t == DType::kBF16 || t == DType::kF16; }

template <class F>
void ForEachCase(const std::string& name, F run) {
  for (DType t : kFloats) {
    for (DType grad : kFloats) {
      for (int64_t n : kSizes) {
        Verify(name + " " + Name(t) + ", gradient " + Name(grad) + " " + std::to_string(n),
               [&](Lab& lab) { return run(lab, t, grad, n); });
        if (testing::Test::HasFatalFailure()) return;
      }
    }
  }
}

// A parameter and its master copy, whose values lead.
struct Leading {
  Tensor param, master;
  Leading(Lab& lab, DType t, int64_t n)
      : param(lab.Normal({n}, t)), master(Narrow(t) ? lab.Normal({n}, DType::kF32) : Tensor()) {}
  Values values() const { return ValuesOf(master.empty() ? param : master); }
  void Expect(const Values& want, DType t, std::vector<Expected>& all) const {
    all.push_back({param, want, 1, t});
    if (!master.empty()) all.push_back({master, want, 1, t});
  }
};

struct SgdVariant {
  double momentum, decay;
  bool nesterov;
};

TEST(Sgd, AgainstPlainLoops) {
  for (SgdVariant s : {SgdVariant{0, 0, false}, SgdVariant{0, 0.1, false}, SgdVariant{0.9, 0.1, false},
                       SgdVariant{0.8, 0, true}}) {
    ForEachCase("sgd", [&](Lab& lab, DType t, DType grad_type, int64_t n) {
      const Leading lead(lab, t, n);
      const Tensor grad = lab.Normal({n}, grad_type),
                   momentum = s.momentum != 0 ? lab.Normal({n}, Wide(t)) : Tensor();
      Values w = lead.values(), m = s.momentum != 0 ? ValuesOf(momentum) : Values(At(n));
      const Values g = ValuesOf(grad);
      for (size_t i = 0; i < w.size(); ++i) {
        const double slope = g[i] + s.decay * w[i];
        m[i] = s.momentum * m[i] + slope;
        w[i] -= 0.05 * (s.nesterov ? slope + s.momentum * m[i] : m[i]);
      }
      lab.Run(ops::SgdStep{lead.param, grad, momentum, lead.master, 0.05, s.momentum, s.decay, s.nesterov});
      std::vector<Expected> all;
      lead.Expect(w, t, all);
      if (s.momentum != 0) all.push_back({momentum, m, 1, t});
      return all;
    });
  }
}

TEST(Adam, AgainstPlainLoops) {
  for (bool decoupled : {true, false}) {
    ForEachCase("adam", [&](Lab& lab, DType t, DType grad_type, int64_t n) {
      const Leading lead(lab, t, n);
      const Tensor grad = lab.Normal({n}, grad_type), m = lab.Normal({n}, Wide(t), 0.1),
                   v = lab.Positive({n}, Wide(t));
      Values w = lead.values(), mean = ValuesOf(m), square = ValuesOf(v);
      const Values g = ValuesOf(grad);
      const double lr = 0.01, beta1 = 0.9, beta2 = 0.95, eps = 1e-8, decay = 0.1;
      const int64_t step = 3;
      for (size_t i = 0; i < w.size(); ++i) {
        const double slope = g[i] + (decoupled ? 0 : decay * w[i]);
        mean[i] = beta1 * mean[i] + (1 - beta1) * slope;
        square[i] = beta2 * square[i] + (1 - beta2) * slope * slope;
        if (decoupled) w[i] -= lr * decay * w[i];
        w[i] -= lr * (mean[i] / (1 - std::pow(beta1, step))) /
                (std::sqrt(square[i] / (1 - std::pow(beta2, step))) + eps);
      }
      lab.Run(
          ops::AdamStep{lead.param, grad, m, v, lead.master, lr, beta1, beta2, eps, decay, decoupled, step});
      std::vector<Expected> all = {{m, mean, 1, t}, {v, square, 4, t}};
      lead.Expect(w, t, all);
      return all;
    });
  }
}

TEST(Scalars, SumAndSquaredNorm) {
  for (DType t : kFloats) {
    for (int64_t n : kSizes) {
      for (bool accumulate : {false, true}) {
        Verify("sum " + Name(t) + " " + std::to_string(n), [&](Lab& lab) {
          const Tensor in = lab.Normal({n}, t), sum = lab.Output({1}, Wide(t), accumulate);
          const Tensor norm = lab.Output({1}, Wide(t), accumulate);
          // In long double: f64 added one by one would err by more than the kernel.
          long double sum_exact = accumulate ? ValuesOf(sum)[0] : 0, norm_exact = accumulate ? ValuesOf(norm)[0] : 0;
          for (long double x : ValuesOf(in)) sum_exact += x / 4, norm_exact += x * x;
          const auto sum_want = static_cast<double>(sum_exact), norm_want = static_cast<double>(norm_exact);
          lab.Run(ops::Sum{in, sum, 0.25, accumulate});
          lab.Run(ops::SquaredNorm{in, norm, accumulate});
          return std::vector<Expected>{{sum, {sum_want}, 1 + std::sqrt(static_cast<double>(n)) / 10, t},
                                       {norm, {norm_want}, 1 + static_cast<double>(n) / 10, t}};
        });
      }
    }
  }
}

TEST(Scalars, SumOfManyEqualTermsIsAccurate) {  // adding one by one in f32 stops at 2^24
  Lab lab(1, 0);
  const int64_t n = 20'000'001;
  const Tensor in = lab.device.NewTensor({n}, DType::kF32, Category::kOther),
               out = lab.Blank({1}, DType::kF32);
  lab.Run(ops::Fill{in, 1});
  lab.Run(ops::Sum{in, out});
  EXPECT_EQ(ValuesOf(out)[0], static_cast<double>(static_cast<float>(n)));
}

TEST(Scalars, ClipFactor) {
  for (DType t : {DType::kF32, DType::kF64}) {
    Lab lab(1, 0);
    const Tensor out = lab.Blank({1}, t);
    lab.Run(ops::ClipFactor{lab.Of({1}, t, {16}), out, 1});
    EXPECT_NEAR(ValuesOf(out)[0], 1 / (4 + 1e-6), 1e-7);
    lab.Run(ops::ClipFactor{lab.Of({1}, t, {0.01}), out, 1});
    EXPECT_EQ(ValuesOf(out)[0], 1);
    lab.Run(ops::ClipFactor{lab.Of({1}, t, {0}), out, 1});
    EXPECT_EQ(ValuesOf(out)[0], 1);
    lab.Run(ops::ClipFactor{lab.Of({1}, t, {std::nan("")}), out, 1});
    EXPECT_TRUE(std::isnan(ValuesOf(out)[0]));
  }
}

}  // namespace
}  // namespace twofold
