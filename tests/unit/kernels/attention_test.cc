#include <cmath>

#include "tests/unit/kernels/lab.h"

namespace twofold {
namespace attention_test {

struct Problem {
  int64_t batch, t, heads, kv_heads, dim;
  bool causal;
  DType type;
  int64_t stride() const { return (heads + 2 * kv_heads) * dim; }
  int64_t kv(int64_t head) const { return head / (heads / kv_heads); }
  // Positions in qkv.
  size_t q(int64_t b, int64_t i, int64_t head, int64_t d) const { return At((b * t + i) * stride() + head * dim + d); }
  size_t k(int64_t b, int64_t i, int64_t head, int64_t d) const { return q(b, i, heads + kv(head), d); }
  size_t v(int64_t b, int64_t i, int64_t head, int64_t d) const { return q(b, i, heads + kv_heads + kv(head), d); }
  size_t out(int64_t b, int64_t i, int64_t head, int64_t d) const { return At(((b * t + i) * heads + head) * dim + d); }
  size_t lse(int64_t b, int64_t i, int64_t head) const { return At((b * heads + head) * t + i); }
  int64_t keys(int64_t i) const { return causal ? i + 1 : t; }

  template <class F>
  void ForEachQuery(F f) const {
    for (int64_t b = 0; b < batch; ++b)
      for (int64_t head = 0; head < heads; ++head)
        for (int64_t i = 0; i < t; ++i) f(b, head, i);
  }
  double Score(const Values& qkv, int64_t b, int64_t head, int64_t i, int64_t j) const {
    double sum = 0;
    for (int64_t d = 0; d < dim; ++d) sum += qkv[q(b, i, head, d)] * qkv[k(b, j, head, d)];
    return sum / std::sqrt(static_cast<double>(dim));
  }
};

void Forward(const Problem& p, const Values& qkv, Values& out, Values& lse) {
  out.assign(At(p.batch * p.t * p.heads * p.dim), 0);
  lse.assign(At(p.batch * p.heads * p.t), 0);
  p.ForEachQuery([&](int64_t b, int64_t head, int64_t i) {
    Values weight;
    double sum = 0;
    for (int64_t j = 0; j < p.keys(i); ++j) weight.push_back(std::exp(p.Score(qkv, b, head, i, j)));
    for (double w : weight) sum += w;
    lse[p.lse(b, i, head)] = std::log(sum);
    for (int64_t j = 0; j < p.keys(i); ++j) {
      for (int64_t d = 0; d < p.dim; ++d) out[p.out(b, i, head, d)] += weight[At(j)] / sum * qkv[p.v(b, j, head, d)];
    }
  });
}

Values Backward(const Problem& p, const Values& qkv, const Values& out, const Values& lse, const Values& dout) {
  Values dqkv(qkv.size());
  const double scale = 1 / std::sqrt(static_cast<double>(p.dim));
  p.ForEachQuery([&](int64_t b, int64_t head, int64_t i) {
    double delta = 0;
    for (int64_t d = 0; d < p.dim; ++d) delta += out[p.out(b, i, head, d)] * dout[p.out(b, i, head, d)];
    for (int64_t j = 0; j < p.keys(i); ++j) {
      const double weight = std::exp(p.Score(qkv, b, head, i, j) - lse[p.lse(b, i, head)]);
      double dweight = 0;
      for (int64_t d = 0; d < p.dim; ++d) {
        dweight += dout[p.out(b, i, head, d)] * qkv[p.v(b, j, head, d)];
        dqkv[p.v(b, j, head, d)] += weight * dout[p.out(b, i, head, d)];
      }
      const double dscore = weight * (dweight - delta) * scale;
      for (int64_t d = 0; d < p.dim; ++d) {
        dqkv[p.q(b, i, head, d)] += dscore * qkv[p.k(b, j, head, d)];
        dqkv[p.k(b, j, head, d)] += dscore * qkv[p.q(b, i, head, d)];
      }
    }
  });
  return dqkv;
}

std::vector<Expected> Check(Lab& lab, const Problem& p) {
  const Shape out_shape{p.batch, p.t, p.heads * p.dim}, qkv_shape{p.batch, p.t, p.stride()};
  const Tensor qkv = lab.Normal(qkv_shape, p.type), dout = lab.Normal(out_shape, p.type);
  Values out_want, lse_want;
  Forward(p, ValuesOf(qkv), out_want, lse_want);
  const Tensor out = lab.Blank(out_shape, p.type), lse = lab.Blank({p.batch, p.heads, p.t}, Wide(p.type));
  lab.Run(ops::AttentionForward{qkv, out, lse, p.heads, p.kv_heads, p.causal});
  // The backward pass is held against what the forward pass should have given, not what it gave.
  const Tensor saved_out = lab.Of(out_shape, p.type, out_want), saved_lse = lab.Of(lse.shape(), lse.dtype(), lse_want);
  const Tensor dqkv = lab.Blank(qkv_shape, p.type);
  lab.Run(ops::AttentionBackward{qkv, saved_out, saved_lse, dout, dqkv, p.heads, p.kv_heads, p.causal});
  const Values dqkv_want = Backward(p, ValuesOf(qkv), ValuesOf(saved_out), ValuesOf(saved_lse), ValuesOf(dout));
  return {{out, out_want, 4, p.type}, {lse, lse_want, 10, p.type}, {dqkv, dqkv_want, 20, p.type}};
}

TEST(Attention, AgainstPlainLoops) {
  for (DType type : kFloats) {
    for (bool causal : {true, false}) {
      for (const Problem& shape :
           {Problem{1, 1, 1, 1, 1}, Problem{2, 7, 3, 3, 5}, Problem{1, 33, 4, 2, 8}, Problem{2, 17, 6, 1, 3},
            Problem{1, 129, 2, 1, 16}, Problem{1, 300, 1, 1, 7}, Problem{1, 64, 3, 3, 64}, Problem{1, 41, 2, 2, 40}}) {
        Problem p = shape;
        p.causal = causal, p.type = type;
        Verify("attention " + Name(type) + " t " + std::to_string(p.t) + (causal ? " causal" : ""),
               [&](Lab& lab) { return Check(lab, p); });
        if (HasFatalFailure()) return;
      }
    }
  }
}

TEST(Attention, LargeScoresDoNotOverflow) {
  Lab lab(1, 0);
  const Tensor qkv = lab.Normal({1, 9, 3 * 4}, DType::kF32, 40), out = lab.Blank({1, 9, 4}, DType::kF32);
  const Tensor lse = lab.Blank({1, 1, 9}, DType::kF32);
  lab.Run(ops::AttentionForward{qkv, out, lse});
  for (double v : ValuesOf(out)) EXPECT_TRUE(std::isfinite(v));
  for (double v : ValuesOf(lse)) EXPECT_TRUE(std::isfinite(v));
}

}  // namespace attention_test
}  // namespace twofold
