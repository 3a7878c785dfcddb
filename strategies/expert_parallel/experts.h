// Expert parallelism: the experts of a mixture (core/nn/mixture.h) are on different ranks, and tokens are sent to them.
//   Lepikhin et al. 2021, "GShard: Scaling Giant Models with Conditional Computation and Automatic Sharding", ICLR:
//     section 3.
//   Fedus et al. 2022, "Switch Transformers", JMLR 23(120): section 5.
//   Singh et al. 2023, "A Hybrid Tensor-Expert-Data Parallelism Approach to Optimize Mixture-of-Experts Training", ICS:
//     section 4.
//
// Among the ranks that share the batch, each group of ep consecutive ranks (along dp) holds the E experts once, E / ep
// per rank: rank i has experts [i, i + 1) E / ep. Every rank routes its own tokens and fills slots of all E experts
// with them. One all-to-all sends the slots to the ranks of their experts and another one returns the results; backward
// does the same with gradients. All other parameters are replicated as in data parallelism.
//
// With T tokens per rank of H values of s bytes, top_k experts per token and capacity factor f, there are E C = f top_k
// T slots (rounded up per expert). With P parameters in all experts together:
//   memory         parameters, gradients and optimizer state of P / ep expert parameters on a rank. A layout may shard
//                  them further among the dp cp / ep ranks that hold the same experts. Activations are those of one
//                  rank: E C slots arrive, as many as were sent. The input and output of each all-to-all exist at the
//                  same time
//   communication  each rank sends and receives, per layer and micro-batch, 4 all-to-alls of E C H s (ep - 1) / ep
//                  bytes (2 forward, 2 backward; one more pair if the block is recomputed). The gradients of experts
//                  are averaged over only dp cp / ep ranks: 2 P / ep (1 - ep / (dp cp)) values, where data parallelism
//                  alone sends 2 P (1 - 1 / (dp cp))
//   compute        that of one rank: as many slots, from more senders for fewer experts
// Use it if the experts do not fit on a rank. It replaces the traffic of the weights, once a step, by that of the
// tokens in every layer, which lies between two matrix products and is not hidden. So ep should stay within a node.
//
// Gradients. A rank's loss is the mean over its own tokens, and an expert's gradient is the sum over the ep ranks that
// send to it. So its mean over the ranks that hold the same expert would be ep times too large. The matrix product that
// computes it therefore has a factor of 1 / ep.
//
// Tensor parallelism: every expert is split like a feed-forward layer (columns of the first matrix, rows of the second:
// ffn / tp of each), and all tp ranks with the same other coordinates route the same tokens. Results are summed over tp
// (an all-reduce of E C H s bytes) before they are sent back, and so are gradients. With sequence parallelism each tp
// rank routes its own T tokens: received slots are all-gathered over tp, and results are reduce-scattered before they
// are sent back (Singh et al., section 4.2, drop the duplicates in a similar way).
//
// This page is about experts with capacities; for those without (MixtureConfig::dropless) see dropless.h. Gradients are
// the same.
//
// Limits: capacity is counted among the tokens that are routed together: those of one micro-batch on one rank. Context
// or sequence parallelism splits these tokens, and the capacity with them. With f >= E / top_k nothing is ever dropped
// and the result is that of one process; with less, other tokens may be dropped, as with another micro-batch size. The
// same holds for the auxiliary loss, which is a mean over such groups. ep must divide E, and tp the experts' ffn.
#pragma once

#include <memory>

#include "core/comm/process_group.h"
#include "core/nn/mixture.h"

namespace twofold {

// The kind of the module that holds a block's experts, for wrapping policies: a unit of a sharded layout is held by the
// same ranks throughout, so experts must be units of their own if ranks that share the batch have different ones.
inline constexpr char kExpertsKind[] = "experts";

struct ExpertGroups {
  ProcessGroup& experts;   // ranks with different experts; the group's stream is used for nothing else
  ProcessGroup& tensor;    // along tp
  bool sequence_parallel;  // ranks along tp have different rows
};

// This rank's part of a mixture. Names, initial values and results are those of nn::Mixture. The groups must outlive
// it.
std::unique_ptr<nn::Mixture> MakeExpertParallel(const nn::MixtureConfig& config, const ExpertGroups& groups);

}  // namespace twofold
