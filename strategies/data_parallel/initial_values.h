// The first values of parameters that several ranks of one copy of the model have, and that each draws by itself: positions, routers,
// heads of keys and values that ranks share, the table that first and last stage of a pipeline share. Everybody takes those of the
// first rank that has them, so that hosts whose mathematical libraries round otherwise begin alike. From there on they update alike
// (strategies/model_parallel/gradient_sums.h). Constants (norms, biases) are the same anywhere and stay at home.
//
// With S the bytes of such parameters that a rank draws (a shard of them, where layouts shard):
//   memory         none: they are taken where they lie
//   communication  broadcasts of S, once at the start, one for each stretch of a parameter that is shared alike
// Limits: the ranks of a group must draw the same elements in the same order. They do along tp, where all ranks have parameters of
// the same shapes; a table that two stages share must be a unit of its own in a sharded layout.
#pragma once

#include "core/nn/context.h"
#include "core/nn/parameter.h"
#include "strategies/data_parallel/layout.h"

namespace twofold {

// `values` are elements [first, first + values.numel()) of this rank's part of `parameter`, as it drew them; for what is launched next
// they are those of the first of the ranks that share them. Collective over these.
void ShareInitialValues(nn::Context& ctx, const Sharers& sharers, const nn::Parameter& parameter, int64_t first, const Tensor& values);

}  // namespace twofold
