#include <cmath>

#include "tests/unit/kernels/lab.h"

namespace twofold {
namespace elementwise_test {

constexpr int64_t kSizes[] = {1, 3, 7, 17, 129, 1025, 40001};

template <class F>
Values Apply(F f, const Values& a) {
  Values out;
  for (double x : a) out.push_back(f(x));
  return out;
}
template <class F>
Values Apply(F f, const Values& a, const Values& b) {
  Values out;
  for (size_t i = 0; i < a.size(); ++i) out.push_back(f(a[i], b[i]));
  return out;
}

double Gelu(double x) { return 0.5 * x * (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))); }
double GeluSlope(double x) {
  const double tanh = std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x));
  return 0.5 * (1 + tanh) + 0.5 * x * (1 - tanh * tanh) * std::sqrt(2 / M_PI) * (1 + 3 * 0.044715 * x * x);
}

void ForEachTypeAndSize(const std::string& name,
                        const std::function<std::vector<Expected>(Lab&, DType, int64_t)>& run) {
  for (DType t : kFloats) {
    for (int64_t n : kSizes) {
      Verify(name + " " + Name(t) + " " + std::to_string(n), [&](Lab& lab) { return run(lab, t, n); });
    }
  }
}

TEST(Elementwise, Fill) {
  for (DType t : {DType::kF64, DType::kF32, DType::kBF16, DType::kF16, DType::kI32, DType::kU8}) {
    for (double value : {0.0, 3.0, 7.0}) {
      Verify("fill " + Name(t), [&](Lab& lab) {
        const Tensor out = lab.Blank({17, 1000}, t);
        lab.Run(ops::Fill{out, value});
        EXPECT_THAT(ValuesOf(out), testing::Each(value));
        return std::vector<Expected>();
      });
    }
  }
}

TEST(Elementwise, CastRoundsOnceToNearest) {
  for (DType from : kFloats) {
    for (DType to : kFloats) {
      for (int64_t n : kSizes) {
        Verify("cast " + Name(from) + " to " + Name(to), [&](Lab& lab) {
          const Tensor in = lab.Normal({n}, from, 10), out = lab.Blank({n}, to);
          lab.Run(ops::Cast{in, out});
          return std::vector<Expected>{{out, ValuesOf(in), 0.0}};
        });
      }
    }
  }
}

TEST(Elementwise, CastBetweenIntegersAndFloats) {
  Lab lab(1, 0);
  const Values values = {0, 1, 2, 127, 200, 255};
  for (DType from : {DType::kI32, DType::kU8, DType::kF32, DType::kF64, DType::kF16, DType::kBF16}) {
    for (DType to : {DType::kI32, DType::kU8, DType::kF32, DType::kF64, DType::kF16, DType::kBF16}) {
      const Tensor out = lab.Blank({6}, to);
      lab.Run(ops::Cast{lab.Of({6}, from, values), out});
      EXPECT_EQ(ValuesOf(out), values) << Name(from) << " to " << Name(to);
    }
  }
}

TEST(Elementwise, CastKeepsInfinityNaNAndSubnormals) {
  Lab lab(1, 0);
  const double inf = std::numeric_limits<double>::infinity();
  for (DType to : {DType::kF32, DType::kBF16, DType::kF16}) {
    const Tensor out = lab.Blank({6}, to);
    lab.Run(ops::Cast{lab.Of({6}, DType::kF32, {inf, -inf, std::nan(""), 0x1p-24, -0.0, 1}), out});
    const Values got = ValuesOf(out);
    EXPECT_EQ(got[0], inf);
    EXPECT_EQ(got[1], -inf);
    EXPECT_TRUE(std::isnan(got[2]));
    EXPECT_EQ(got[3], 0x1p-24);
    EXPECT_TRUE(got[4] == 0 && std::signbit(got[4]));
  }
}

TEST(Elementwise, Add) {
  ForEachTypeAndSize("add", [](Lab& lab, DType t, int64_t n) {
    const Tensor a = lab.Normal({n}, t), b = lab.Normal({n}, t), out = lab.Blank({n}, t);
    const Values want = Apply(std::plus<double>(), ValuesOf(a), ValuesOf(b));
    lab.Run(ops::Add{a, b, out});
    lab.Run(ops::Add{a, b, a});
    return std::vector<Expected>{{out, want, 1, t}, {a, want, 1, t}};
  });
}

TEST(Elementwise, AddToAnyType) {
  for (DType in_type : kFloats) {
    ForEachTypeAndSize("add_to " + Name(in_type), [&](Lab& lab, DType t, int64_t n) {
      const Tensor in = lab.Normal({n}, in_type), out = lab.Normal({n}, t);
      const Values want = Apply(std::plus<double>(), ValuesOf(in), ValuesOf(out));
      lab.Run(ops::AddTo{in, out});
      return std::vector<Expected>{{out, want, 1, t}};
    });
  }
}

TEST(Elementwise, Scale) {
  ForEachTypeAndSize("scale", [](Lab& lab, DType t, int64_t n) {
    const Tensor x = lab.Normal({n}, t), y = lab.Copy(x), by = lab.Of({1}, Wide(t), {0.3});
    const double factor = 1.7, all = factor * ValuesOf(by)[0];
    const Values once = Apply([=](double v) { return v * factor; }, ValuesOf(x));
    const Values twice = Apply([=](double v) { return v * all; }, ValuesOf(x));
    lab.Run(ops::Scale{x, factor, Tensor()});
    lab.Run(ops::Scale{y, factor, by});
    return std::vector<Expected>{{x, once, 1, t}, {y, twice, 1, t}};
  });
}

TEST(Elementwise, Activations) {
  using ops::ActivationForward;
  struct Kind {
    ActivationForward::Kind kind;
    const char* name;
    double (*value)(double);
    double (*slope)(double);
  };
  const Kind kinds[] = {
      {ActivationForward::kRelu, "relu", [](double v) { return std::max(v, 0.0); },
       [](double v) { return v > 0 ? 1.0 : 0.0; }},
      {ActivationForward::kGelu, "gelu", [](double v) { return Gelu(v); }, [](double v) { return GeluSlope(v); }},
      {ActivationForward::kSquaredRelu, "squared relu", [](double v) { return v > 0 ? v * v : 0.0; },
       [](double v) { return v > 0 ? 2 * v : 0.0; }}};
  for (const auto& [kind, name, value, slope_at] : kinds) {
    ForEachTypeAndSize(name, [&, kind = kind, value = value, slope_at = slope_at](Lab& lab, DType t, int64_t n) {
      const Tensor x = lab.Normal({n}, t, 3), y = lab.Blank({n}, t), dy = lab.Normal({n}, t), dx = lab.Blank({n}, t);
      const Values want = Apply([&](double v) { return value(v); }, ValuesOf(x));
      const Values slope = Apply([&](double v, double d) { return d * slope_at(v); }, ValuesOf(x), ValuesOf(dy));
      lab.Run(ActivationForward{kind, x, y});
      lab.Run(ops::ActivationBackward{kind, x, dy, dx});
      lab.Run(ops::ActivationBackward{kind, x, dy, dy});  // in place
      return std::vector<Expected>{{y, want, 1, t}, {dx, slope, 4, t}, {dy, slope, 4, t}};
    });
  }
}

TEST(Elementwise, GeluOfLargeValuesIsFinite) {
  Lab lab(1, 0);
  const Tensor x = lab.Of({6}, DType::kF32, {-1000, 1000, -30, 30, -0x1p50, 0x1p50}), y = lab.Blank({6}, DType::kF32);
  lab.Run(ops::ActivationForward{ops::ActivationForward::kGelu, x, y});
  EXPECT_EQ(ValuesOf(y), (Values{0, 1000, 0, 30, 0, 0x1p50}));
  const Tensor dy = lab.Of({6}, DType::kF32, {1, 1, 1, 1, 1, 1});
  lab.Run(ops::ActivationBackward{ops::ActivationForward::kGelu, x, dy, dy});
  EXPECT_EQ(ValuesOf(dy), (Values{0, 1, 0, 1, 0, 1}));
}

}  // namespace elementwise_test
}  // namespace twofold
