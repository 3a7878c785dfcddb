// Gradients travel in another type than they are kept in: narrower, for half the bytes, or wider, so that their sums over
// many ranks are rounded once.
//
// A bucket is copied into the wire type when its reduction starts, and the mean copied back when the step ends; the copies
// (Category::kCommunication) live in between, so at the end of a backward pass all gradients are held a second time, in
// the wire type. Two passes over the gradients a step. A group that sums in the wire type at every hop (MPI, NCCL) rounds
// each time, and may overflow F16: loss scaling skips such a step.
#pragma once

#include <memory>
#include <vector>

#include "strategies/data_parallel/gradient_codec.h"

namespace twofold {

class CastCodec final : public GradientCodec {
 public:
  explicit CastCodec(DType wire) : wire_(wire) {}
  Work Reduce(nn::Context& ctx, size_t index, Tensor& bucket, ProcessGroup& group) override;
  void Decode(nn::Context& ctx, size_t index, Tensor& bucket) override;
  // A type that is wider has every value of a narrower one; BF16 and F16 lack values of each other.
  bool Rounds(DType gradient) const override { return ElementSize(wire_) <= ElementSize(gradient); }

 private:
  const DType wire_;
  std::vector<Tensor> copies_;  // of buckets on their way
};

// Keeps gradients of type `gradient` as they are where they travel in that type.
std::unique_ptr<GradientCodec> MakeGradientCodec(DType gradient, DType wire);

}  // namespace twofold
