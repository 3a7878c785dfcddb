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

Tensor ExpertLinear::Forward(Context& ctx, const Tensor& x, Saved& saved) {
  TWOFOLD_CHECK_EQ(x.dim(-1), config_.in);
  Tensor y = ctx.Activation(WithLast(x.shape(), config_.out), x.dtype());
  ops::BatchedMatMul product = Product(x);
  product.a = SlotsOf(x), product.b = Weights(weight_->data(), product.heads), product.out = SlotsOf(y);
  product.m = x.dim(-2), product.n = config_.out, product.k = config_.in;
  product.transpose_b = !config_.transposed;
  ctx.Launch(product);
  saved[kX] = x;
  return y;
}

Tensor ExpertLinear::BackwardInput(Context& ctx, Tensor dy, Saved& saved) {
  Tensor dx = ctx.Activation(WithLast(dy.shape(), config_.in), dy.dtype());
  ops::BatchedMatMul product = Product(dy);
  product.a = SlotsOf(dy), product.b = Weights(weight_->data(), product.heads), product.out = SlotsOf(dx);
  product.m = dy.dim(-2), product.n = config_.in, product.k = config_.out;
  product.transpose_b = config_.transposed;
  ctx.Launch(product);
  saved[kDy] = std::move(dy);
  return dx;
}

// The product itself sums over the senders.
void ExpertLinear::BackwardWeights(Context& ctx, Saved& saved) {
  const Tensor x = saved.Take(kX), dy = saved.Take(kDy);
  const Parameter::Gradient dw = weight_->BeginGradient();
  ops::BatchedMatMul product = Product(x);
  const bool t = config_.transposed;
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
