// What a rank of asynchronous SGD needs from whoever trains: gradients, and somebody who watches.
#pragma once

#include <cstdint>
#include <optional>

#include "core/base/units.h"
#include "core/nn/context.h"
#include "core/optim/optimizer.h"

namespace twofold {

// A whole model on one rank that computes gradients, one batch after another, on whatever values its parameters have.
class GradientSource {
 public:
  virtual ~GradientSource() = default;
  // Computes the gradient of this worker's part of batch `batch`. Returns the mean loss over that part, for which the
  // host has waited.
  virtual double Compute(int64_t batch) = 0;
  virtual const optim::Slice& whole() const = 0;  // all parameters, one after the other, and their gradients
  virtual Tensor& loss() = 0;  // this worker's part of the mean loss over the whole batch, one element
  virtual nn::Context& nn() = 0;
};

// Is told of a rank's steps: a server's updates, or a worker's gradients.
class AsyncObserver {
 public:
  virtual ~AsyncObserver() = default;
  virtual void Begin(int64_t step) = 0;  // may throw, to end the rank
  virtual void End(int64_t step, std::optional<double> loss) = 0;
  virtual void Waited(Seconds time) = 0;     // in this step, for messages of other ranks
  virtual void Used(int64_t staleness) = 0;  // a gradient was used
  // In a replay of this rank alone, the step to do instead of `step`: the same one or a later one. A worker then ends
  // after the last step. Nullopt: this is no replay.
  virtual std::optional<int64_t> Next(int64_t step) = 0;
};

}  // namespace twofold
