#include "strategies/micro_batches.h"

#include <utility>

namespace twofold {

using pipeline::Action;

MicroBatches::MicroBatches(nn::Context& ctx, ParameterLayout& layout, const std::vector<nn::ModelPart>& parts,
                           nn::Loss& loss, const Dataset& data, const Options& options)
    : ctx_(ctx), layout_(layout), loss_function_(loss), data_(data), options_(options) {
  TWOFOLD_CHECK_EQ(layout.chunks().size(), parts.size());
  chunks_.resize(parts.size());
  for (size_t c = 0; c < parts.size(); ++c) {
    chunks_[c].module = layout.chunks()[c].get();
    chunks_[c].part = parts[c];
    chunks_[c].flying.resize(static_cast<size_t>(options.accumulation));
  }
  loss_ = ctx.device.NewTensor(Shape{1}, ops::AccumulationType(options.dtype), Category::kOther, "loss of the step");
}

void MicroBatches::BeginStep(std::span<const int64_t> indices, double scale, int64_t accumulation) {
  TWOFOLD_CHECK_LE(accumulation, options_.accumulation);
  indices_ = indices;
  scale_ = scale;
  accumulation_ = accumulation;
  ctx_.loss_factor = scale / static_cast<double>(accumulation);
  for (Chunk& chunk : chunks_) chunk.left = accumulation;
  if (!chunks_.back().part.head) ctx_.Launch(ops::Fill{.out = loss_, .value = 0});
}

Tensor MicroBatches::Run(const Action& action, Tensor in) {
  Chunk& chunk = chunks_[static_cast<size_t>(action.chunk)];
  if (action.kind == Action::kForward) return Forward(chunk, action.micro_batch, std::move(in));
  return Backward(chunk, action, std::move(in));
}

// Loads what a part needs of the samples: inputs at the embedding, targets at the head.
Batch MicroBatches::Load(const nn::ModelPart& part, const Dataset& data, std::span<const int64_t> indices) {
  if (!part.embedding && !part.head) return {};
  const BatchParts parts = !part.head ? BatchParts::kInputs : part.embedding ? BatchParts::kBoth : BatchParts::kTargets;
  return LoadBatch(ctx_.device, data, indices, parts);
}

// Token ids are passed on unchanged, features are cast to the model's float type, and pixels 0 to 255 become -1 to 1.
Tensor MicroBatches::ToModelInput(Tensor inputs) {
  if (options_.tokens || inputs.dtype() == options_.dtype) return inputs;
  Tensor cast = ctx_.Activation(inputs.shape(), options_.dtype);
  if (IsFloat(inputs.dtype())) {
    ctx_.Launch(ops::Cast{.in = inputs, .out = cast});
  } else {
    ctx_.Launch(ops::Affine{.in = inputs, .out = cast, .scale = 1 / 127.5, .shift = -1});
  }
  return cast;
}

Tensor MicroBatches::Forward(Chunk& chunk, int micro_batch, Tensor in) {
  const auto place = static_cast<size_t>(micro_batch);
  std::unique_ptr<InFlight>& flight = chunk.flying[place];
  if (chunk.free.empty()) chunk.free.push_back(std::make_unique<InFlight>());
  flight = std::move(chunk.free.back());
  chunk.free.pop_back();

  ctx_.micro_batch = micro_batch * options_.dp + options_.dp_rank;
  const auto samples = static_cast<size_t>(options_.samples);
  const OwnerScope pass(ctx_.owners(), {.pass = "forward", .module = chunk.module->path()});
  Batch batch = Load(chunk.part, data_, indices_.subspan(place * samples, samples));
  Tensor y = chunk.module->Forward(
      ctx_, chunk.part.embedding ? ToModelInput(std::exchange(batch.inputs, Tensor())) : std::exchange(in, Tensor()),
      flight->saved);
  if (!chunk.part.head) return y;
  const OwnerScope loss(ctx_.owners(), {.module = "loss"});
  const Tensor mean = loss_function_.Forward(ctx_, std::exchange(y, Tensor()), batch.targets, flight->loss);
  ctx_.Launch(ops::Sum{.in = mean,
                       .out = loss_,
                       .factor = 1.0 / static_cast<double>(accumulation_ * options_.replicas),
                       .accumulate = micro_batch > 0});
  return Tensor();  // the loss has saved what backward needs of the batch
}

Tensor MicroBatches::Backward(Chunk& chunk, const Action& action, Tensor dy) {
  const bool ends = action.kind != Action::kBackwardInput;  // completes the micro-batch's gradients
  std::unique_ptr<InFlight>& flight = chunk.flying[static_cast<size_t>(action.micro_batch)];
  const OwnerScope pass(ctx_.owners(), {.pass = "backward", .module = chunk.module->path()});
  if (ends) layout_.BeginMicroBatch(--chunk.left == 0);
  if (chunk.part.head && action.kind != Action::kBackwardWeights) {
    const OwnerScope loss(ctx_.owners(), {.module = "loss"});
    dy = loss_function_.Backward(ctx_, flight->loss, scale_ / static_cast<double>(accumulation_));
  }
  Tensor dx;
  switch (action.kind) {
    case Action::kBackward: dx = chunk.module->Backward(ctx_, std::move(dy), flight->saved); break;
    case Action::kBackwardInput: dx = chunk.module->BackwardInput(ctx_, std::move(dy), flight->saved); break;
    default: chunk.module->BackwardWeights(ctx_, flight->saved); break;
  }
  if (ends) chunk.free.push_back(std::move(flight));
  if (chunk.part.embedding) return Tensor();  // the gradient of features is not used
  return dx;
}

Tensor MicroBatches::Predict(nn::Context& ctx, int chunk, const Dataset& data, std::span<const int64_t> indices,
                             Tensor in, Predictions& out) {
  const Chunk& c = chunks_[static_cast<size_t>(chunk)];
  const OwnerScope module(ctx.owners(), {.module = c.module->path()});
  Batch batch = Load(c.part, data, indices);
  Tensor y = c.module->Forward(
      ctx, c.part.embedding ? ToModelInput(std::exchange(batch.inputs, Tensor())) : std::exchange(in, Tensor()),
      nothing_);
  nothing_.Clear();
  if (!c.part.head) return y;
  out = {.logits = std::move(y), .targets = std::move(batch.targets)};
  return Tensor();
}

}  // namespace twofold
