// Context parallelism: the tokens of a sequence are divided among ranks. In attention, the only layer in which tokens
// depend on each other, the keys and values of each rank are passed around a ring of the ranks.
//   Liu, Zaharia and Abbeel 2023, "Ring Attention with Blockwise Transformers for Near-Infinite Context": section 3.1.
//   For the tokens of each rank see zig_zag.h (Megatron-LM's chunks; Brandon et al. 2023, "Striped Attention").
//
// With n ranks, b samples of t tokens, and h key/value heads of d elements, in a type of s bytes that accumulates in w
// bytes:
//   memory         every activation of every layer is 1/n of one process's, since each rank has only its own tokens.
//                  Saved for backward: qkv, the output and one log-sum-exp per row, as in attention on one rank.
//                  Temporary, with K = 2 b (t/n) h d s bytes of keys and values and G = 2 b (t/n) h d w bytes of their
//                  gradients: 2 K forward (the current and the next block) and 2 K + 3 G backward (also the gradients
//                  just computed, those being received and those being sent). For BF16 and F16 also the output, or the
//                  gradient of qkv, in the accumulation type. Parameters, gradients and optimizer state are not
//                  divided: shard them along dp x cp
//   communication  a layer sends and receives (n - 1) K bytes forward and (n - 1) (K + G) backward, between neighbours.
//                  K is sent while the block before it is computed, G while the block after it is computed; only the
//                  last G is waited for. Recomputation sends K again. Gradients of parameters are averaged over dp x cp
//   compute        1/n of one process's. Under the causal mask every rank computes half of a (t/n) x (t/n) rectangle
//                  per step:
//                    step 0       a rank's own keys. Its rows are in the order of their positions, so their mask is
//                                 causal, too
//                    keys of j<i  all queries against j's first chunk, which is before both of i's; j's second chunk is
//                                 after both
//                    keys of j>i  the queries of the second chunk against all of j's keys, which are between i's two
//                                 chunks
// Use it if sequences are so long that activations, or attention's t^2, and not parameters are too much for a device:
// no other axis divides both. Its messages grow with t while attention grows with t^2, so they are hidden once a rank
// has about s * (flops/s of a device) / (bytes/s of a link) tokens of a sequence (divided by the ratio of query heads
// to h). With fewer tokens, use tensor parallelism within a node first. The two can be combined: heads are then those
// of this rank.
// Limits: tiled attention only (unfused attention stores the t x t probabilities that this avoids), hence no dropout on
// probabilities. 2 n divides t. A rank waits for its neighbours in every layer, so a straggler delays all ranks at
// once.
#pragma once

#include "core/comm/process_group.h"
#include "core/nn/layers.h"
#include "strategies/context_parallel/zig_zag.h"

namespace twofold {

// The block that a rank computes at step `step` of the ring, when it has the keys of the rank `step` places before it:
// which of its `tokens` queries of a sample against which of these keys.
ops::AttentionBlock RingStep(const nn::Heads& heads, const ZigZag& place, int step, int64_t tokens);

// Replaces nn::AttentionCore. x: qkv [b, t/n, (queries + 2 * keys) * width] of this rank's tokens, in the order of
// ZigZag; y: [b, t/n, queries * width]. t/n is even. The ranks of `ring` share one sequence and are in ZigZag's order.
class RingAttention final : public nn::Module {
 public:
  // `ring` must outlive it and have a stream of its own; the layers of a model may share it. `overlap`: communicate
  // while computing; false: wait for every message first, for comparison.
  RingAttention(const nn::Heads& heads, ProcessGroup& ring, bool overlap)
      : heads_(heads), ring_(ring), overlap_(overlap) {}

  Tensor Forward(nn::Context& ctx, const Tensor& qkv, nn::Saved& saved) override;
  Tensor BackwardInput(nn::Context& ctx, Tensor dy, nn::Saved& saved) override;
  void BackwardWeights(nn::Context&, nn::Saved&) override {}
  std::string_view kind() const override { return "attention_core"; }

 private:
  enum Slot { kQkv, kOut, kLse };
  Tensor OwnKeys(nn::Context& ctx, const Tensor& qkv) const;
  Work Pass(nn::Context& ctx, std::span<const P2p> messages);
  void TellRanksApart(const nn::Context& ctx, const ops::AttentionBlockForward& whole);
  ZigZag Place(int rank) const { return {.rank = rank, .ranks = ring_.size()}; }
  int next() const { return (ring_.rank() + 1) % ring_.size(); }
  int previous() const { return (ring_.rank() + ring_.size() - 1) % ring_.size(); }
  int64_t key_columns() const { return 2 * heads_.keys * heads_.width; }

  const nn::Heads heads_;
  ProcessGroup& ring_;
  const bool overlap_;
  Shape told_;  // of the last qkv for which ranks were told apart, or found to be alike
  // The rank of the ring whose blocks this one computes: itself, or if it stands for all, the slowest.
  int forward_ = ring_.rank(), backward_ = ring_.rank();
};

}  // namespace twofold
