// Expert parallelism without capacities (experts.h): every rank sends exactly the rows that its router chose.
//   Gale et al. 2023, "MegaBlocks: Efficient Sparse Training with Mixture-of-Experts", MLSys: sections 4 and 5.
//   Megatron-LM, megatron/core/transformer/moe/token_dispatcher.py, MoEAlltoAllTokenDispatcher (option
//   --moe-token-dispatcher-type alltoall, without --moe-expert-capacity-factor): the order of the steps.
//
// A rank has T tokens and top_k T rows, ordered by expert. In every layer:
//   1. the host reads how many rows each expert has, and an all-to-all of E integers tells every rank how many rows of
//      each of its experts each other rank has. (Megatron-LM all-gathers the counts of all experts, ep E integers; a
//      rank needs those of its own experts only.) The host reads these, too: sizes of tensors depend on them
//   2. an all-to-all with these counts sends the rows to the ranks of their experts
//   3. rows that arrive are ordered by sender, then by expert; they are put in the order of experts, one after another
//   4. one product for each expert that has rows
//   5. steps 3 and 2 in reverse
// Backward does steps 2 to 5 with gradients; the counts are saved.
//
// With R rows that arrive on a rank (sum over ranks: ep top_k T), H values of s bytes:
//   memory         R H s for the rows that arrive, and as much for the same rows in order, instead of E C H s. R
//                  differs from rank to rank: the busiest one has the largest peak
//   communication  per layer and micro-batch, 4 all-to-alls of top_k T H s bytes sent by each rank, and one of 4 E
//                  bytes (one more of the latter and two more of the former if the block is recomputed). Each lasts
//                  until the busiest rank has its rows
//   compute        R rows, in products of uneven sizes. The host waits for the device twice a layer
//
// Along tp, all ranks route the same tokens, so they get the same counts; results are summed over tp before they are
// sent back. Limits: sequence parallelism, under which ranks along tp would have to gather uneven numbers of rows, is
// not supported.
#pragma once

#include <memory>

#include "strategies/expert_parallel/experts.h"

namespace twofold {

// The module between a mixture and this rank's `experts`: x, y: [top_k T, hidden], with rows ordered by expert, as many
// as Context::routed says. `config`: the mixture's.
std::unique_ptr<nn::Module> MakeDroplessExperts(const nn::MixtureConfig& config, const ExpertGroups& groups,
                                                std::unique_ptr<nn::Module> experts);

}  // namespace twofold
