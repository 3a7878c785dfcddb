// Statistics over the micro-batches of all replicas, for synchronized batch normalization (as PyTorch's SyncBatchNorm:
// an all-gather forward and an all-reduce backward, of 2 values per channel each).
//
// These messages are small, and the compute stream waits for each of them. So they have a group, and thus a stream, of
// their own: on the replicas' group, each message of the backward pass would start only after the gradient buckets that
// were issued before it. Every rank runs the same modules in the same order, so all ranks issue the same sequence of
// collectives.
#pragma once

#include <memory>
#include <utility>

#include "core/comm/process_group.h"
#include "core/nn/statistics.h"

namespace twofold {

class ReplicaStatistics final : public nn::StatisticsReducer {
 public:
  // `replicas`: all ranks with the same parameters. No other messages may use this group. `device` must outlive this.
  ReplicaStatistics(Device& device, std::unique_ptr<ProcessGroup> replicas)
      : device_(device), replicas_(std::move(replicas)) {}
  int ranks() const override { return replicas_->size(); }
  void Gather(const Tensor& part, Tensor& all) override { replicas_->AllGather(all, part).WaitOn(device_.compute()); }
  void Sum(Tensor& values) override { replicas_->AllReduce(values, ReduceOp::kSum).WaitOn(device_.compute()); }

 private:
  Device& device_;
  const std::unique_ptr<ProcessGroup> replicas_;
};

}  // namespace twofold
