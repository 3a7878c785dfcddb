#include "core/nn/rotary.h"

#include <cmath>

namespace twofold::nn {
namespace {

constexpr double kTwoPi = 6.283185307179586;

double Scaled(const RopeScaling& s, double frequency) {
  if (s.kind == RopeScaling::kNone) return frequency;
  const double slow = frequency / s.factor;
  if (s.kind == RopeScaling::kLinear) return slow;
  // Number of turns within the original sequence.
  const double turns = static_cast<double>(s.original_sequence) * frequency / kTwoPi;
  if (turns < s.low_freq_factor) return slow;
  if (turns > s.high_freq_factor) return frequency;
  const double smooth = (turns - s.low_freq_factor) / (s.high_freq_factor - s.low_freq_factor);
  return (1 - smooth) * slow + smooth * frequency;
}

}  // namespace

std::vector<double> RopeFrequencies(const RopeConfig& config) {
  TWOFOLD_CHECK(config.head_dim > 0 && config.head_dim % 2 == 0, "rotary embeddings need an even head_dim");
  std::vector<double> frequencies;
  for (int64_t i = 0; i < config.head_dim / 2; ++i) {
    const double exponent = -2.0 * static_cast<double>(i) / static_cast<double>(config.head_dim);
    frequencies.push_back(Scaled(config.scaling, std::pow(config.theta, exponent)));
  }
  return frequencies;
}

const Tensor& RotaryTable::Get(Context& ctx) {
  if (table_.empty()) {
    table_ = ctx.device.NewTensor(Shape{positions_, config_.head_dim}, dtype_, Category::kOther);
    ctx.Launch(ops::RotaryTable{.table = table_, .frequencies = RopeFrequencies(config_)});
  }
  return table_;
}

Tensor Rotary::Forward(Context& ctx, const Tensor& x, Saved&) {
  Tensor y = ctx.Activation(x.shape(), x.dtype());
  ctx.Launch(
      ops::Rotary{.x = x, .table = table_->Get(ctx), .y = y, .heads = heads_, .positions = PlaceOf(positions_, x)});
  return y;
}

Tensor Rotary::BackwardInput(Context& ctx, Tensor dy, Saved&) {
  Tensor dx = dy.unique() ? dy : ctx.Activation(dy.shape(), dy.dtype());
  ctx.Launch(ops::Rotary{.x = dy,
                         .table = table_->Get(ctx),
                         .y = dx,
                         .heads = heads_,
                         .inverse = true,
                         .positions = PlaceOf(positions_, dy)});
  return dx;
}

}  // namespace twofold::nn
