// Operations that do two things in one pass against the two operations: the same bits where what lies between is
// rounded as a tensor of its own would be, else one rounding less.
#include "tests/unit/kernels/lab.h"

namespace twofold {
namespace fused_test {

struct Size {
  int64_t rows, columns;
};
constexpr Size kSizes[] = {{1, 1}, {3, 7}, {17, 33}, {70, 300}, {3, 2049}};

template <class F>
void ForEachCase(const char* name, F run) {
  for (DType t : kFloats) {
    for (Size s : kSizes) {
      Verify(std::string(name) + " " + Name(t) + " " + std::to_string(s.rows) + "x" + std::to_string(s.columns),
             [&](Lab& lab) { return run(lab, t, s.rows, s.columns); });
      if (testing::Test::HasFatalFailure()) return;
    }
  }
}

// Where the sum goes: to memory of its own, over the branch, over x.
enum Place { kNew, kOverBranch, kOverX };
constexpr Place kPlaces[] = {kNew, kOverBranch, kOverX};

TEST(Fused, LayerNormOfASum) {
  for (const Place place : kPlaces) {
    ForEachCase("layer_norm_forward of a sum", [&](Lab& lab, DType t, int64_t rows, int64_t columns) {
      const Tensor x = lab.Normal({rows, columns}, t), branch = lab.Normal(x.shape(), t),
                   gamma = lab.Normal({columns}, t), beta = lab.Normal({columns}, t);
      const Tensor sum = lab.Blank(x.shape(), t), y = lab.Blank(x.shape(), t), mean = lab.Blank({rows}, Wide(t)),
                   rstd = lab.Blank({rows}, Wide(t));
      lab.Run(ops::Add{x, branch, sum});
      lab.Run(ops::LayerNormForward{sum, gamma, beta, y, mean, rstd, 0.01});
      const Tensor y2 = lab.Blank(x.shape(), t), mean2 = lab.Blank({rows}, Wide(t)), rstd2 = lab.Blank({rows}, Wide(t));
      const Tensor sum2 = place == kNew ? lab.Blank(x.shape(), t) : place == kOverBranch ? branch : x;
      lab.Run(ops::LayerNormForward{.x = x,
                                    .gamma = gamma,
                                    .beta = beta,
                                    .y = y2,
                                    .mean = mean2,
                                    .rstd = rstd2,
                                    .eps = 0.01,
                                    .branch = branch,
                                    .sum = sum2});
      EXPECT_EQ(BitsOf(sum2), BitsOf(sum));
      EXPECT_EQ(BitsOf(y2), BitsOf(y));
      EXPECT_EQ(BitsOf(mean2), BitsOf(mean));
      EXPECT_EQ(BitsOf(rstd2), BitsOf(rstd));
      return std::vector<Expected>{{y2, ValuesOf(y), 1, t}, {sum2, ValuesOf(sum), 1, t}};
    });
  }
}

TEST(Fused, RmsNormOfASum) {
  for (const Place place : kPlaces) {
    ForEachCase("rms_norm_forward of a sum", [&](Lab& lab, DType t, int64_t rows, int64_t columns) {
      const Tensor x = lab.Normal({rows, columns}, t), branch = lab.Normal(x.shape(), t),
                   gamma = lab.Normal({columns}, t);
      const Tensor sum = lab.Blank(x.shape(), t), y = lab.Blank(x.shape(), t), rstd = lab.Blank({rows}, Wide(t));
      lab.Run(ops::Add{x, branch, sum});
      lab.Run(ops::RmsNormForward{sum, gamma, y, rstd, 0.01});
      const Tensor y2 = lab.Blank(x.shape(), t), rstd2 = lab.Blank({rows}, Wide(t));
      const Tensor sum2 = place == kNew ? lab.Blank(x.shape(), t) : place == kOverBranch ? branch : x;
      lab.Run(ops::RmsNormForward{
          .x = x, .gamma = gamma, .y = y2, .rstd = rstd2, .eps = 0.01, .branch = branch, .sum = sum2});
      EXPECT_EQ(BitsOf(sum2), BitsOf(sum));
      EXPECT_EQ(BitsOf(y2), BitsOf(y));
      EXPECT_EQ(BitsOf(rstd2), BitsOf(rstd));
      return std::vector<Expected>{{y2, ValuesOf(y), 1, t}, {sum2, ValuesOf(sum), 1, t}};
    });
  }
}

// What a gradient and one that came past it must be in sum, unrounded; in f32 and f64 the bits are those of the sum of
// two tensors.
std::vector<Expected> ExpectSum(Lab& lab, const Tensor& dx, const Tensor& past_before, const Tensor& fused) {
  const DType t = dx.dtype();
  const Tensor sum = lab.Copy(dx);
  lab.Run(ops::AddTo{past_before, sum});
  if (t == Wide(t)) {
    EXPECT_EQ(BitsOf(fused), BitsOf(sum));
    return {{fused, ValuesOf(sum), 1, t}};
  }
  const Values a = ValuesOf(dx), b = ValuesOf(past_before);
  Values want;
  for (size_t i = 0; i < a.size(); ++i) want.push_back(a[i] + b[i]);
  const double half_ulp = t == DType::kBF16 ? 0x1p-8 : 0x1p-11;
  double rounding = 0;  // of dx, which the fused one has not: it moves the sum, and so what the sum is rounded by
  for (const double v : a) rounding = std::max(rounding, std::abs(v) * half_ulp * (1 + half_ulp));
  return {{fused, want, 1 + rounding / 4e-6, t}};
}

TEST(Fused, LayerNormsGradientPlusOneThatCamePast) {
  for (const bool over_past : {false, true}) {
    ForEachCase("layer_norm_backward plus", [&](Lab& lab, DType t, int64_t rows, int64_t columns) {
      const Tensor x = lab.Normal({rows, columns}, t), dy = lab.Normal(x.shape(), t), gamma = lab.Normal({columns}, t),
                   past = lab.Normal(x.shape(), t);
      const Tensor mean = lab.Normal({rows}, Wide(t), 0.1), rstd = lab.Positive({rows}, Wide(t)),
                   dx = lab.Blank(x.shape(), t), before = lab.Copy(past);
      lab.Run(ops::LayerNormBackward{dy, x, gamma, mean, rstd, dx});
      const Tensor fused = over_past ? past : lab.Blank(x.shape(), t);
      lab.Run(ops::LayerNormBackward{dy, x, gamma, mean, rstd, fused, past});
      return ExpectSum(lab, dx, before, fused);
    });
  }
}

TEST(Fused, RmsNormsGradientPlusOneThatCamePast) {
  for (const bool over_past : {false, true}) {
    ForEachCase("rms_norm_backward plus", [&](Lab& lab, DType t, int64_t rows, int64_t columns) {
      const Tensor x = lab.Normal({rows, columns}, t), dy = lab.Normal(x.shape(), t), gamma = lab.Normal({columns}, t),
                   past = lab.Normal(x.shape(), t);
      const Tensor rstd = lab.Positive({rows}, Wide(t)), dx = lab.Blank(x.shape(), t), before = lab.Copy(past);
      lab.Run(ops::RmsNormBackward{dy, x, gamma, rstd, dx});
      const Tensor fused = over_past ? past : lab.Blank(x.shape(), t);
      lab.Run(ops::RmsNormBackward{dy, x, gamma, rstd, fused, past});
      return ExpectSum(lab, dx, before, fused);
    });
  }
}

// Rows times columns of 12 in between.
struct Operands {
  Tensor a, b, bias;
};
Operands Random(Lab& lab, DType t, int64_t rows, int64_t columns, bool bias) {
  return {lab.Normal({rows, 12}, t), lab.Normal({columns, 12}, t), bias ? lab.Normal({columns}, t) : Tensor()};
}

TEST(Fused, ProductThenGelu) {
  for (const bool bias : {false, true}) {
    ForEachCase("matmul_gelu", [&](Lab& lab, DType t, int64_t rows, int64_t columns) {
      const Operands o = Random(lab, t, rows, columns, bias);
      const Tensor x = lab.Blank({rows, columns}, t), y = lab.Blank(x.shape(), t), x2 = lab.Blank(x.shape(), t),
                   y2 = lab.Blank(x.shape(), t);
      const ops::MatMul product{.a = o.a, .b = o.b, .out = x, .bias = o.bias, .transpose_b = true};
      lab.Run(product);
      lab.Run(ops::ActivationForward{ops::ActivationForward::kGelu, x, y});
      ops::MatMul fused = product;
      fused.out = y2, fused.aux = x2, fused.epilogue = ops::MatMul::kGelu;
      lab.Run(fused);
      EXPECT_EQ(BitsOf(x2), BitsOf(x));
      EXPECT_EQ(BitsOf(y2), BitsOf(y));
      return std::vector<Expected>{{y2, ValuesOf(y), 1, t}, {x2, ValuesOf(x), 1, t}};
    });
  }
}

TEST(Fused, GradientThroughAGeluAndWhatItIsTheInputOf) {
  ForEachCase("matmul_gelu_slope", [](Lab& lab, DType t, int64_t rows, int64_t columns) {
    const Operands o = Random(lab, t, rows, columns, false);
    const Tensor x = lab.Normal({rows, columns}, t, 2), dy = lab.Blank(x.shape(), t), dx = lab.Blank(x.shape(), t),
                 fused = lab.Blank(x.shape(), t);
    lab.Run(ops::MatMul{.a = o.a, .b = o.b, .out = dy, .transpose_b = true});
    lab.Run(ops::ActivationBackward{ops::ActivationForward::kGelu, x, dy, dx});
    lab.Run(ops::MatMul{
        .a = o.a, .b = o.b, .out = fused, .transpose_b = true, .epilogue = ops::MatMul::kGeluSlope, .aux = x});
    EXPECT_EQ(BitsOf(fused), BitsOf(dx));
    return std::vector<Expected>{{fused, ValuesOf(dx), 1, t}};
  });
}

}  // namespace fused_test
}  // namespace twofold
