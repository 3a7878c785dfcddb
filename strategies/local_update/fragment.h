// A part of the model that islands exchange in one message, and the outer step on it (local_update.h).
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/nn/context.h"
#include "core/optim/optimizer.h"
#include "strategies/data_parallel/holder_sums.h"
#include "strategies/data_parallel/reducer.h"

namespace twofold {

// SGD on outer gradients.
struct OuterOptimizer {
  double lr = 0.7, momentum = 0.9;
  bool nesterov = true;
};

// What one rank's slices hold of a fragment.
struct FragmentPiece {
  Tensor values;      // that the optimizer updates, F32 or F64: parameters, or their masters
  Tensor parameters;  // BF16 or F16 copies of the values, or empty
  std::vector<optim::SlicePart> parts;
  int64_t numel() const { return values.numel(); }
};

// A state of one rank that a checkpoint saves.
struct FragmentState {
  std::string name;       // "parameter", "momentum"; of this rank alone: "pending_0", "residual_0"
  optim::Slice elements;  // without data
  Tensor tensor;          // one value for each of the elements
  bool own = false;       // only this rank has it, and only for this layout. Else all islands have equal values
};

// One object per fragment and rank, used from the rank's thread. Start, Advance and Finish are collective over the
// islands, and over the holders of copies if the reducer's means are not elementwise.
class Fragment {
 public:
  struct Options {
    std::optional<OuterOptimizer> outer;  // nullopt: the new common values are the mean of the islands'
    double weight = 1;                    // of the common values, when they are merged with this rank's own
    MakeReducer make_reducer;
  };
  // `pieces`: none if the fragment is empty, which is so on all islands. They must have their initial values, which are
  // equal on all islands. `groups` and `islands` must outlive it. Allocates Category::kOptimizerState. Throws
  // OutOfMemory.
  Fragment(nn::Context& ctx, size_t index, std::vector<FragmentPiece> pieces, ProcessGroup& islands,
           const ReplicaGroups& groups, const Options& options);

  void Forget() { mean_ = Tensor(); }  // after Settle: what was sent is not used
  // Forgets, too. The common values become this island's, which must be equal on all islands.
  void Restart(nn::Context& ctx);
  void Start(nn::Context& ctx);  // sends what this island has changed since the outer step before
  // The following do nothing if nothing was sent.
  void Advance(nn::Context& ctx);  // waits for one message and sends the next one, if there is one
  void Settle(nn::Context& ctx);   // waits for all messages, so that the mean is here
  void Finish(nn::Context& ctx);   // settles, and takes the outer step with the mean
  // As after Start and Settle, with a mean that the caller fills in: States names it "pending".
  void Restore(nn::Context& ctx) {
    if (numel_ > 0) mean_ = New(ctx, Category::kCommunication);
  }
  std::vector<FragmentState> States() const;  // after Settle

 private:
  Tensor New(nn::Context& ctx, Category category) const {
    return ctx.device.NewTensor(Shape{numel_}, dtype_, category);
  }
  void Merge(nn::Context& ctx, const Tensor& common, const Tensor& scratch);

  const size_t index_;
  const std::vector<FragmentPiece> pieces_;
  const Options options_;
  int64_t numel_ = 0;
  DType dtype_;
  optim::Slice elements_;             // of the whole fragment; without data
  Tensor common_, momentum_;          // the common values, and SGD's state. Empty without an outer optimizer
  std::unique_ptr<Reducer> reducer_;  // null if there is one island
  HolderSums copies_;
  std::optional<Work> work_;  // the message in flight
  Tensor mean_;               // of the islands; empty unless it has been received and not used yet
};

}  // namespace twofold
