#include "strategies/data_parallel/replica_buffers.h"

#include "core/base/check.h"

namespace twofold {

ReplicaBuffers::ReplicaBuffers(nn::Context& ctx, const std::vector<nn::Parameter*>& buffers, ProcessGroup& replicas)
    : ctx_(ctx), replicas_(replicas) {
  if (buffers.empty()) return;
  int64_t elements = 0;
  for (const nn::Parameter* b : buffers) {
    TWOFOLD_CHECK(b->dtype() == buffers[0]->dtype(), b->name() + " has another type than the buffers before it");
    elements += b->numel();
  }
  flat_ = ctx_.device.NewTensor(Shape{elements}, buffers[0]->dtype(), Category::kParameters, "buffers");
  int64_t first = 0;
  for (nn::Parameter* b : buffers) {
    b->set_data(flat_.Slice(first, b->shape()));
    b->Initialize(ctx_.device, ctx_.stream, ctx_.seed, b->data());
    first += b->numel();
  }
}

void ReplicaBuffers::Average() {
  if (replicas_.size() == 1 || flat_.empty()) return;
  replicas_.AllReduce(flat_, ReduceOp::kAvg).WaitOn(ctx_.device.compute());
}

}  // namespace twofold
