// Context parallelism: the tokens of a sequence are divided among ranks, and in attention, the one layer whose tokens look at
// each other, keys and values go round a ring past everybody's queries.
//   Liu, Zaharia and Abbeel 2023, "Ring Attention with Blockwise Transformers for Near-Infinite Context": section 3.1.
//   What a rank's own tokens are: zig_zag.h (Megatron-LM's chunks; Brandon et al. 2023, "Striped Attention").
//
// With n ranks, b samples of t tokens, h heads of keys and values, d elements wide, in a type of s bytes, accumulated in w:
//   memory         every activation of every layer is 1/n of one process's, since each is of a rank's tokens alone. Kept from
//                  forward to backward: qkv, the output and a log-sum-exp a row, as attention on one rank. In passing, with
//                  K = 2 b (t/n) h d s bytes of keys and values and G = 2 b (t/n) h d w of their gradients: 2 K forward and
//                  2 K + 3 G backward (these and the next; what was computed, what comes and what goes), and for narrow types
//                  the output, and the gradient of qkv, in the type in which they add up. Parameters, gradients and
//                  optimizer state are not divided: shard them along dp x cp
//   communication  a layer sends and receives (n - 1) K bytes forward and (n - 1) (K + G) backward, from neighbour to neighbour:
//                  K, while the block before it is computed; G, while the one after it is; the last G alone is waited for.
//                  Recomputation sends K again. Gradients of parameters are averaged over dp x cp
//   compute        1/n of one process's; under the causal mask, half of a (t/n) x (t/n) rectangle a step on every rank:
//                    step 0       a rank's own keys: its rows are in the order of their positions, so their mask is causal, too
//                    keys of j<i  all queries against j's first chunk, which lies before both of i's; its second lies behind
//                    keys of j>i  the queries of the second chunk against all of j's, which lie between i's two chunks
// Use it where sequences are so long that activations, or attention's t^2, and not parameters are what is too much for a device:
// it is the only axis that divides both, and its messages grow with t as attention grows with t^2: hidden once a rank has
// about s * (flops/s of a device) / (bytes/s of a link) tokens of a sequence (over the ratio of queries' heads to h). Below that,
// tensor parallelism within a node comes first; the two compose: heads are then those of this rank.
// Limits: tiled attention alone (unfused stores the t x t probabilities that this is there to avoid), hence no dropout on
// probabilities; 2 n divides t. A rank waits for its neighbours in every layer: stragglers are felt at once.
#pragma once

#include "core/comm/process_group.h"
#include "core/nn/layers.h"
#include "strategies/context_parallel/zig_zag.h"

namespace twofold {

// What a rank computes at step s of the ring, when it has the keys of the rank s places before it: which of its `tokens` queries
// of a sample against which of their keys.
ops::AttentionBlock RingStep(const nn::Heads& heads, const ZigZag& place, int step, int64_t tokens);

// In place of nn::AttentionCore. x: qkv [b, t/n, (queries + 2 * keys) * width] of this rank's tokens, in the order of ZigZag;
// y: [b, t/n, queries * width]. t/n is even. The ranks of `ring` are those of one sequence, in ZigZag's order.
class RingAttention final : public nn::Module {
 public:
  // `ring` outlives it; a group of its own stream, which may be shared by the layers of a model. `overlap`: communicate while
  // computing; false: wait for every message first, for comparison.
  RingAttention(const nn::Heads& heads, ProcessGroup& ring, bool overlap) : heads_(heads), ring_(ring), overlap_(overlap) {}

  Tensor Forward(nn::Context& ctx, const Tensor& qkv, nn::Saved& saved) override;
  Tensor BackwardInput(nn::Context& ctx, Tensor dy, nn::Saved& saved) override;
  void BackwardWeights(nn::Context&, nn::Saved&) override {}
  std::string_view kind() const override { return "attention_core"; }

 private:
  enum Slot { kQkv, kOut, kLse };
  Tensor OwnKeys(nn::Context& ctx, const Tensor& qkv) const;
  Work Pass(nn::Context& ctx, std::span<const P2p> messages);
  ZigZag place() const { return {.rank = ring_.rank(), .ranks = ring_.size()}; }
  int next() const { return (ring_.rank() + 1) % ring_.size(); }
  int previous() const { return (ring_.rank() + ring_.size() - 1) % ring_.size(); }
  int64_t key_columns() const { return 2 * heads_.keys * heads_.width; }

  const nn::Heads heads_;
  ProcessGroup& ring_;
  const bool overlap_;
};

}  // namespace twofold
