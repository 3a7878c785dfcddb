// Statistics over the micro-batches of all replicas, for synchronized batch normalization (as PyTorch's SyncBatchNorm:
// an all-gather forward and an all-reduce backward, of 2 values per channel each).
//
// The messages use the replicas' own group and are ordered with the all-reduces of the gradient buckets. Every rank
// runs the same modules in the same order, so all ranks issue the same sequence of collectives.
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
