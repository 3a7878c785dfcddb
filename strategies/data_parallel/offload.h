// Shards of parameters and gradients in host memory, and their way to the device and back. Used by sharded.h, whose
// head says what it costs.
#pragma once

#include <map>
#include <memory>
#include <vector>

#include "core/device/transfers.h"
#include "core/nn/context.h"
#include "strategies/data_parallel/gradient_home.h"
#include "strategies/data_parallel/sharded_units.h"

namespace twofold {

// One object per rank, used from the rank's thread. `ctx` must outlive it.
class HostShards {
 public:
  explicit HostShards(nn::Context& ctx)
      : ctx_(ctx), in_(ctx.device, "host to device"), out_(ctx.device, "device to host") {}

  // Moves a shard of parameters to host memory.
  void Move(Tensor& shard);
  Tensor NewGradients(const Shape& shape, DType dtype) const;  // in host memory

  // Starts to copy the unit's shard to the device, unless its parameters or the shard are there.
  void Fetch(ShardedUnit& unit);
  // From `place` on, fetches the first unit of the same chunk whose parameters are not on the device.
  void FetchNext(const std::vector<ShardedUnit*>& order, size_t place);
  // Returns the shard on the device, for work launched from now on. Fetches it if nobody has.
  Tensor Take(ShardedUnit& unit);
  bool holds(const ShardedUnit& unit) const { return staged_.contains(&unit); }

  // A home that keeps means in `gradients`, a shard in host memory. `wire`: the type of the means that it is given.
  std::unique_ptr<GradientHome> HomeOf(Tensor gradients, DType wire);
  // Orders the compute stream after the last copy of gradients to the host.
  void Settle() { std::exchange(storing_, Transfer()).WaitOn(ctx_.device.compute()); }

 private:
  class Home;
  struct Staged {
    Tensor shard;
    Transfer copy;
  };
  nn::Context& ctx_;
  TransferStream in_, out_;
  std::map<const ShardedUnit*, Staged> staged_;  // shards on the device that have not been gathered
  Transfer storing_;
};

}  // namespace twofold
