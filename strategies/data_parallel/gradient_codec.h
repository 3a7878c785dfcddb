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
};

// No compression: one all-reduce (average) of the bucket, in place.
class IdentityCodec final : public GradientCodec {
 public:
  Work Reduce(nn::Context&, size_t, Tensor& bucket, ProcessGroup& group) override {
    return group.AllReduce(bucket, ReduceOp::kAvg);
  }
  void Decode(nn::Context&, size_t, Tensor&) override {}  // the mean is where it belongs
};

}  // namespace twofold
