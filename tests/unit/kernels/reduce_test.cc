#include "kernels/cpu/reduce.h"

#include <algorithm>

#include "tests/unit/kernels/lab.h"

namespace twofold {
namespace reduce_test {

double Combine(ReduceOp op, double a, double b) {
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kAvg: return a + b;
    case ReduceOp::kProduct: return a * b;
    case ReduceOp::kMin: return std::min(a, b);
    case ReduceOp::kMax: return std::max(a, b);
  }
  return 0;
}

constexpr ReduceOp kOps[] = {ReduceOp::kSum, ReduceOp::kAvg, ReduceOp::kProduct, ReduceOp::kMin, ReduceOp::kMax};

struct Ranks {
  std::vector<Tensor> inputs, outputs;
  void Reduce(ReduceOp op, int64_t first, int64_t count) const {
    std::vector<const void*> in;
    std::vector<void*> out;
    for (const Tensor& t : inputs) in.push_back(t.raw());
    for (const Tensor& t : outputs) out.push_back(t.raw());
    cpu::ReduceSlices(in, out, inputs[0].dtype(), op, first, count);
  }
};

TEST(ReduceSlices, CombinesInRankOrderAndRoundsOnce) {
  for (DType t : kFloats) {
    for (ReduceOp op : kOps) {
      for (int ranks : {1, 2, 3, 7}) {
        for (int64_t n : {1, 3, 17, 129, 1025, 3001}) {
          Verify(std::string(ReduceOpName(op)) + " of " + std::to_string(ranks) + " " + Name(t), [&](Lab& lab) {
            Ranks r;
            for (int i = 0; i < ranks; ++i)
              r.inputs.push_back(lab.Normal({n}, t)), r.outputs.push_back(lab.Blank({n}, t));
            Values want = ValuesOf(r.inputs[0]);
            for (int i = 1; i < ranks; ++i) {
              const Values more = ValuesOf(r.inputs[At(i)]);
              for (size_t j = 0; j < want.size(); ++j) want[j] = Combine(op, want[j], more[j]);
            }
            if (op == ReduceOp::kAvg)
              for (double& w : want) w /= ranks;
            r.Reduce(op, 0, n);
            std::vector<Expected> all;
            for (const Tensor& out : r.outputs) all.push_back({out, want, op == ReduceOp::kProduct ? 50.0 : 2.0, t});
            r.outputs = r.inputs;  // in place
            r.Reduce(op, 0, n);
            for (const Tensor& out : r.outputs) EXPECT_EQ(ValuesOf(out), ValuesOf(all[0].got));
            return all;
          });
        }
      }
    }
  }
}

TEST(ReduceSlices, WritesItsSliceOnly) {
  Lab lab(1, 0);
  Ranks r;
  for (int i = 0; i < 3; ++i) r.inputs.push_back(lab.Of({2000}, DType::kF32, Values(2000, i + 1)));
  r.outputs = {lab.Of({2000}, DType::kF32, Values(2000, -1))};
  r.Reduce(ReduceOp::kSum, 5, 1500);
  const Values got = ValuesOf(r.outputs[0]);
  for (size_t i = 0; i < got.size(); ++i) EXPECT_EQ(got[i], i >= 5 && i < 1505 ? 6 : -1) << i;
  r.Reduce(ReduceOp::kSum, 0, 0);
  EXPECT_EQ(ValuesOf(r.outputs[0]), got);
}

TEST(ReduceSlices, PartsGiveWhatTheWholeGives) {
  Lab lab(1, 0);
  Ranks whole, parts;
  for (int i = 0; i < 3; ++i) whole.inputs.push_back(lab.Normal({3001}, DType::kBF16));
  parts.inputs = whole.inputs;
  whole.outputs = {lab.Blank({3001}, DType::kBF16)}, parts.outputs = {lab.Blank({3001}, DType::kBF16)};
  whole.Reduce(ReduceOp::kSum, 0, 3001);
  for (int64_t first = 0; first < 3001; first += 333) {
    parts.Reduce(ReduceOp::kSum, first, std::min<int64_t>(333, 3001 - first));
  }
  EXPECT_EQ(BitsOf(whole.outputs[0]), BitsOf(parts.outputs[0]));
}

TEST(ReduceSlices, BF16AccumulatesInF32) {  // 256 + 1 + 1 would stay 256 if each step were rounded
  Lab lab(1, 0);
  Ranks r;
  for (double v : {256.0, 1.0, 1.0}) r.inputs.push_back(lab.Of({1}, DType::kBF16, {v}));
  r.outputs = {lab.Blank({1}, DType::kBF16)};
  r.Reduce(ReduceOp::kSum, 0, 1);
  EXPECT_EQ(ValuesOf(r.outputs[0])[0], 258);
}

TEST(ReduceSlices, Integers) {
  Lab lab(1, 0);
  const double big = 2147483647;
  const struct {
    DType t;
    Values a, b;
    ReduceOp op;
    Values want;
  } cases[] = {
      {DType::kI32, {1, -5, big}, {2, 3, 1}, ReduceOp::kSum, {3, -2, -2147483648.0}},
      {DType::kI32, {1, -5, big}, {2, 3, 1}, ReduceOp::kMin, {1, -5, 1}},
      {DType::kI32, {1, -5, big}, {2, 3, 1}, ReduceOp::kMax, {2, 3, big}},
      {DType::kI32, {4, -5, 65536}, {2, 3, 65536}, ReduceOp::kProduct, {8, -15, 0}},
      {DType::kI32, {4, -5, 7}, {2, 2, 0}, ReduceOp::kAvg, {3, -1, 3}},
      {DType::kU8, {200, 1, 7}, {100, 2, 0}, ReduceOp::kSum, {44, 3, 7}},
      {DType::kU8, {200, 1, 7}, {100, 2, 0}, ReduceOp::kMax, {200, 2, 7}},
      {DType::kU8, {20, 1, 7}, {100, 2, 0}, ReduceOp::kAvg, {60, 1, 3}},
  };
  for (const auto& c : cases) {
    Ranks r{{lab.Of({3}, c.t, c.a), lab.Of({3}, c.t, c.b)}, {lab.Blank({3}, c.t)}};
    r.Reduce(c.op, 0, 3);
    EXPECT_EQ(ValuesOf(r.outputs[0]), c.want) << Name(c.t) << " " << ReduceOpName(c.op);
  }
}

}  // namespace reduce_test
}  // namespace twofold
