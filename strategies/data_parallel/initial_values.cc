#include "strategies/data_parallel/initial_values.h"

namespace twofold {
namespace {

using nn::ShardLayout;

// If a rank holds a whole parameter, so do the other ranks along tp, whether or not its gradients are summed.
ProcessGroup* HoldersOf(const Sharers& sharers, const nn::Parameter& p, const nn::Parameter::Run& run) {
  switch (run.sum) {
    case ShardLayout::Sum::kNone: return p.numel() == p.shard_layout().whole.numel() ? sharers.tensor : nullptr;
    case ShardLayout::Sum::kTensor: return sharers.tensor;
    case ShardLayout::Sum::kKeyValue: return sharers.key_value;
    case ShardLayout::Sum::kEmbedding: return sharers.embedding;
  }
  return nullptr;
}

}  // namespace

void ShareInitialValues(nn::Context& ctx, const Sharers& sharers, const nn::Parameter& parameter, int64_t first,
                        const Tensor& values) {
  if (parameter.init().kind == nn::Init::kConstant) return;
  parameter.ForRanges(first, values.numel(), [&](const nn::Parameter::Run& run) {
    ProcessGroup* holders = HoldersOf(sharers, parameter, run);
    if (holders == nullptr || holders->size() == 1) return;
    Tensor drawn = values.Flat().Slice(run.local - first, run.count);
    holders->Broadcast(drawn, 0).WaitOn(ctx.device.compute());
  });
}

}  // namespace twofold
