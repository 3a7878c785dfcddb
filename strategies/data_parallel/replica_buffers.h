// A model's persistent buffers on every rank that shares the batch. They form one flat tensor of one type, so that
// averaging them over the ranks takes one message. Their initial values are the same on all ranks.
#pragma once

#include <vector>

#include "core/comm/process_group.h"
#include "core/nn/context.h"
#include "core/nn/parameter.h"

namespace twofold {

class ReplicaBuffers {
 public:
  // Allocates (Category::kParameters) and initializes `buffers`. All arguments must outlive this object.
  ReplicaBuffers(nn::Context& ctx, const std::vector<nn::Parameter*>& buffers, ProcessGroup& replicas);
  // Replaces every rank's buffers, for work launched from now on, with their mean over the ranks. Collective.
  void Average();

 private:
  nn::Context& ctx_;
  ProcessGroup& replicas_;
  Tensor flat_;  // the buffers are views into it; empty if there are none
};

}  // namespace twofold
