#include "strategies/async_sgd/options.h"

#include <array>
#include <limits>

#include "core/optim/clip.h"

namespace twofold {

Tensor AsyncUpdate::Factor(nn::Context& ctx, const Tensor& gradient, ProcessGroup* holders) const {
  if (clip_norm <= 0 && loss_scale == 1) return Tensor();
  const Tensor squares = optim::SquaredNorm(ctx, std::array{gradient}, [&](Tensor& local) {
    if (holders != nullptr && holders->size() > 1) holders->AllReduce(local).WaitOn(ctx.device.compute());
  });
  return optim::ClipFactor(ctx, squares, clip_norm > 0 ? clip_norm : std::numeric_limits<double>::infinity(),
                           1 / loss_scale);
}

}  // namespace twofold
