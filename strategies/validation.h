// The loss over samples that are not trained on, and early stopping.
//
// With n replicas (ranks along dp) and batches of k samples, pass b takes samples [b n k, (b + 1) n k); replica r takes
// the k samples from b n k + r k on. Every replica does the same number of passes over batches of the same size, so
// replicas use the same memory and can stand for each other in a simulation. If the samples do not fill the last pass,
// the last sample is repeated, and its repetitions are not counted. Every sample counts once for any n and k; in F32
// the sums may differ in their last bits.
#pragma once

#include <functional>
#include <optional>
#include <span>

#include "core/comm/device_mesh.h"
#include "core/data/dataset.h"
#include "core/nn/layers.h"
#include "core/tensor/tensor.h"
#include "strategies/micro_batches.h"

namespace twofold {

struct ValidationResult {
  double loss = 0;                 // mean over all items of all samples
  std::optional<double> accuracy;  // fraction of items whose largest logit is the target's, if it is of interest
  bool stop = false;               // patience has run out; the same on every replica
};

struct ValidationOptions {
  int64_t samples = 1;        // validates on the first `samples` samples of the dataset
  int64_t batch = 1;          // samples per replica and pass
  int64_t classes = 2;        // width of the logits
  bool accuracy = true;       // the result has the accuracy; false for language models, which have a perplexity
  int64_t patience = 0;       // validations in a row without a better loss before training stops; 0: never stops
  double min_delta = 0;       // a loss is better if it is lower than the best by more than this
  DType dtype = DType::kF32;  // of the logits
};

// Counts validations in a row without a better loss.
class Patience {
 public:
  Patience(int64_t most, double min_delta) : most_(most), min_delta_(min_delta) {}
  // Takes the loss of a validation. Returns whether patience has run out. NaN is never better.
  bool RunsOut(double loss);

  // Saved in checkpoints: the best loss so far (if `any`), and the number of validations since then.
  struct State {
    bool any = false;
    double best = 0;
    int64_t bad_validations = 0;
  };
  State state() const { return {!first_, best_, bad_validations_}; }
  void Restore(const State& state) {
    first_ = !state.any, best_ = state.best, bad_validations_ = state.bad_validations;
  }

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
  // Computes logits [.., classes] and targets of samples of `data`, with a context that is not training; saves nothing
  // for backward. In a pipeline only the last stage gets them; the other stages receive the totals from it.
  using Predict = std::function<Predictions(nn::Context& ctx, const Dataset& data, std::span<const int64_t> indices)>;

  // All arguments must outlive it. Allocates the buffers that live from one validation to the next. Throws OutOfMemory.
  // With context parallelism, `data` holds this rank's tokens of each sample.
  Validation(nn::Context& ctx, DeviceMesh& mesh, const Dataset& data, nn::Loss& loss, Predict predict,
             const ValidationOptions& options);

  // `between` is called before every pass and may throw. Throws what communication and allocation throw.
  ValidationResult Run(const std::function<void()>& between);
  Patience& patience() { return patience_; }

 private:
  void TellReplicasApart();
  int64_t Counted(int64_t pass, int64_t replica) const;  // samples of that replica's batch that count
  void Pass(nn::Context& ctx, int64_t number);
  bool Stops(double loss);

  nn::Context& ctx_;
  DeviceMesh& mesh_;
  const int64_t replicas_, replica_;  // along dp
  const Dataset& data_;
  nn::Loss& loss_;
  const Predict predict_;
  const ValidationOptions options_;
  Tensor totals_;   // (accumulation type)[2]: the sum of the losses, and the number of right answers
  Tensor verdict_;  // (f32)[1]: 1 if this replica would stop
  Patience patience_;
};

}  // namespace twofold
