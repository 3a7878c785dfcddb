#include "core/nn/experts.h"

#include "core/nn/rows.h"
#include "core/nn/swiglu.h"

namespace twofold::nn {

ExpertLinear::ExpertLinear(const Config& c) : config_(c) {
  const Shape shape = c.transposed ? Shape{c.experts * c.in, c.out} : Shape{c.experts * c.out, c.in};
  weight_ = AddParameter("weight", shape, c.dtype, c.weight_init);
}

ops::Matrices ExpertLinear::SlotsOf(const Tensor& t) const {
  const int64_t width = t.dim(-1), expert = t.dim(-2) * width;
  return {.tensor = t, .stride = width, .batch = expert, .head = config_.experts * expert};
}

ops::Matrices ExpertLinear::Weights(const Tensor& t, int64_t senders) const {
  return {.tensor = t, .stride = t.dim(1), .batch = config_.in * config_.out, .group = senders};
}

ops::BatchedMatMul ExpertLinear::Product(const Tensor& x) const {
  TWOFOLD_CHECK_EQ(x.dim(-3), config_.experts);
  return {.batches = config_.experts, .heads = x.numel() / (config_.experts * x.dim(-2) * x.dim(-1))};
}

template <class F>
void ExpertLinear::ForExperts(const Tensor& x, std::span<const int64_t> rows, F launch) const {
  TWOFOLD_CHECK_EQ(static_cast<int64_t>(rows.size()), config_.experts);
  int64_t first = 0;
  for (int64_t e = 0; e < config_.experts; ++e) {
    const int64_t count = rows[static_cast<size_t>(e)];
    launch(e, first, count);
    first += count;
  }
  TWOFOLD_CHECK_EQ(first, x.dim(0));
}

ops::Matrices ExpertLinear::RowsOf(const Tensor& t, int64_t first) const {
  return {.tensor = t, .stride = t.dim(-1), .first = first * t.dim(-1)};
}

ops::Matrices ExpertLinear::WeightOf(const Tensor& t, int64_t expert) const {
  return {.tensor = t, .stride = t.dim(1), .first = expert * config_.in * config_.out};
}

Tensor ExpertLinear::Forward(Context& ctx, const Tensor& x, Saved& saved) {
  TWOFOLD_CHECK_EQ(x.dim(-1), config_.in);
  Tensor y = ctx.Activation(WithLast(x.shape(), config_.out), x.dtype());
  saved[kX] = x;
  if (x.shape().rank() == 2) {
    TWOFOLD_CHECK(ctx.routed != nullptr, "somebody knows whose rows these are");
    saved.rows.assign(ctx.routed->rows.begin(), ctx.routed->rows.end());
    ForExperts(x, saved.rows, [&](int64_t expert, int64_t first, int64_t rows) {
      if (rows == 0) return;
      ctx.Launch(ops::BatchedMatMul{.a = RowsOf(x, first),
                                    .b = WeightOf(weight_->data(), expert),
                                    .out = RowsOf(y, first),
                                    .m = rows,
                                    .n = config_.out,
                                    .k = config_.in,
                                    .transpose_b = !config_.transposed});
    });
    return y;
  }
  ops::BatchedMatMul product = Product(x);
  product.a = SlotsOf(x), product.b = Weights(weight_->data(), product.heads), product.out = SlotsOf(y);
  product.m = x.dim(-2), product.n = config_.out, product.k = config_.in;
  product.transpose_b = !config_.transposed;
  ctx.Launch(product);
  return y;
}

Tensor ExpertLinear::BackwardInput(Context& ctx, Tensor dy, Saved& saved) {
  Tensor dx = ctx.Activation(WithLast(dy.shape(), config_.in), dy.dtype());
  if (dy.shape().rank() == 2) {
    ForExperts(dy, saved.rows, [&](int64_t expert, int64_t first, int64_t rows) {
      if (rows == 0) return;
      ctx.Launch(ops::BatchedMatMul{.a = RowsOf(dy, first),
                                    .b = WeightOf(weight_->data(), expert),
                                    .out = RowsOf(dx, first),
                                    .m = rows,
                                    .n = config_.in,
                                    .k = config_.out,
                                    .transpose_b = config_.transposed});
    });
    saved[kDy] = std::move(dy);
    return dx;
  }
  ops::BatchedMatMul product = Product(dy);
  product.a = SlotsOf(dy), product.b = Weights(weight_->data(), product.heads), product.out = SlotsOf(dx);
  product.m = dy.dim(-2), product.n = config_.in, product.k = config_.out;
  product.transpose_b = config_.transposed;
  ctx.Launch(product);
  saved[kDy] = std::move(dy);
  return dx;
}

// Of slots, the product itself sums over the senders. An expert without rows has a gradient of zero.
void ExpertLinear::BackwardWeights(Context& ctx, Saved& saved) {
  const Tensor x = saved.Take(kX), dy = saved.Take(kDy);
  const Parameter::Gradient dw = weight_->BeginGradient();
  const bool t = config_.transposed;
  if (x.shape().rank() == 2) {
    ForExperts(x, saved.rows, [&](int64_t expert, int64_t first, int64_t rows) {
      const int64_t size = config_.in * config_.out;
      if (rows == 0 && !dw.accumulate) ctx.Launch(ops::Fill{.out = dw.tensor.Slice(expert * size, size)});
      if (rows == 0) return;
      ctx.Launch(ops::BatchedMatMul{.a = RowsOf(t ? x : dy, first),
                                    .b = RowsOf(t ? dy : x, first),
                                    .out = WeightOf(dw.tensor, expert),
                                    .m = t ? config_.in : config_.out,
                                    .n = t ? config_.out : config_.in,
                                    .k = rows,
                                    .transpose_a = true,
                                    .accumulate = dw.accumulate,
                                    .alpha = config_.gradient_factor});
    });
    saved.rows.clear();
    weight_->EndGradient();
    return;
  }
  ops::BatchedMatMul product = Product(x);
  product.a = SlotsOf(t ? x : dy), product.b = SlotsOf(t ? dy : x), product.out = Weights(dw.tensor, product.heads);
  product.m = t ? config_.in : config_.out, product.n = t ? config_.out : config_.in, product.k = x.dim(-2);
  product.transpose_a = true;
  product.alpha = config_.gradient_factor;
  product.accumulate = dw.accumulate;
  ctx.Launch(product);
  weight_->EndGradient();
}

Experts::Experts(const ExpertsConfig& c) {
  const auto linear = [&](int64_t in, int64_t out, bool transposed, Init init) {
    return std::make_unique<ExpertLinear>(ExpertLinear::Config{.experts = c.experts,
                                                               .in = in,
                                                               .out = out,
                                                               .transposed = transposed,
                                                               .gradient_factor = c.gradient_factor,
                                                               .dtype = c.dtype,
                                                               .weight_init = init});
  };
  gate_up_ = Add("gate_up", linear(c.hidden, 2 * c.ffn, false, c.gate_up_init));
  Add("swiglu", std::make_unique<SwiGlu>());
  projection_ = Add("projection", linear(c.ffn, c.hidden, true, c.projection_init));
}

}  // namespace twofold::nn
