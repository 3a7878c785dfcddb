// What gradient compression keeps from step to step (reducer.h), from one generation of members to the next, where
// every replica trains whole parameters:
//   what a member left out of its own gradients    it keeps. A lost member's is lost; a new one begins with zeros. The
//                                                  next mean divides the sum of what is left by the new number of ranks
//   what was left out of a mean, by the one        goes to the member that encodes these elements of the mean now. If
//   member that encoded it                         that member is lost, this part is lost, too
//   factors (PowerSGD), equal on all               are taken from any that has them
// A member that stands by keeps nothing. So what is left out after a change is what was left out before, less the lost
// members' own. With one replica left nothing is encoded, and all is dropped.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "core/nn/context.h"
#include "strategies/checkpoint/pieces.h"
#include "strategies/data_parallel/reduction_pipeline.h"
#include "strategies/elastic/redistribute.h"

namespace twofold::elastic {

// Views into reducers' tensors.
struct LeftOut {
  std::map<std::string, Tensor> own;           // of the first stage, by NamedState::name
  std::vector<checkpoint::LocalPiece> shared;  // of later stages, and factors
};
LeftOut LeftOutOf(const std::vector<NamedState>& states);

// Fills in `to`, which holds what reducers begin with, from what this member and the others had: `had` and `have`.
// `have` and `need`: what `shared` is on each rank of `everyone`, before and after. Collective over `everyone`.
void CarryOver(nn::Context& ctx, ProcessGroup& everyone, const LeftOut& had, const std::vector<Pieces>& have,
               const LeftOut& to, const std::vector<Pieces>& need);

}  // namespace twofold::elastic
