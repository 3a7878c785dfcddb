// Activations computed again in backward instead of being kept (Chen et al. 2016, section 4), known as activation
// checkpointing: a wrapper that Module::WrapChild puts in a module's place. It has that module's kind, parameters and path.
//
// Forward keeps the input alone, and where in training it stood: several micro-batches may have gone forward before one goes
// back. BackwardInput first runs forward again, with the random numbers of the first time, into what is saved; what follows is
// the module's own backward. The values are those of the first time, so gradients and losses are the same to the bit. Nothing
// that lasts changes twice (running statistics stay); messages among ranks, such as those of a synchronised batch
// normalisation, travel twice.
//
// What it costs: the module's forward FLOPs once more (core/nn/flops.h), and while the module goes back, the memory that it
// would have kept.
#pragma once

#include "core/nn/module.h"

namespace twofold::nn {

// Which activations of a model are computed again: those of the last block of each `every`, 0: of none.
struct Recomputation {
  enum ModelPart { kBlock, kAttentionCore };
  int64_t every = 0;
  ModelPart part = kBlock;  // the whole block, from its input; or scores, probabilities and their dropout, from qkv

  bool Has(int64_t block) const { return every > 0 && (block + 1) % every == 0; }  // blocks count from 0
};

// x, y: the module's. No child's name: parameters have the names that they had.
class Recompute : public Module {
 public:
  explicit Recompute(std::unique_ptr<Module> module) { AddChild("", std::move(module)); }

  Tensor Forward(Context& ctx, const Tensor& x, Saved& saved) override;
  Tensor BackwardInput(Context& ctx, Tensor dy, Saved& saved) override;
  void BackwardWeights(Context& ctx, Saved& saved) override { inner().BackwardWeights(ctx, saved.child(0)); }
  Tensor Backward(Context& ctx, Tensor dy, Saved& saved) override;
  std::string_view kind() const override { return inner().kind(); }

 private:
  enum Slot { kX };
  Module& inner() const { return *children()[0].module; }
  void ForwardAgain(Context& ctx, Saved& saved);
};

}  // namespace twofold::nn
