// Sends gradients in another type than the one they accumulate in: a narrower type for half the bytes, or a wider one
// so that sums over many ranks are rounded once.
//
// With Psi the bytes of all gradients in the wire type:
//   memory         up to Psi. When a bucket's reduction starts, it is copied into the wire type; the mean is copied
//                  back when the step ends. The copies (Category::kCommunication) live in between, so at the end of a
//                  backward pass all gradients exist a second time
//   communication  all-reduces of Psi
//   compute        two passes over the gradients a step
// Use it to halve the bytes sent, or to round sums over many ranks less often.
// Limits: a group that sums in the wire type at every hop (MPI, NCCL) rounds each time and may overflow F16. Loss
// scaling skips such a step.
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
  // A wider type represents every value of a narrower one. BF16 and F16 do not represent all of each other's values.
  bool Rounds(DType gradient) const override { return ElementSize(wire_) <= ElementSize(gradient); }

 private:
  const DType wire_;
  std::vector<Tensor> copies_;  // of buckets in flight
};

// An IdentityCodec if the two types are equal, else a CastCodec.
std::unique_ptr<GradientCodec> MakeGradientCodec(DType gradient, DType wire);

}  // namespace twofold
