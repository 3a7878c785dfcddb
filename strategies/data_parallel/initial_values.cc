#include "strategies/data_parallel/initial_values.h"

namespace twofold {

void ShareInitialValues(nn::Context& ctx, const ReplicaGroups& groups, const nn::Parameter& parameter, int64_t first,
                        const Tensor& values) {
  if (parameter.init().kind == nn::Init::kConstant) return;
  parameter.ForParts(first, values.numel(), [&](const nn::Parameter::Stretch& stretch) {
    ProcessGroup* holders = groups.HoldersOf(stretch.part.holders);
    if (holders == nullptr) return;
    Tensor drawn = values.Flat().Slice(stretch.local - first, stretch.where.count);
    holders->Broadcast(drawn, 0).WaitOn(ctx.device.compute());
  });
}

}  // namespace twofold
