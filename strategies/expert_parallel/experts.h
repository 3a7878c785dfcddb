// Expert parallelism: the experts of a mixture (core/nn/mixture.h) lie on different ranks, and the tokens travel to them.
//   Lepikhin et al. 2021, "GShard: Scaling Giant Models with Conditional Computation and Automatic Sharding", ICLR: section 3.
//   Fedus et al. 2022, "Switch Transformers", JMLR 23(120): section 5.
//   Singh et al. 2023, "A Hybrid Tensor-Expert-Data Parallelism Approach to Optimize Mixture-of-Experts Training", ICS: section 4.
//
// Of the ranks that share the batch, ep in a row (along dp) hold the E experts once, E / ep each: rank i has [i, i + 1) E / ep.
// Every rank routes its own tokens and fills slots of all E experts with them; one all-to-all brings the slots to their experts'
// ranks, another the results back, and backward does the same with gradients. All else is replicated as before.
//
// With T tokens a rank of H values of s bytes, top_k experts a token, capacity factor f, so E C = f top_k T slots (rounded up per
// expert), and experts of P parameters together:
//   memory         P / ep parameters, gradients and optimizer state of experts on a rank, which a layout may shard further among the
//                  dp cp / ep ranks that hold the same; activations as on one rank: E C slots come in, as many as went out, and
//                  each all-to-all's input and output are here at once
//   communication  each rank sends and receives, per layer and micro-batch, 4 all-to-alls (2 forward, 2 backward; one more pair where
//                  the block is recomputed) of E C H s (ep - 1) / ep bytes each. Gradients of experts are averaged over dp cp / ep ranks only:
//                  2 P / ep (1 - ep / (dp cp)) values where data parallelism alone has 2 P (1 - 1 / (dp cp))
//   compute        that of one rank: as many slots, of fewer experts and more senders
// Its place is where experts do not fit: it trades the weights' traffic, once a step, for that of the tokens, at every layer, which
// stands between two products and hides behind nothing. So ep should stay within a node.
//
// Gradients. A rank's loss is the mean over its own tokens; an expert's gradient is the sum over the ep ranks that send to it. Its
// mean over the ranks that hold the same expert is ep times too large, so the product that makes it has a factor of 1 / ep.
//
// With tensor parallelism every expert is split as a feed-forward part is (columns of the first matrix, rows of the second: ffn / tp
// of each), and all tp ranks of a place route the same tokens: results are summed over tp (an all-reduce of E C H s bytes) before
// they travel back, gradients likewise. With sequence parallelism each tp rank routes its own T tokens: slots that came in are
// all-gathered over tp, and what is sent back is reduce-scattered (Singh et al. section 4.2 drop the duplicates likewise).
//
// Limits. Capacity is counted among the tokens that are routed together: those of one micro-batch on one rank. Where they are
// split further (context or sequence parallelism), so is the capacity: with f >= E / top_k nothing is ever dropped and the result is
// that of one process; below that, other tokens may be dropped, as another micro-batch size also would have it. The same holds
// for the auxiliary loss, a mean over such groups. ep divides E, and tp the experts' ffn.
#pragma once

#include <memory>

#include "core/comm/process_group.h"
#include "core/nn/mixture.h"

namespace twofold {

struct ExpertGroups {
  ProcessGroup& experts;   // ranks with different experts; its stream is for nothing else
  ProcessGroup& tensor;    // along tp
  bool sequence_parallel;  // along tp: ranks have rows of their own
};

// This rank's part of a mixture: names, initial values and function are those of nn::Mixture. The groups must outlive it.
std::unique_ptr<nn::Mixture> MakeExpertParallel(const nn::MixtureConfig& config, const ExpertGroups& groups);

}  // namespace twofold
