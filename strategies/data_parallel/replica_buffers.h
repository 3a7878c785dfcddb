// A model's persistent buffers on every rank that shares the batch: one flat tensor, of one type, so that their mean over
// the ranks is one message. Their initial values are the same everywhere.
#pragma once

#include "core/comm/process_group.h"
#include "core/nn/context.h"
#include "core/nn/module.h"

namespace twofold {

class ReplicaBuffers {
 public:
  // Allocates (Category::kParameters) and fills the buffers of `module`. `ctx` and `replicas` outlive this.
  ReplicaBuffers(nn::Context& ctx, const nn::Module& module, ProcessGroup& replicas);
  // For what is launched from now on, every rank's buffers are their mean over the ranks. Collective.
  void Average();

 private:
  nn::Context& ctx_;
  ProcessGroup& replicas_;
  Tensor flat_;  // the module's buffers are views into it. Empty where it has none
};

}  // namespace twofold
