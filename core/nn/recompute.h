// Activation checkpointing (Chen et al. 2016, section 4): activations are recomputed in backward instead of being
// saved. It is a wrapper that Module::WrapChild puts in a module's place. It has that module's kind, parameters and
// path.
//
// Forward saves only the input and its place in training, because several micro-batches may go forward before one goes
// back. BackwardInput first runs forward again, with the random numbers of the first run, which fills `saved`; then it
// runs the module's own backward. The values equal those of the first run, so gradients and losses are the same to the
// bit. Persistent state (running statistics) is not updated again. Communication among ranks, such as that of a
// synchronised batch normalisation, happens twice.
//
// With an early stop, what only makes the module's output is not run again, since nobody reads that: in a transformer
// block the last product of the feed-forward part, the sum over tensor-parallel ranks behind it, and the addition to
// the residual stream. PyTorch does so by default (torch.utils.checkpoint.set_checkpoint_early_stop, from 2.1 on);
// Megatron-LM and DeepSpeed run the whole block.
//
// Cost: the module's forward FLOPs once more, less those of that product with an early stop (core/nn/flops.h), and,
// during its backward pass, the memory that it would have saved.
#pragma once

#include "core/nn/module.h"

namespace twofold::nn {

// Which activations of a model are recomputed: those of the last of each `every` blocks; 0: none.
struct Recomputation {
  enum ModelPart { kBlock, kAttentionCore };
  int64_t every = 0;
  ModelPart part = kBlock;  // the whole block, from its input; or scores, probabilities and their dropout, from qkv
  bool early_stop = false;  // leave out what only makes the output of what is recomputed

  bool Has(int64_t block) const { return every > 0 && (block + 1) % every == 0; }  // blocks count from 0
};

// x, y: as for the module. The child's name is empty, so that parameters keep their names.
class Recompute : public Module {
 public:
  explicit Recompute(std::unique_ptr<Module> module, bool early_stop = false) : early_stop_(early_stop) {
    AddChild("", std::move(module));
  }

  Tensor Forward(Context& ctx, const Tensor& x, Saved& saved) override;
  Tensor BackwardInput(Context& ctx, Tensor dy, Saved& saved) override;
  void BackwardWeights(Context& ctx, Saved& saved) override { inner().BackwardWeights(ctx, saved.child(0)); }
  Tensor Backward(Context& ctx, Tensor dy, Saved& saved) override;
  std::string_view kind() const override { return inner().kind(); }

 private:
  enum Slot { kX };
  Module& inner() const { return *children()[0].module; }
  void ForwardAgain(Context& ctx, Saved& saved);
  const bool early_stop_;
};

}  // namespace twofold::nn
