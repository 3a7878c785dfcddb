// How a bucket of gradients is reduced to its mean over the ranks. Gradient compression for data parallelism is added
// here and nowhere else.
//
// A codec owns its state per bucket (a low-precision copy, the error of the last step). Buckets are numbered from 0 in
// the order in which they are reduced. All ranks must use the same codec with the same options.
#pragma once

#include <cstddef>

#include "core/comm/process_group.h"
#include "core/nn/context.h"
#include "core/tensor/tensor.h"

namespace twofold {

class GradientCodec {
 public:
  virtual ~GradientCodec() = default;
  // Starts the reduction of `bucket` (flat, in the type in which gradients accumulate) over `group`, which has more
  // than one rank. Asynchronous and collective over the group: every rank calls it for the same buckets in the same
  // order.
  virtual Work Reduce(nn::Context& ctx, size_t index, Tensor& bucket, ProcessGroup& group) = 0;
  // Writes the mean to `bucket`. Called when the compute stream is ordered after the Work.
  virtual void Decode(nn::Context& ctx, size_t index, Tensor& bucket) = 0;
  // Whether reducing a bucket of type `gradient` that is equal on all ranks may change its values. If so, sums over
  // several reductions must be kept out of the bucket. Returning true is always safe.
  virtual bool Rounds([[maybe_unused]] DType gradient) const { return true; }
};

// No compression: one all-reduce (average) of the bucket, in place.
class IdentityCodec final : public GradientCodec {
 public:
  Work Reduce(nn::Context&, size_t, Tensor& bucket, ProcessGroup& group) override {
    return group.AllReduce(bucket, ReduceOp::kAvg);
  }
  void Decode(nn::Context&, size_t, Tensor&) override {}  // the mean is already in the bucket
  bool Rounds(DType) const override { return false; }     // rounds to the gradients' own type only, as any sum does
};

}  // namespace twofold
