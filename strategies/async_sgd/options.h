// How asynchronous SGD trains: what is common to parameter servers and gossip.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "core/comm/process_group.h"
#include "core/optim/optimizer.h"
#include "core/optim/schedule.h"

namespace twofold {

struct AsyncSgdOptions {
  bool gossip = false;               // no servers: workers average with one another (gossip.h)
  int servers = 1;                   // 0 with gossip
  std::optional<int64_t> staleness;  // the bound, in updates; nullopt: none
  bool staleness_aware = false;      // a gradient counts 1 / its staleness, at most 1 (Zhang et al. 2016, equation 6)
  DType gradient = DType::kF32;      // type of gradients, on workers and servers
};

// How a gradient changes parameters.
struct AsyncUpdate {
  std::function<std::unique_ptr<optim::Optimizer>()> make_optimizer;
  optim::LrSchedule learning_rate;
  double clip_norm = 0;   // 0: gradients are not clipped
  double loss_scale = 1;  // the factor that gradients contain

  // For Optimizer::Step: clips the gradient and undoes the loss scale; empty: 1. `gradient`: this rank's part of it.
  // `holders`: the ranks that hold the other parts; null, or one rank: it is whole. Collective over `holders`.
  Tensor Factor(nn::Context& ctx, const Tensor& gradient, ProcessGroup* holders = nullptr) const;
};

}  // namespace twofold
