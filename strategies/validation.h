// The loss over samples that are not trained on, and when to stop because of it.
//
// Pass b of n replicas (ranks along dp) with batches of k samples takes samples [b n k, (b + 1) n k), of which replica r has the k from
// b n k + r k on. Every replica does the same passes over batches of the same size, so that replicas use the same memory
// and can stand for each other in a simulation; where the last samples do not fill them, the last one is repeated and
// its repetitions are not counted. Every sample counts once, whatever n and k; in f32 the sums differ in their last bits.
#pragma once

#include <functional>
#include <span>

#include "core/comm/device_mesh.h"
#include "core/data/dataset.h"
#include "core/nn/layers.h"
#include "core/tensor/tensor.h"
#include "strategies/micro_batches.h"

namespace twofold {

struct ValidationResult {
  double loss = 0;      // mean over all samples and the items of each
  double accuracy = 0;  // share of items whose largest logit is the target's
  bool stop = false;    // patience has run out: at every replica or at none
};

struct ValidationOptions {
  int64_t samples = 1;      // the first so many of the dataset
  int64_t batch = 1;        // of one replica and pass
  int64_t classes = 2;      // width of the logits
  int64_t patience = 0;     // validations in a row without a better loss before training stops; 0: it never does
  double min_delta = 0;     // a loss is better when it is lower than the best by more than this
  DType dtype = DType::kF32;  // of the logits
};

// Validations in a row without a better loss.
class Patience {
 public:
  Patience(int64_t most, double min_delta) : most_(most), min_delta_(min_delta) {}
  // Takes the loss of a validation; whether it was one too many. What is no number is not better.
  bool RunsOut(double loss);

  // What a checkpoint keeps: the least loss so far, where there is one, and validations in a row since.
  struct State { bool any = false; double best = 0; int64_t bad_validations = 0; };
  State state() const { return {!first_, best_, bad_validations_}; }
  void Restore(const State& state) { first_ = !state.any, best_ = state.best, bad_validations_ = state.bad_validations; }

 private:
  const int64_t most_;
  const double min_delta_;
  bool first_ = true;
  double best_ = 0;
  int64_t bad_validations_ = 0;
};

// One rank's share of every validation. Collective over the mesh's world; used from the rank's thread.
class Validation {
 public:
  // From samples of `data` to logits [.., classes] and targets, with a context that is not training; keeps nothing for a backward
  // pass. Of a pipeline's stages the last one alone has them, and the others learn what came of it.
  using Predict = std::function<Predictions(nn::Context& ctx, const Dataset& data, std::span<const int64_t> indices)>;

  // Everything handed in outlives it. Allocates what it needs from validation to validation. Throws OutOfMemory.
  // `data` are this rank's parts of the samples, where ranks of a context-parallel group share them.
  Validation(nn::Context& ctx, DeviceMesh& mesh, const Dataset& data, nn::Loss& loss, Predict predict, const ValidationOptions& options);

  // `between` is called before every pass; it may throw. Throws what communication and allocation throw.
  ValidationResult Run(const std::function<void()>& between);
  Patience& patience() { return patience_; }

 private:
  void Pass(nn::Context& ctx, int64_t number);
  bool Stops(double loss);

  nn::Context& ctx_;
  DeviceMesh& mesh_;
  const int64_t replicas_, replica_;  // along dp
  const Dataset& data_;
  nn::Loss& loss_;
  const Predict predict_;
  const ValidationOptions options_;
  Tensor totals_;   // (f32)[2]: the sum of the losses, and the number of right answers
  Tensor verdict_;  // (f32)[1]: 1 where this replica would stop
  Patience patience_;
};

}  // namespace twofold
