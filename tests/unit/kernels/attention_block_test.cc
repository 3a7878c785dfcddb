// Rectangles of attention against plain loops over all that they may see.
#include <cmath>

#include "core/base/strings.h"
#include "tests/unit/kernels/lab.h"

namespace twofold {
namespace attention_block_test {

struct Problem {
  int64_t batch, queries, keys;  // rows of the tensors
  ops::AttentionBlock block;
  DType type = DType::kF64;
  bool packed = false;  // q and kv are one qkv

  int64_t q_columns() const { return block.heads * block.head_dim; }
  int64_t kv_columns() const { return 2 * block.kv_heads * block.head_dim; }
  int64_t all_columns() const { return packed ? q_columns() + kv_columns() : 0; }
  // Places in tensors of `columns` columns: queries from the first, keys and values up to the last.
  size_t q(int64_t columns, int64_t b, int64_t i, int64_t head, int64_t d) const {
    return At((b * queries + block.first_query + i) * columns + head * block.head_dim + d);
  }
  size_t k(int64_t columns, int64_t b, int64_t j, int64_t head, int64_t d, int64_t part = 0) const {
    const int64_t kv = part * block.kv_heads + head / (block.heads / block.kv_heads);
    return At((b * keys + block.first_key + j) * columns + columns - kv_columns() + kv * block.head_dim + d);
  }
  size_t lse(int64_t b, int64_t i, int64_t head) const {
    return At((b * block.heads + head) * queries + block.first_query + i);
  }
  template <class F>
  void ForEachQuery(F f) const {
    for (int64_t b = 0; b < batch; ++b)
      for (int64_t head = 0; head < block.heads; ++head)
        for (int64_t i = 0; i < block.queries; ++i) f(b, head, i);
  }
  int64_t visible(int64_t i) const { return block.causal ? i + 1 : block.keys; }
  std::string name() const {
    return StrCat(std::string(DTypeName(type)), " ", block.queries, " x ", block.keys, block.causal ? " causal" : "");
  }
};

// Both inputs, and their values.
struct Inputs {
  Tensor q, kv;
  Values q_values, kv_values;
  Inputs(Lab& lab, const Problem& p)
      : q(lab.Normal({p.batch, p.queries, p.packed ? p.all_columns() : p.q_columns()}, p.type)),
        kv(p.packed ? q : lab.Normal({p.batch, p.keys, p.kv_columns()}, p.type)),
        q_values(ValuesOf(q)),
        kv_values(ValuesOf(kv)) {}
  double Score(const Problem& p, int64_t b, int64_t head, int64_t i, int64_t j) const {
    double sum = 0;
    for (int64_t d = 0; d < p.block.head_dim; ++d) {
      sum += q_values[p.q(q.dim(2), b, i, head, d)] * kv_values[p.k(kv.dim(2), b, j, head, d)];
    }
    return sum / std::sqrt(static_cast<double>(p.block.head_dim));
  }
};

std::vector<Expected> Forward(Lab& lab, const Problem& p, bool merge) {
  const Inputs in(lab, p);
  const Tensor out = lab.Normal({p.batch, p.queries, p.q_columns()}, Wide(p.type)),
               lse = lab.Normal({p.batch, p.block.heads, p.queries}, Wide(p.type), 3);
  Values out_want = ValuesOf(out), lse_want = ValuesOf(lse);
  p.ForEachQuery([&](int64_t b, int64_t head, int64_t i) {
    double sum = merge ? std::exp(lse_want[p.lse(b, i, head)]) : 0;
    const auto o = [&](int64_t d) -> double& { return out_want[p.q(p.q_columns(), b, i, head, d)]; };
    for (int64_t d = 0; d < p.block.head_dim; ++d) o(d) *= sum;
    for (int64_t j = 0; j < p.visible(i); ++j) {
      const double weight = std::exp(in.Score(p, b, head, i, j));
      sum += weight;
      for (int64_t d = 0; d < p.block.head_dim; ++d) o(d) += weight * in.kv_values[p.k(in.kv.dim(2), b, j, head, d, 1)];
    }
    for (int64_t d = 0; d < p.block.head_dim; ++d) o(d) /= sum;
    lse_want[p.lse(b, i, head)] = std::log(sum);
  });
  lab.Run(ops::AttentionBlockForward{.q = in.q, .kv = in.kv, .out = out, .lse = lse, .block = p.block, .merge = merge});
  return {{out, out_want, 4, p.type}, {lse, lse_want, 10, p.type}};
}

std::vector<Expected> Backward(Lab& lab, const Problem& p, bool accumulate) {
  const Inputs in(lab, p);
  const Tensor out = lab.Normal({p.batch, p.queries, p.q_columns()}, p.type), dout = lab.Normal(out.shape(), p.type);
  // As of rows that see other keys, too: larger than what these give.
  Values sums(At(p.batch * p.block.heads * p.queries), 1.0);
  p.ForEachQuery([&](int64_t b, int64_t head, int64_t i) {
    double sum = 0.5;
    for (int64_t j = 0; j < p.visible(i); ++j) sum += std::exp(in.Score(p, b, head, i, j));
    sums[p.lse(b, i, head)] = std::log(sum);
  });
  const Tensor lse = lab.Of({p.batch, p.block.heads, p.queries}, Wide(p.type), sums);
  const Tensor dq = lab.Normal(in.q.shape(), Wide(p.type)),
               dkv = p.packed ? dq : lab.Normal(in.kv.shape(), Wide(p.type));
  Values dq_want = ValuesOf(dq), dkv_want = ValuesOf(dkv);
  Values& keys_want = p.packed ? dq_want : dkv_want;
  const Values o = ValuesOf(out), dout_values = ValuesOf(dout), l = ValuesOf(lse);
  const int64_t qc = in.q.dim(2), kc = in.kv.dim(2);
  if (!accumulate) {
    p.ForEachQuery([&](int64_t b, int64_t head, int64_t i) {
      for (int64_t d = 0; d < p.block.head_dim; ++d) {
        dq_want[p.q(qc, b, i, head, d)] = 0;
        for (int64_t j = 0; j < p.block.keys; ++j)
          keys_want[p.k(kc, b, j, head, d)] = keys_want[p.k(kc, b, j, head, d, 1)] = 0;
      }
    });
  }
  const double scale = 1 / std::sqrt(static_cast<double>(p.block.head_dim));
  p.ForEachQuery([&](int64_t b, int64_t head, int64_t i) {
    const auto row = [&](int64_t d) { return p.q(p.q_columns(), b, i, head, d); };
    double delta = 0;
    for (int64_t d = 0; d < p.block.head_dim; ++d) delta += o[row(d)] * dout_values[row(d)];
    for (int64_t j = 0; j < p.visible(i); ++j) {
      const double weight = std::exp(in.Score(p, b, head, i, j) - l[p.lse(b, i, head)]);
      double dweight = 0;
      for (int64_t d = 0; d < p.block.head_dim; ++d) {
        dweight += dout_values[row(d)] * in.kv_values[p.k(kc, b, j, head, d, 1)];
        keys_want[p.k(kc, b, j, head, d, 1)] += weight * dout_values[row(d)];
      }
      const double dscore = weight * (dweight - delta) * scale;
      for (int64_t d = 0; d < p.block.head_dim; ++d) {
        dq_want[p.q(qc, b, i, head, d)] += dscore * in.kv_values[p.k(kc, b, j, head, d)];
        keys_want[p.k(kc, b, j, head, d)] += dscore * in.q_values[p.q(qc, b, i, head, d)];
      }
    }
  });
  lab.Run(ops::AttentionBlockBackward{.q = in.q,
                                      .kv = in.kv,
                                      .out = out,
                                      .lse = lse,
                                      .dout = dout,
                                      .dq = dq,
                                      .dkv = dkv,
                                      .block = p.block,
                                      .accumulate = accumulate});
  std::vector<Expected> expected = {{dq, dq_want, 20, p.type}};
  if (!p.packed) expected.push_back({dkv, dkv_want, 20, p.type});
  return expected;
}

TEST(AttentionBlock, AgainstPlainLoops) {
  const auto block = [](int64_t heads, int64_t kv_heads, int64_t dim, int64_t first_query, int64_t queries,
                        int64_t first_key, int64_t keys, bool causal = false) {
    return ops::AttentionBlock{heads, kv_heads, dim, first_query, queries, first_key, keys, causal};
  };
  for (DType type : kFloats) {
    for (Problem p :
         {Problem{1, 1, 1, block(1, 1, 1, 0, 1, 0, 1)}, Problem{2, 9, 5, block(3, 3, 5, 2, 6, 1, 4)},
          Problem{1, 40, 30, block(4, 2, 8, 7, 33, 0, 29)}, Problem{1, 8, 70, block(2, 1, 16, 0, 8, 3, 67)},
          Problem{2, 41, 20, block(6, 1, 3, 40, 1, 19, 1)}, Problem{1, 70, 50, block(2, 2, 7, 30, 40, 10, 40, true)},
          Problem{2, 36, 36, block(4, 2, 8, 0, 36, 0, 36, true), DType::kF64, true},
          Problem{1, 20, 20, block(2, 2, 4, 10, 10, 0, 20), DType::kF64, true}}) {
      p.type = type;
      for (bool add : {false, true}) {
        Verify("forward " + p.name(), [&](Lab& lab) { return Forward(lab, p, add); });
        if (HasFatalFailure()) return;
        if (p.packed && type != Wide(type)) continue;
        Verify("backward " + p.name(), [&](Lab& lab) { return Backward(lab, p, add); });
        if (HasFatalFailure()) return;
      }
    }
  }
}

// What one side of a merge has lost to the other's size is zero, and no NaN.
TEST(AttentionBlock, MergesWhatIsFarLargerOrSmaller) {
  for (const double far : {-300.0, 300.0}) {
    Lab lab(1, 0);
    const Tensor q = lab.Of({1, 1, 2}, DType::kF32, {0, 0}), kv = lab.Of({1, 1, 4}, DType::kF32, {0, 0, 5, 6});
    const Tensor out = lab.Of({1, 1, 2}, DType::kF32, {1, 2}), lse = lab.Of({1, 1, 1}, DType::kF32, {far});
    lab.Run(ops::AttentionBlockForward{
        .q = q, .kv = kv, .out = out, .lse = lse, .block = {.head_dim = 2, .queries = 1, .keys = 1}, .merge = true});
    EXPECT_EQ(ValuesOf(out), far < 0 ? (Values{5, 6}) : (Values{1, 2}));
    EXPECT_EQ(ValuesOf(lse), Values{std::max(far, 0.0)});
  }
}

}  // namespace attention_block_test
}  // namespace twofold
