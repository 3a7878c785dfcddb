// Statistics over the micro-batches of all replicas: what synchronised batch normalisation asks for (as PyTorch's
// SyncBatchNorm: an all-gather forward, an all-reduce backward, of 2 values a channel each).
//
// They travel over the replicas' own group, in turn with the gradients' buckets. Every rank runs the same modules in the
// same order, so that all issue one sequence.
#pragma once

#include "core/comm/process_group.h"
#include "core/nn/statistics.h"

namespace twofold {

class ReplicaStatistics final : public nn::StatisticsReducer {
 public:
  ReplicaStatistics(Device& device, ProcessGroup& replicas) : device_(device), replicas_(replicas) {}
  int ranks() const override { return replicas_.size(); }
  void Gather(const Tensor& part, Tensor& all) override { replicas_.AllGather(all, part).WaitOn(device_.compute()); }
  void Sum(Tensor& values) override { replicas_.AllReduce(values, ReduceOp::kSum).WaitOn(device_.compute()); }

 private:
  Device& device_;
  ProcessGroup& replicas_;
};

}  // namespace twofold
