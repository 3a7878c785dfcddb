// How a bucket of gradients becomes its mean over the ranks: the one place where compression enters data
// parallelism.
//
// A codec owns what it keeps per bucket (a narrow copy, the error of the last step); buckets are numbered
// from 0 in the order in which they are reduced. All ranks use the same codec with the same options.
#pragma once

#include <cstddef>

#include "core/comm/process_group.h"
#include "core/nn/context.h"
#include "core/tensor/tensor.h"

namespace twofold {

class GradientCodec {
 public:
  virtual ~GradientCodec() = default;
  // Starts the reduction of `bucket` (flat, of the type gradients add up in) over `group`, which has more than one rank.
  // Asynchronous, and a collective over the group: every rank calls it for the same buckets in the same
  // order.
  virtual Work Reduce(nn::Context& ctx, size_t index, Tensor& bucket, ProcessGroup& group) = 0;
  // Called once the compute stream is ordered after the Work: leaves the mean in `bucket`.
  virtual void Decode(nn::Context& ctx, size_t index, Tensor& bucket) = 0;
  // Whether a bucket of type `gradient` that is equal on all ranks may come back as another: then what adds up over several
  // reductions must not travel along. Yes is safe.
  virtual bool Rounds([[maybe_unused]] DType gradient) const { return true; }
};

// No compression: one all-reduce (average) of the bucket, in place.
class IdentityCodec final : public GradientCodec {
 public:
  Work Reduce(nn::Context&, size_t, Tensor& bucket, ProcessGroup& group) override {
    return group.AllReduce(bucket, ReduceOp::kAvg);
  }
  void Decode(nn::Context&, size_t, Tensor&) override {}  // the mean is where it belongs
  bool Rounds(DType) const override { return false; }     // to its own type alone, as any sum of gradients
};

}  // namespace twofold
