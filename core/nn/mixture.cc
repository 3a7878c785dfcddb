#include "core/nn/mixture.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "core/nn/rows.h"

namespace twofold::nn {

// A value that is an integer up to rounding errors counts as an integer.
int64_t ExpertCapacity(const MixtureConfig& c, int64_t tokens) {
  const double mean = c.capacity_factor * static_cast<double>(c.top_k * tokens) / static_cast<double>(c.experts);
  return static_cast<int64_t>(std::min(std::ceil(mean * (1 - 1e-12)), static_cast<double>(tokens)));
}

std::vector<int64_t> ReadCounts(Context& ctx, const Tensor& counts, std::vector<int64_t> assumed) {
  TWOFOLD_CHECK_EQ(counts.numel(), static_cast<int64_t>(assumed.size()));
  std::vector<int32_t> read(assumed.begin(), assumed.end());
  ctx.device.Download(counts, std::as_writable_bytes(std::span(read)));
  return {read.begin(), read.end()};
}

Mixture::Mixture(const MixtureConfig& config, std::unique_ptr<Module> router, std::unique_ptr<Module> experts)
    : config_(config) {
  TWOFOLD_CHECK(config.top_k >= 1 && config.top_k <= config.experts && (config.dropless || config.capacity_factor > 0),
                "top_k must be 1 to experts, and capacity_factor must be above 0");
  AddChild("router", std::move(router));
  AddChild("experts", std::move(experts));
}

Tensor Mixture::Forward(Context& ctx, const Tensor& x, Saved& saved) {
  const int64_t tokens = x.numel() / config_.hidden;
  const DType wide = ops::AccumulationType(x.dtype());
  const Shape choices_shape{tokens, config_.top_k};
  const ops::Choices choices{.experts = ctx.Activation(choices_shape, DType::kI32),
                             .places = ctx.Activation(choices_shape, DType::kI32)};
  const Tensor weights = ctx.Activation(choices_shape, wide),
               probabilities = ctx.Activation(Shape{tokens, config_.experts}, wide);
  Tensor counts;
  if (config_.dropless) counts = ctx.Activation(Shape{config_.experts}, DType::kI32);
  {
    const Tensor logits = Apply(kRouter, ctx, x, saved);
    ctx.Launch(ops::RouteForward{.logits = Rows(logits),
                                 .probabilities = probabilities,
                                 .weights = weights,
                                 .choices = choices,
                                 .counts = counts});
  }
  const Tensor results = ApplyExperts(ctx, x, choices, std::exchange(counts, Tensor()), saved);
  Tensor y = ctx.Activation(x.shape(), x.dtype());
  ctx.Launch(ops::Combine{.slots = results, .choices = choices, .weights = weights, .y = y});
  saved[kProbabilities] = probabilities;
  saved[kWeights] = weights;
  saved[kExpertsOf] = choices.experts;
  saved[kPlaces] = choices.places;
  saved[kResults] = results;
  return y;
}

// `counts`: empty if there are capacities.
Tensor Mixture::ApplyExperts(Context& ctx, const Tensor& x, const ops::Choices& choices, const Tensor& counts,
                             Saved& saved) {
  const int64_t tokens = x.numel() / config_.hidden;
  Tensor slots =
      ctx.Activation(config_.dropless ? Shape{tokens * config_.top_k, config_.hidden}
                                      : Shape{config_.experts, ExpertCapacity(config_, tokens), config_.hidden},
                     x.dtype());
  ctx.Launch(ops::Dispatch{.x = x, .choices = choices, .slots = slots});
  if (!config_.dropless) return Apply(kExperts, ctx, std::exchange(slots, Tensor()), saved);
  const std::vector<int64_t> rows = ReadCounts(ctx, counts, config_.AssumedChoices(config_.rank, tokens));
  if (ctx.routing != nullptr && ctx.training && !ctx.recomputing) ctx.routing->Routed(config_.block, rows);
  const Routed routed{.rows = rows, .counts = counts};
  Context inner = ctx;
  inner.routed = &routed;
  return Apply(kExperts, inner, std::exchange(slots, Tensor()), saved);
}

Tensor Mixture::Propagate(const Backprop& back, Tensor dy) {
  Context& ctx = back.ctx;
  Saved& saved = back.saved;
  const ops::Choices choices{.experts = saved.Take(kExpertsOf), .places = saved.Take(kPlaces)};
  Tensor weights = saved.Take(kWeights), results = saved.Take(kResults);
  const Tensor dweights = ctx.Activation(weights.shape(), weights.dtype());
  ctx.Launch(ops::CombineWeights{.slots = results, .choices = choices, .dy = dy, .dweights = dweights});
  Tensor dslots =
      results.unique() ? std::exchange(results, Tensor()) : ctx.Activation(results.shape(), results.dtype());
  results = Tensor();
  ctx.Launch(ops::Dispatch{.x = dy, .choices = choices, .weights = std::exchange(weights, Tensor()), .slots = dslots});
  const Shape shape = dy.shape();
  dy = Tensor();
  dslots = back(kExperts, std::move(dslots));
  Tensor dx = ctx.Activation(shape, dslots.dtype());
  ctx.Launch(ops::Combine{.slots = std::exchange(dslots, Tensor()), .choices = choices, .y = dx});
  Tensor dlogits = ctx.Activation(WithLast(shape, config_.experts), dx.dtype());
  ctx.Launch(ops::RouteBackward{.probabilities = saved.Take(kProbabilities),
                                .dweights = dweights,
                                .choices = choices,
                                .dlogits = dlogits,
                                .balance = config_.aux_loss * ctx.loss_factor});
  ctx.Launch(ops::AddTo{.in = back(kRouter, std::move(dlogits)), .out = dx});
  return dx;
}

}  // namespace twofold::nn
