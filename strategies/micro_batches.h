// Computes a rank's share of a step's micro-batches, one action at a time: forward and backward through the rank's
// parts of the model, loading samples at the input side and computing losses at the head. A rank with the whole model
// runs F0 B0 F1 B1 ...; a pipeline stage runs the actions of its schedule (pipeline/executor.h). Both use this code.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "core/data/load_batch.h"
#include "core/nn/language_model.h"
#include "core/tensor/tensor.h"
#include "strategies/data_parallel/layout.h"
#include "strategies/pipeline/schedule.h"

namespace twofold {

// Logits and their targets. Both are empty on ranks without the model's last part.
struct Predictions {
  Tensor logits, targets;
};

// One object per rank, used from the rank's thread. All arguments must outlive it.
class MicroBatches {
 public:
  struct Options {
    int64_t samples = 1;          // per micro-batch
    int64_t accumulation = 1;     // micro-batches per step on one rank of dp, at most
    int64_t replicas = 1;         // ranks that share the global batch; losses are summed over them
    int64_t dp = 1, dp_rank = 0;  // ranks with different samples, and this rank's index among them
    DType dtype = DType::kF32;    // of activations
    bool tokens = true;           // the model's inputs are ids, not features or pixels
  };
  // `parts`: for each chunk of the layout, which part of the model it is.
  MicroBatches(nn::Context& ctx, ParameterLayout& layout, const std::vector<nn::ModelPart>& parts, nn::Loss& loss,
               const Dataset& data, const Options& options);

  // Starts a step of `accumulation` micro-batches, at most as many as the options have, over this rank's samples:
  // micro-batch i takes indices [i, i + 1) * samples. The caller keeps `indices` alive. The loss is multiplied by
  // `scale`.
  void BeginStep(std::span<const int64_t> indices, double scale, int64_t accumulation);
  // Runs one action. `in` is the message from the part before (or after); returns the message to send on. Adds to the
  // gradients and to loss().
  Tensor Run(const pipeline::Action& action, Tensor in);
  // This rank's part of the step's mean loss, one element. It is 0 on ranks without the model's last part.
  Tensor& loss() { return loss_; }

  // Runs one chunk forward over samples of `data`. `ctx` saves nothing for backward. `in` is the message from the part
  // before; returns the message to send on. The last part fills in `out` instead.
  Tensor Predict(nn::Context& ctx, int chunk, const Dataset& data, std::span<const int64_t> indices, Tensor in,
                 Predictions& out);

 private:
  struct InFlight {
    nn::Saved saved, loss;
  };
  struct Chunk {
    nn::Module* module;
    nn::ModelPart part;
    int64_t left = 0;                               // micro-batches whose gradients are not complete
    std::vector<std::unique_ptr<InFlight>> flying;  // indexed by micro-batch
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
  const Options options_;
  std::vector<Chunk> chunks_;
  Tensor loss_;
  std::span<const int64_t> indices_;
  double scale_ = 1;
  int64_t accumulation_ = 1;  // of this step
  nn::Saved nothing_;         // scratch for Predict, cleared after each chunk
};

}  // namespace twofold
