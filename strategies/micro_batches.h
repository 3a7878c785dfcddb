// What a rank computes of a step's micro-batches, action by action: its parts of the model forward and back, samples where they
// enter and losses where they are made. A rank with the whole model does F0 B0 F1 B1 ..., one of a pipeline what its schedule says
// (pipeline/executor.h): it is the same code.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/data/load_batch.h"
#include "core/nn/language_model.h"
#include "core/proto/spec.pb.h"
#include "core/tensor/tensor.h"
#include "strategies/data_parallel/layout.h"
#include "strategies/pipeline/schedule.h"

namespace twofold {

// Logits with what they should have been; both empty on ranks that do not have the model's last part.
struct Predictions {
  Tensor logits, targets;
};

// One rank's. Used from its thread; everything handed in outlives it.
class MicroBatches {
 public:
  struct Options {
    int64_t samples = 1;          // of one micro-batch
    int64_t accumulation = 1;     // micro-batches of a step, at one rank of dp
    int64_t replicas = 1;         // ranks that share the batch, over which losses are summed
    int64_t dp = 1, dp_rank = 0;  // of them, those with other samples
  };
  // `parts`: what the layout's chunks are of the model (models/chunks.h).
  MicroBatches(nn::Context& ctx, ParameterLayout& layout, std::vector<nn::ModelPart> parts, nn::Loss& loss, const Dataset& data, const spec::Spec& spec,
               const Options& options);

  // A step over this rank's samples: micro-batch i is indices [i, i + 1) * samples; they are kept by the caller. The loss is multiplied by `scale`.
  void BeginStep(std::span<const int64_t> indices, double scale);
  // Does one action: from what the part before (or after) sent to what this one sends. Adds to the gradients and to loss().
  Tensor Run(const pipeline::Action& action, Tensor in);
  // This rank's part of the step's mean loss, one element: 0 on ranks that do not have the model's last part.
  Tensor& loss() { return loss_; }

  // One chunk forward, of samples of `data` with a context that keeps nothing for backward: from what the part before sent to what
  // this one sends. The last part fills in `out`.
  Tensor Predict(nn::Context& ctx, int chunk, const Dataset& data, std::span<const int64_t> indices, Tensor in, Predictions& out);

 private:
  struct InFlight {
    nn::Saved saved, loss;
  };
  struct Chunk {
    nn::Module* module;
    nn::ModelPart part;
    int64_t left = 0;                                // micro-batches whose gradients are not complete
    std::vector<std::unique_ptr<InFlight>> flying;   // by micro-batch
    std::vector<std::unique_ptr<InFlight>> free;
  };
  Tensor Forward(Chunk& chunk, int micro_batch, Tensor in);
  Tensor Backward(Chunk& chunk, const pipeline::Action& action, Tensor dy);
  Tensor ToModelInput(Tensor inputs);
  Batch Load(const nn::ModelPart& part, const Dataset& data, std::span<const int64_t> indices);

  nn::Context& ctx_;
  ParameterLayout& layout_;
  nn::Loss& loss_function_;
  const Dataset& data_;
  const spec::Model& model_;
  const DType dtype_;
  const Options options_;
  std::vector<Chunk> chunks_;
  Tensor loss_;
  std::span<const int64_t> indices_;
  double scale_ = 1;
  nn::Saved nothing_;  // what predicting saves, for as long as a part takes
};

}  // namespace twofold
