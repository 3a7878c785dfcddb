#include "strategies/async_sgd/gradient_factor.h"

#include <array>
#include <limits>

#include "core/optim/clip.h"

namespace twofold {

Tensor GradientFactor(nn::Context& ctx, const TrainingOptions& options, const Tensor& gradient, ProcessGroup* holders) {
  const double unscaled = 1 / options.loss_scale.scale, clip = options.clip_norm;
  if (clip <= 0 && unscaled == 1) return Tensor();
  const Tensor squares = optim::SquaredNorm(ctx, std::array{gradient}, [&](Tensor& local) {
    if (holders != nullptr && holders->size() > 1) holders->AllReduce(local).WaitOn(ctx.device.compute());
  });
  return optim::ClipFactor(ctx, squares, clip > 0 ? clip : std::numeric_limits<double>::infinity(), unscaled);
}

}  // namespace twofold
