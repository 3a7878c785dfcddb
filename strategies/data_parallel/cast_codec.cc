#include "strategies/data_parallel/cast_codec.h"

#include <memory>
#include <utility>

namespace twofold {

Work CastCodec::Reduce(nn::Context& ctx, size_t index, Tensor& bucket, ProcessGroup& group) {
  if (copies_.size() <= index) copies_.resize(index + 1);
  Tensor& copy = copies_[index];
  TWOFOLD_CHECK(copy.empty(), "a bucket is decoded before it is reduced again");
  copy = ctx.device.NewTensor(bucket.shape(), wire_, Category::kCommunication);
  ctx.Launch(ops::Cast{.in = bucket, .out = copy});
  return group.AllReduce(copy, ReduceOp::kAvg);
}

void CastCodec::Decode(nn::Context& ctx, size_t index, Tensor& bucket) {
  ctx.Launch(ops::Cast{.in = std::exchange(copies_[index], Tensor()), .out = bucket});
}

std::unique_ptr<GradientCodec> MakeGradientCodec(DType gradient, DType wire) {
  if (gradient == wire) return std::make_unique<IdentityCodec>();
  return std::make_unique<CastCodec>(wire);
}

}  // namespace twofold
