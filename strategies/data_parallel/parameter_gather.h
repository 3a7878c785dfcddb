// How the shards of a unit's parameters become whole on every rank. Every way of gathering (plain, quantised, from a
// second copy) is a ParameterGather. The sharded layout (sharded.h) says when a unit is gathered.
#pragma once

#include <functional>
#include <memory>

#include "core/comm/process_group.h"
#include "core/nn/context.h"
#include "core/tensor/tensor.h"

namespace twofold {

struct Sharing;

// One object per unit and rank, used from the rank's thread. Every rank calls the same functions for the same units in
// the same order.
class ParameterGather {
 public:
  virtual ~ParameterGather() = default;
  // Starts to gather. `shard` [n]: this rank's, in device memory; it may be freed at once. `whole` [N n].
  virtual Work Start(nn::Context& ctx, const Tensor& shard, Tensor& whole) = 0;
  // Called when the compute stream is ordered after the work, before Start is called again. For work launched from now
  // on, `whole` has its values, which are equal on all ranks.
  virtual void Finish(nn::Context& /*ctx*/, const Tensor& /*whole*/) {}
  // Called when the shards have changed. Nothing is in flight.
  virtual void Updated() {}
};

// `shard`: what the unit's shards are like. All arguments but that outlive the result.
using MakeGather = std::function<std::unique_ptr<ParameterGather>(nn::Context&, const Sharing&, const Tensor& shard)>;

MakeGather PlainGathers();  // one all-gather

}  // namespace twofold
