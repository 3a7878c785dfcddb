#include "tests/unit/kernels/lab.h"

namespace twofold {
namespace matmul_test {

struct Options {
  int64_t m, n, k;
  DType type, out_type;
  bool transpose_a, transpose_b, accumulate, bias;
};

Values Multiply(const Options& o, const Values& a, const Values& b, const Values& bias, const Values& old) {
  Values out(At(o.m * o.n));
  for (int64_t i = 0; i < o.m; ++i) {
    for (int64_t j = 0; j < o.n; ++j) {
      double sum = (o.bias ? bias[At(j)] : 0) + (o.accumulate ? old[At(i * o.n + j)] : 0);
      for (int64_t l = 0; l < o.k; ++l) {
        sum += a[At(o.transpose_a ? l * o.m + i : i * o.k + l)] * b[At(o.transpose_b ? j * o.k + l : l * o.n + j)];
      }
      out[At(i * o.n + j)] = sum;
    }
  }
  return out;
}

std::vector<Expected> Check(Lab& lab, const Options& o) {
  const Tensor a = lab.Normal(o.transpose_a ? Shape{o.k, o.m} : Shape{o.m, o.k}, o.type);
  const Tensor b = lab.Normal(o.transpose_b ? Shape{o.n, o.k} : Shape{o.k, o.n}, o.type);
  const Tensor bias = o.bias ? lab.Normal({o.n}, o.type) : Tensor();
  const Tensor out = lab.Output({o.m, o.n}, o.out_type, o.accumulate);
  const Values want = Multiply(o, ValuesOf(a), ValuesOf(b), o.bias ? ValuesOf(bias) : Values(), ValuesOf(out));
  lab.Run(ops::MatMul{a, b, out, bias, o.transpose_a, o.transpose_b, o.accumulate});
  // A product in f64 may be stored in a narrower type, and one in f32 in a wider.
  return {{out, want, 2 + static_cast<double>(o.k) / 4, o.type}};
}

TEST(MatMul, AgainstPlainLoops) {
  const int64_t sizes[][3] = {{1, 1, 1}, {3, 7, 5}, {17, 33, 129}, {1, 65, 33}, {129, 1, 17}, {64, 64, 64}};
  for (DType type : kFloats) {
    for (DType out_type : kFloats) {
      for (const auto& [m, n, k] : sizes) {
        for (int bits = 0; bits < 16; ++bits) {
          const Options o{m, n, k, type, out_type, (bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0, (bits & 8) != 0};
          Verify("matmul " + Name(type) + " to " + Name(out_type) + " " + std::to_string(m) + "x" + std::to_string(n) +
                     "x" + std::to_string(k) + " variant " + std::to_string(bits),
                 [&](Lab& lab) { return Check(lab, o); });
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

// Enough work for three threads, and more than one block deep.
TEST(MatMul, DividedAmongThreads) {
  for (DType type : {DType::kF64, DType::kF32, DType::kBF16}) {
    for (int bits = 0; bits < 4; ++bits) {
      const Options o{100, 97, 260, type, type, (bits & 1) != 0, (bits & 2) != 0, true, true};
      Verify("matmul " + Name(type) + " variant " + std::to_string(bits), [&](Lab& lab) { return Check(lab, o); });
      if (HasFatalFailure()) return;
    }
  }
}

// Each element is summed in the order of k, wherever its tile lies.
TEST(MatMul, ThreadsDoNotShow) {
  std::string first;
  for (const int threads : {1, 2, 3, 5}) {
    Lab lab(threads, 0);
    lab.rng.seed(17);
    const Tensor a = lab.Normal({150, 300}, DType::kF32), b = lab.Normal({130, 300}, DType::kF32);
    const Tensor bias = lab.Normal({130}, DType::kF32), out = lab.Normal({150, 130}, DType::kF32);
    lab.Run(ops::MatMul{.a = a, .b = b, .out = out, .bias = bias, .transpose_b = true, .accumulate = true});
    if (first.empty()) first = BitsOf(out);
    EXPECT_TRUE(BitsOf(out) == first) << threads << " threads";
  }
}

TEST(MatMul, NothingToSumGivesZeroBiasOrWhatWasThere) {
  Lab lab(1, 0);
  const Tensor a = lab.Blank({2, 0}, DType::kF32), b = lab.Blank({0, 2}, DType::kF32);
  const Tensor bias = lab.Of({2}, DType::kF32, {1, 2}), out = lab.Blank({2, 2}, DType::kF32);
  lab.Run(ops::MatMul{a, b, out, Tensor()});
  EXPECT_EQ(ValuesOf(out), (Values{0, 0, 0, 0}));
  lab.Run(ops::MatMul{.a = a, .b = b, .out = out, .bias = bias, .accumulate = true});
  lab.Run(ops::MatMul{.a = a, .b = b, .out = out, .bias = bias, .accumulate = true});
  EXPECT_EQ(ValuesOf(out), (Values{2, 4, 2, 4}));
}

}  // namespace matmul_test
}  // namespace twofold
