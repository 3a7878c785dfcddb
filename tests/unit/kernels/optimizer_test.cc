// Parameter updates and the scalars around them.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "tests/unit/kernels/lab.h"

namespace twofold {
namespace optimizer_test {

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

// Elements that do not decay, at places that pieces of 1024 cut: at both ends, single, adjacent, and over several
// pieces. Sometimes none.
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
  for (SgdVariant s :
       {SgdVariant{0, 0, false}, SgdVariant{0, 0.1, false}, SgdVariant{0.9, 0.1, false}, SgdVariant{0.8, 0, true}}) {
    ForEachCase("sgd", [&](Lab& lab, DType t, DType grad_type, int64_t n) {
      const Leading lead(lab, t, n);
      const Tensor grad = lab.Normal({n}, grad_type), momentum = s.momentum != 0 ? lab.Normal({n}, Wide(t)) : Tensor();
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
      lab.Run(ops::SgdStep{lead.param, grad, momentum, lead.master, 0.05, s.momentum, s.decay, s.nesterov, factor,
                           undecayed});
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
      const Tensor grad = lab.Normal({n}, grad_type), m = lab.Normal({n}, Wide(t), 0.1), v = lab.Positive({n}, Wide(t));
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
        w[i] -=
            lr * (mean[i] / (1 - std::pow(beta1, step))) / (std::sqrt(square[i] / (1 - std::pow(beta2, step))) + eps);
      }
      lab.Run(ops::AdamStep{lead.param, grad, m, v, lead.master, lr, beta1, beta2, eps, rate, decoupled, step, factor,
                            undecayed});
      std::vector<Expected> all = {{m, mean, 1, t}, {v, square, 4, t}};
      lead.Expect(w, t, all);
      return all;
    });
  }
}

// ---- Narrow parameters without a master ----

template <class F>
void ForNarrow(F run) {
  for (const DType t : {DType::kBF16, DType::kF16}) {
    for (const int64_t n : kSizes) run(t, n);
  }
}

TEST(WithoutMaster, TheNewValueIsRoundedToTheNearest) {
  ForNarrow([](DType t, int64_t n) {
    for (const bool adam : {false, true}) {
      Lab lab(1, 0);
      const Tensor param = lab.Normal({n}, t), grad = lab.Normal({n}, DType::kF32), m = lab.Normal({n}, DType::kF32),
                   v = lab.Positive({n}, DType::kF32);
      const Tensor master = lab.Of({n}, DType::kF32, ValuesOf(param)), image = lab.Copy(param), mean = lab.Copy(m),
                   square = lab.Copy(v);
      if (adam) {
        lab.Run(ops::AdamStep{.param = param, .grad = grad, .m = m, .v = v, .lr = 0.01, .weight_decay = 0.1});
        lab.Run(ops::AdamStep{
            .param = image, .grad = grad, .m = mean, .v = square, .master = master, .lr = 0.01, .weight_decay = 0.1});
      } else {
        lab.Run(ops::SgdStep{.param = param, .grad = grad, .momentum = m, .lr = 0.01, .momentum_factor = 0.9});
        lab.Run(ops::SgdStep{
            .param = image, .grad = grad, .momentum = mean, .master = master, .lr = 0.01, .momentum_factor = 0.9});
      }
      EXPECT_EQ(ValuesOf(param), ValuesOf(image)) << Name(t) << " " << n;
      EXPECT_EQ(ValuesOf(m), ValuesOf(mean));
    }
  });
}

ops::RoundingKeys OneKey(uint64_t seed, int64_t shift = 0) {
  return std::make_shared<const std::vector<ops::RoundingKeyRange>>(
      std::vector<ops::RoundingKeyRange>{{0, PhiloxKey{seed}, shift}});
}

// A step of 0 that leaves x = 1 (or others) - lr exact in f32: what comes out is one of the two neighbours, and the
// mean over many draws is what was asked for.
TEST(StochasticRounding, IsRightOnAverage) {
  constexpr int64_t kDraws = 40001;
  struct Case {
    DType type;
    double from, update, spacing;
  };  // spacing: of the type, where from - update is
  for (const Case& c : {Case{DType::kBF16, 1, 0x1p-12, 0x1p-8}, Case{DType::kBF16, -1, 0x1p-10, 0x1p-7},
                        Case{DType::kBF16, 3, -0x1.8p-9, 0x1p-6}, Case{DType::kF16, 1, 0x1p-13, 0x1p-11},
                        Case{DType::kF16, -2, -0x1.4p-12, 0x1p-10}, Case{DType::kF16, 0x1p-16, 0x1.8p-26, 0x1p-24},
                        Case{DType::kF16, 0, 0x1p-40, 0x1p-24}, Case{DType::kF16, 0, -0x1p-27, 0x1p-24}}) {
    Lab lab(1, 0);
    const Tensor param = lab.Of({kDraws}, c.type, Values(At(kDraws), c.from)),
                 grad = lab.Of({kDraws}, DType::kF32, Values(At(kDraws), c.update));
    lab.Run(ops::SgdStep{.param = param, .grad = grad, .lr = 1, .rounding_keys = OneKey(7), .step = 3});
    const double want = c.from - c.update, below = std::floor(want / c.spacing) * c.spacing, above = below + c.spacing;
    double sum = 0;
    for (const double x : ValuesOf(param)) {
      EXPECT_TRUE(x == below || x == above) << x << " for " << want;
      sum += x - want;
    }
    const double share = (want - below) / c.spacing, deviation = c.spacing * std::sqrt(share * (1 - share) / kDraws);
    EXPECT_NEAR(sum / kDraws, 0, 4 * deviation + 1e-300) << Name(c.type) << " " << want;
  }
}

TEST(StochasticRounding, KeepsWhatNeedsNoneAndWhatIsNoNumber) {
  const float inf = std::numeric_limits<float>::infinity();
  for (const uint32_t draw : {0u, 0x80000000u, 0xffffffffu}) {
    for (const float x : {0.0f, -0.0f, 1.0f, -1.5f, 0x1p-14f, -0x1p-24f, 61440.0f, inf, -inf}) {
      const auto bits = std::bit_cast<uint32_t>(x);
      EXPECT_EQ(ops::RoundedBF16(bits, draw), BF16(x).bits) << x;
      EXPECT_EQ(ops::RoundedF16(bits, draw), std::bit_cast<uint16_t>(F16(x))) << x;
    }
    for (const uint32_t nan : {0x7fc00000u, 0xff800001u, 0x7fffffffu}) {
      EXPECT_TRUE(std::isnan(static_cast<float>(std::bit_cast<BF16>(ops::RoundedBF16(nan, draw)))));
      EXPECT_TRUE(std::isnan(static_cast<float>(std::bit_cast<F16>(ops::RoundedF16(nan, draw)))));
    }
    EXPECT_EQ(ops::RoundedF16(std::bit_cast<uint32_t>(70000.0f), draw), std::bit_cast<uint16_t>(F16(inf)));
  }
}

// RoundingKeys go by the element's place in its parameter, whatever pieces it is updated in, and are others in the next
// step.
TEST(StochasticRounding, DoesNotDependOnThePieces) {
  constexpr int64_t kTotal = 5003;
  const std::vector<ops::RoundingKeyRange> ranges = {
      {0, PhiloxKey{1}, 40}, {1500, PhiloxKey{2}, -1500}, {1501, PhiloxKey{3}, 7}, {4100, PhiloxKey{4}, -4000}};
  for (const DType t : {DType::kBF16, DType::kF16}) {
    Lab lab(1, 0);
    const Tensor start = lab.Normal({kTotal}, t), grad = lab.Normal({kTotal}, DType::kF32),
                 m = lab.Normal({kTotal}, DType::kF32), v = lab.Positive({kTotal}, DType::kF32);
    const auto run = [&](const std::vector<int64_t>& cuts, int64_t step) {
      const Tensor param = lab.Copy(start), mean = lab.Copy(m), square = lab.Copy(v);
      for (size_t k = 0; k + 1 < cuts.size(); ++k) {
        const int64_t first = cuts[k], n = cuts[k + 1] - first;
        std::vector<ops::RoundingKeyRange> here;
        for (size_t r = 0; r < ranges.size(); ++r) {
          const int64_t end = r + 1 < ranges.size() ? ranges[r + 1].begin : kTotal;
          if (end <= first || ranges[r].begin >= first + n) continue;
          here.push_back({std::max<int64_t>(ranges[r].begin - first, 0), ranges[r].key, ranges[r].shift + first});
        }
        lab.Run(ops::AdamStep{.param = param.Slice(first, n),
                              .grad = grad.Slice(first, n),
                              .m = mean.Slice(first, n),
                              .v = square.Slice(first, n),
                              .lr = 0.01,
                              .step = step,
                              .rounding_keys = std::make_shared<const std::vector<ops::RoundingKeyRange>>(here)});
      }
      return ValuesOf(param);
    };
    const Values whole = run({0, kTotal}, 2);
    EXPECT_EQ(whole, run({0, 3, 1024, 1500, 1777, 4101, kTotal}, 2)) << Name(t);
    EXPECT_NE(whole, run({0, kTotal}, 3)) << Name(t);
  }
}

// One operation on a flat piece does what one for each of its parts does, bit for bit; so does a factor of 1.
TEST(Steps, OfAPieceAreThoseOfItsParts) {
  struct Part {
    int64_t begin, end;
    bool decays;
  };
  const std::vector<Part> parts = {{0, 5, false},      {5, 1500, true},    {1500, 1501, false}, {1501, 4100, false},
                                   {4100, 4103, true}, {4103, 6000, true}, {6000, 6001, false}};
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
        const Tensor param = lab.Copy(lead.param), master = lead.master.empty() ? Tensor() : lab.Copy(lead.master),
                     mean = lab.Copy(m), square = lab.Copy(v);
        for (const Part& p : pieces) {
          const auto of = [&](const Tensor& x) { return x.empty() ? x : x.Slice(p.begin, p.end - p.begin); };
          const double decay = p.decays ? 0.25 : 0;
          adam ? lab.Run(ops::AdamStep{.param = of(param),
                                       .grad = of(grad),
                                       .m = of(mean),
                                       .v = of(square),
                                       .master = of(master),
                                       .lr = 0.01,
                                       .weight_decay = decay,
                                       .step = 2,
                                       .factor = factor,
                                       .undecayed = except})
               : lab.Run(ops::SgdStep{.param = of(param),
                                      .grad = of(grad),
                                      .momentum = of(mean),
                                      .master = of(master),
                                      .lr = 0.01,
                                      .momentum_factor = 0.9,
                                      .weight_decay = decay,
                                      .factor = factor,
                                      .undecayed = except});
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
  const Tensor in = lab.device.NewTensor({n}, DType::kF32, Category::kOther), out = lab.Blank({1}, DType::kF32);
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

}  // namespace optimizer_test
}  // namespace twofold
