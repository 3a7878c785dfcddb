// Parameter updates and the scalars around them.
#include <algorithm>
#include <cmath>
#include <limits>

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

// Elements that do not decay, at places that pieces of 1024 cut: at both ends, single, adjacent, and over several pieces.
// Sometimes none.
ops::ElementRanges Undecayed(Lab& lab, int64_t n) {
  std::uniform_int_distribution<int64_t> size(1, std::max<int64_t>(n / 7, 1));
  if (size(lab.rng) % 4 == 0) return nullptr;
  auto ranges = std::make_shared<std::vector<ops::ElementRange>>();
  int64_t at = size(lab.rng) % 2 == 0 ? 0 : size(lab.rng);
  while (at < n) {
    const int64_t end = std::min(n, at + size(lab.rng));
    ranges->push_back({at, end});
    at = end + (size(lab.rng) % 3 == 0 ? 0 : size(lab.rng));
  }
  return ranges;
}
std::vector<bool> Decaying(const ops::ElementRanges& undecayed, int64_t n) {
  std::vector<bool> decays(At(n), true);
  if (undecayed == nullptr) return decays;
  for (const ops::ElementRange& r : *undecayed) {
    for (int64_t i = r.begin; i < r.end; ++i) decays[At(i)] = false;
  }
  return decays;
}

// Empty half of the time.
Tensor SomeFactor(Lab& lab) {
  const double value = std::uniform_real_distribution<double>(-0.5, 0.5)(lab.rng);
  const DType type = value > 0.25 ? DType::kF64 : DType::kF32;
  return value > 0 ? lab.Of({1}, type, {value}) : Tensor();
}

TEST(Sgd, AgainstPlainLoops) {
  for (SgdVariant s : {SgdVariant{0, 0, false}, SgdVariant{0, 0.1, false}, SgdVariant{0.9, 0.1, false},
                       SgdVariant{0.8, 0, true}}) {
    ForEachCase("sgd", [&](Lab& lab, DType t, DType grad_type, int64_t n) {
      const Leading lead(lab, t, n);
      const Tensor grad = lab.Normal({n}, grad_type),
                   momentum = s.momentum != 0 ? lab.Normal({n}, Wide(t)) : Tensor();
      Values w = lead.values(), m = s.momentum != 0 ? ValuesOf(momentum) : Values(At(n));
      const Values g = ValuesOf(grad);
      const Tensor factor = SomeFactor(lab);
      const double by = factor.empty() ? 1 : ValuesOf(factor)[0];
      const ops::ElementRanges undecayed = Undecayed(lab, n);
      const std::vector<bool> decays = Decaying(undecayed, n);
      for (size_t i = 0; i < w.size(); ++i) {
        const double slope = by * g[i] + (decays[i] ? s.decay : 0) * w[i];
        m[i] = s.momentum * m[i] + slope;
        w[i] -= 0.05 * (s.nesterov ? slope + s.momentum * m[i] : m[i]);
      }
      lab.Run(ops::SgdStep{lead.param, grad, momentum, lead.master, 0.05, s.momentum, s.decay, s.nesterov, factor, undecayed});
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
      const double lr = 0.01, beta1 = 0.9, beta2 = 0.95, eps = 1e-8, rate = 0.1;
      const int64_t step = 3;
      const Tensor factor = SomeFactor(lab);
      const double by = factor.empty() ? 1 : ValuesOf(factor)[0];
      const ops::ElementRanges undecayed = Undecayed(lab, n);
      const std::vector<bool> decays = Decaying(undecayed, n);
      for (size_t i = 0; i < w.size(); ++i) {
        const double decay = decays[i] ? rate : 0;
        const double slope = by * g[i] + (decoupled ? 0 : decay * w[i]);
        mean[i] = beta1 * mean[i] + (1 - beta1) * slope;
        square[i] = beta2 * square[i] + (1 - beta2) * slope * slope;
        if (decoupled) w[i] -= lr * decay * w[i];
        w[i] -= lr * (mean[i] / (1 - std::pow(beta1, step))) /
                (std::sqrt(square[i] / (1 - std::pow(beta2, step))) + eps);
      }
      lab.Run(
          ops::AdamStep{lead.param, grad, m, v, lead.master, lr, beta1, beta2, eps, rate, decoupled, step, factor, undecayed});
      std::vector<Expected> all = {{m, mean, 1, t}, {v, square, 4, t}};
      lead.Expect(w, t, all);
      return all;
    });
  }
}

// One operation on a flat piece does what one for each of its parts does, bit for bit; so does a factor of 1.
TEST(Steps, OfAPieceAreThoseOfItsParts) {
  struct Part { int64_t begin, end; bool decays; };
  const std::vector<Part> parts = {{0, 5, false}, {5, 1500, true}, {1500, 1501, false}, {1501, 4100, false}, {4100, 4103, true},
                                   {4103, 6000, true}, {6000, 6001, false}};
  auto undecayed = std::make_shared<std::vector<ops::ElementRange>>();
  for (const Part& p : parts) {
    if (!p.decays) undecayed->push_back({p.begin, p.end});
  }
  for (DType t : kFloats) {
    for (const bool adam : {false, true}) {
      Lab lab(1, 0);
      const Leading lead(lab, t, 6001);
      const Tensor grad = lab.Normal({6001}, t), m = lab.Normal({6001}, Wide(t)), v = lab.Positive({6001}, Wide(t));
      const auto run = [&](const std::vector<Part>& pieces, const ops::ElementRanges& except, const Tensor& factor) {
        const Tensor param = lab.Copy(lead.param), master = lead.master.empty() ? Tensor() : lab.Copy(lead.master), mean = lab.Copy(m),
                     square = lab.Copy(v);
        for (const Part& p : pieces) {
          const auto of = [&](const Tensor& x) { return x.empty() ? x : x.Slice(p.begin, p.end - p.begin); };
          const double decay = p.decays ? 0.25 : 0;
          adam ? lab.Run(ops::AdamStep{.param = of(param), .grad = of(grad), .m = of(mean), .v = of(square), .master = of(master),
                                       .lr = 0.01, .weight_decay = decay, .step = 2, .factor = factor, .undecayed = except})
               : lab.Run(ops::SgdStep{.param = of(param), .grad = of(grad), .momentum = of(mean), .master = of(master), .lr = 0.01,
                                      .momentum_factor = 0.9, .weight_decay = decay, .factor = factor, .undecayed = except});
        }
        return BitsOf(param) + BitsOf(mean) + BitsOf(square);
      };
      const Tensor third = lab.Of({1}, DType::kF32, {1.0 / 3}), one = lab.Of({1}, DType::kF32, {1});
      const std::vector<Part> whole = {{0, 6001, true}};
      EXPECT_TRUE(run(whole, undecayed, third) == run(parts, nullptr, third)) << Name(t) << adam;
      EXPECT_TRUE(run(whole, undecayed, one) == run(parts, nullptr, Tensor())) << Name(t) << adam;
      EXPECT_FALSE(run(whole, nullptr, Tensor()) == run(whole, undecayed, Tensor())) << "decay shows";
      EXPECT_FALSE(run(whole, nullptr, third) == run(whole, nullptr, Tensor())) << "a factor shows";
    }
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
    // Gradients 8 times too large: of norm 4 in truth, clipped to 3; of norm 0.5, only divided by 8.
    lab.Run(ops::ClipFactor{lab.Of({1}, t, {1024}), out, 3, 0.125});
    EXPECT_NEAR(ValuesOf(out)[0], 0.125 * 3 / (4 + 1e-6), 1e-8);
    lab.Run(ops::ClipFactor{lab.Of({1}, t, {16}), out, 3, 0.125});
    EXPECT_EQ(ValuesOf(out)[0], 0.125);
    lab.Run(ops::ClipFactor{lab.Of({1}, t, {1e30}), out, std::numeric_limits<double>::infinity(), 0.125});
    EXPECT_EQ(ValuesOf(out)[0], 0.125);
    lab.Run(ops::ClipFactor{lab.Of({1}, t, {std::numeric_limits<double>::infinity()}), out, 3, 0.125});
    EXPECT_EQ(ValuesOf(out)[0], 0);
  }
}

}  // namespace
}  // namespace twofold
