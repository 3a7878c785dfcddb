#include "core/optim/state.h"

namespace twofold::optim {

Tensor NewMoment(nn::Context& ctx, const Slice& slice) {
  Tensor moment = ctx.device.NewTensor(slice.data.shape(), ops::AccumulationType(slice.data.dtype()),
                                       Category::kOptimizerState);
  if (moment.numel() > 0) ctx.Launch(ops::Fill{.out = moment, .value = 0});
  return moment;
}

Tensor NewMaster(nn::Context& ctx, const Slice& slice) {
  const DType wide = ops::AccumulationType(slice.data.dtype());
  if (slice.data.dtype() == wide) return Tensor();
  Tensor master = ctx.device.NewTensor(slice.data.shape(), wide, Category::kOptimizerState);
  if (master.numel() > 0) ctx.Launch(ops::Cast{.in = slice.data, .out = master});
  return master;
}

}  // namespace twofold::optim
