// Products of many matrices, the softmax between them, and dropout whose mask is kept.
#include <cmath>

#include "core/base/philox.h"
#include "tests/unit/kernels/lab.h"

namespace twofold {
namespace unfused_attention_test {

constexpr PhiloxKey kKey = MakeKey(7, "test");

// Element (row, column) of matrix (b, h) of an operand.
size_t Element(const ops::Matrices& m, int64_t b, int64_t h, int64_t row, int64_t column) {
  return At(m.first + b * m.batch + h / m.group * m.head + row * m.stride + column);
}

// Heads side by side in [b, rows, heads / group * columns + 3], the first one element in.
ops::Matrices Operand(Lab& lab, DType t, int64_t batches, int64_t heads, int64_t group, int64_t rows, int64_t columns) {
  const int64_t row = heads / group * columns + 3;
  return {lab.Normal({batches, rows, row}, t), row, rows * row, columns, 1, group};
}

TEST(BatchedMatMul, AgainstPlainLoops) {
  struct Case {
    int64_t batches, heads, m, n, k, group_b, group_out;
  };
  for (DType type : kFloats) {
    for (int transposes = 0; transposes < 4; ++transposes) {
      for (const Case& c : {Case{1, 1, 1, 1, 1, 1, 1}, Case{2, 4, 7, 5, 3, 2, 1}, Case{1, 6, 17, 9, 33, 1, 3},
                            Case{1, 2, 70, 65, 130, 2, 2} /* two tiles */}) {
        Verify("batched_matmul " + Name(type) + " " + std::to_string(transposes), [&](Lab& lab) {
          const bool ta = (transposes & 1) != 0, tb = (transposes & 2) != 0;
          const double alpha = 0.5;
          ops::BatchedMatMul o{.batches = c.batches,
                               .heads = c.heads,
                               .m = c.m,
                               .n = c.n,
                               .k = c.k,
                               .transpose_a = ta,
                               .transpose_b = tb,
                               .alpha = alpha};
          o.a = Operand(lab, type, c.batches, c.heads, 1, ta ? c.k : c.m, ta ? c.m : c.k);
          o.b = Operand(lab, type, c.batches, c.heads, c.group_b, tb ? c.n : c.k, tb ? c.k : c.n);
          o.out = Operand(lab, type, c.batches, c.heads, c.group_out, c.m, c.n);
          const Values a = ValuesOf(o.a.tensor), b = ValuesOf(o.b.tensor);
          Values want = ValuesOf(o.out.tensor);  // what lies between the matrices stays
          for (int64_t batch = 0; batch < c.batches; ++batch) {
            for (int64_t h = 0; h < c.heads; ++h) {
              for (int64_t i = 0; i < c.m; ++i) {
                for (int64_t j = 0; j < c.n; ++j) {
                  double sum = 0;
                  for (int64_t l = 0; l < c.k; ++l)
                    sum += a[Element(o.a, batch, h, ta ? l : i, ta ? i : l)] *
                           b[Element(o.b, batch, h, tb ? j : l, tb ? l : j)];
                  double& to = want[Element(o.out, batch, h, i, j)];
                  to = (h % c.group_out == 0 ? 0 : to) + alpha * sum;
                }
              }
            }
          }
          lab.Run(o);
          return std::vector<Expected>{{o.out.tensor, want, 10 + std::sqrt(static_cast<double>(c.k)), type}};
        });
        if (HasFatalFailure()) return;
      }
    }
  }
}

// Gradients of weights: into a type of their own, added to what is there, each sum rounded once.
TEST(BatchedMatMul, AddsToAnotherType) {
  for (DType type : kFloats) {
    for (DType out_type : kFloats) {
      for (const bool accumulate : {false, true}) {
        for (const int64_t group : {1, 3}) {
          if (type == DType::kF64 && out_type != DType::kF64) continue;
          Verify("batched_matmul " + Name(type) + " to " + Name(out_type), [&](Lab& lab) {
            constexpr int64_t kBatches = 2, kHeads = 3, kM = 9, kN = 33, kK = 5;
            ops::BatchedMatMul o{.batches = kBatches,
                                 .heads = kHeads,
                                 .m = kM,
                                 .n = kN,
                                 .k = kK,
                                 .transpose_a = true,
                                 .accumulate = accumulate,
                                 .alpha = 0.25};
            o.a = Operand(lab, type, kBatches, kHeads, 1, kK, kM);
            o.b = Operand(lab, type, kBatches, kHeads, 1, kK, kN);
            o.out = Operand(lab, out_type, kBatches, kHeads, group, kM, kN);
            const Values a = ValuesOf(o.a.tensor), b = ValuesOf(o.b.tensor);
            Values want = ValuesOf(o.out.tensor);
            for (int64_t batch = 0; batch < kBatches; ++batch) {
              for (int64_t h = 0; h < kHeads; ++h) {
                for (int64_t i = 0; i < kM; ++i) {
                  for (int64_t j = 0; j < kN; ++j) {
                    double sum = 0;
                    for (int64_t l = 0; l < kK; ++l)
                      sum += a[Element(o.a, batch, h, l, i)] * b[Element(o.b, batch, h, l, j)];
                    double& to = want[Element(o.out, batch, h, i, j)];
                    to = (h % group == 0 && !accumulate ? 0 : to) + 0.25 * sum;
                  }
                }
              }
            }
            lab.Run(o);
            return std::vector<Expected>{{o.out.tensor, want, 10, type}};
          });
          if (HasFatalFailure()) return;
        }
      }
    }
  }
}

TEST(Softmax, ForwardAndBackward) {
  for (DType type : kFloats) {
    for (bool causal : {true, false}) {
      for (int64_t t : {1, 3, 33, 130, 1100}) {
        if (t > 1000 && type != DType::kF32) continue;  // a row of two pieces; slow
        Verify("softmax " + Name(type) + " " + std::to_string(t) + (causal ? " causal" : ""), [&](Lab& lab) {
          const Shape shape{t > 200 ? 1 : 2, t > 200 ? 1 : 3, t, t};
          const Tensor x = lab.Normal(shape, type, 3), y = lab.Blank(shape, type), in_place = lab.Copy(x);
          const Values v = ValuesOf(x);
          Values want(v.size());
          for (int64_t row = 0; row < x.numel() / t; ++row) {
            const int64_t visible = causal ? row % t + 1 : t;
            double sum = 0;
            for (int64_t j = 0; j < visible; ++j) sum += std::exp(v[At(row * t + j)]);
            for (int64_t j = 0; j < visible; ++j) want[At(row * t + j)] = std::exp(v[At(row * t + j)]) / sum;
          }
          lab.Run(ops::SoftmaxForward{x, y, causal});
          lab.Run(ops::SoftmaxForward{in_place, in_place, causal});
          const Tensor saved = lab.Of(shape, type, want), dy = lab.Normal(shape, type), dx = lab.Blank(shape, type);
          const Values p = ValuesOf(saved), d = ValuesOf(dy);
          Values dwant(v.size());
          for (int64_t row = 0; row < x.numel() / t; ++row) {
            double delta = 0;
            for (int64_t j = 0; j < t; ++j) delta += p[At(row * t + j)] * d[At(row * t + j)];
            for (int64_t j = 0; j < t; ++j) dwant[At(row * t + j)] = p[At(row * t + j)] * (d[At(row * t + j)] - delta);
          }
          lab.Run(ops::SoftmaxBackward{saved, dy, dx});
          lab.Run(ops::SoftmaxBackward{saved, dy, dy});
          return std::vector<Expected>{
              {y, want, 1, type}, {in_place, want, 1, type}, {dx, dwant, 4, type}, {dy, dwant, 4, type}};
        });
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(Softmax, LargeScoresDoNotOverflow) {
  Lab lab(1, 0);
  const Tensor x = lab.Of({2, 2}, DType::kF32, {1e4, 1e4, -1e4, 1e4});
  lab.Run(ops::SoftmaxForward{x, x});
  EXPECT_EQ(ValuesOf(x), (Values{1, 0, 0, 1}));
}

TEST(MaskedDropout, IsDropoutWithItsMaskKept) {
  for (DType t : kFloats) {
    for (double p : {0.0, 0.1, 0.5}) {
      for (int64_t n : {1, 17, 1025, 40001}) {
        Verify("masked_dropout " + Name(t) + " " + std::to_string(n), [&](Lab& lab) {
          const Tensor x = lab.Normal({n}, t), y = lab.Blank({n}, t), plain = lab.Blank({n}, t);
          const Tensor mask = lab.Blank({n}, DType::kU8), dx = lab.Blank({n}, t), in_place = lab.Copy(x);
          lab.Run(ops::MaskedDropoutForward{x, y, mask, p, kKey});
          lab.Run(ops::Dropout{x, plain, p, kKey});
          lab.Run(ops::MaskedDropoutBackward{x, mask, dx, p});
          lab.Run(ops::MaskedDropoutBackward{in_place, mask, in_place, p});
          EXPECT_EQ(BitsOf(y), BitsOf(plain));
          EXPECT_EQ(BitsOf(dx), BitsOf(plain));
          EXPECT_EQ(BitsOf(in_place), BitsOf(plain));
          const Values kept = ValuesOf(mask);
          for (int64_t i = 0; i < n; ++i) {
            if (kept[At(i)] != (UniformAt(kKey, static_cast<uint64_t>(i)) >= static_cast<float>(p) ? 1 : 0))
              ADD_FAILURE() << i;
          }
          return std::vector<Expected>();
        });
      }
    }
  }
}

}  // namespace unfused_attention_test
}  // namespace twofold
