// Initial values of parameters that several ranks of one copy of the model hold and that each of them draws: positions,
// routers, key/value heads that ranks share, the table that the first and last pipeline stage share. All of them take
// the values of the first rank that holds the parameter, so that hosts whose math libraries round differently start
// equal. From then on they are updated equally (holder_sums.h). Constants (norms, biases) are the same everywhere and
// are not sent.
//
// With S the bytes of such parameters that a rank draws (of its shard, in sharded layouts):
//   memory         none: values are broadcast in place
//   communication  broadcasts of S, once at the start: one for each stretch of a parameter shared by the same ranks
//   compute        none
// Limits: the ranks of a group must draw the same elements in the same order. Along tp they do, since all ranks have
// parameters of the same shapes. A table that two stages share must be a unit of its own in a sharded layout.
#pragma once

#include "core/nn/context.h"
#include "core/nn/parameter.h"
#include "strategies/groups/group_tags.h"

namespace twofold {

// `values` are elements [first, first + values.numel()) of this rank's part of `parameter`, as this rank drew them.
// Replaces them, for work launched after this call, with those of the first of the ranks that share them. Collective
// over these ranks.
void ShareInitialValues(nn::Context& ctx, const ReplicaGroups& groups, const nn::Parameter& parameter, int64_t first,
                        const Tensor& values);

}  // namespace twofold
