// A module made of child modules.
//
// A subclass describes once, in Propagate, how the gradient flows back through its children. The same code serves both
// ways of running backward: child by child, each with its weight gradients at once (Backward), or first the input
// gradients of all children and later their weight gradients (BackwardInput, then BackwardWeights, for zero-bubble
// schedules). Both give the same bits, because every child does the same operations on the same values.
//
// Access children only by index, so that a wrapper installed by WrapChild is used.
#pragma once

#include "core/nn/module.h"

namespace twofold::nn {

class Composite : public Module {
 public:
  Tensor BackwardInput(Context& ctx, Tensor dy, Saved& saved) override;
  void BackwardWeights(Context& ctx, Saved& saved) override;  // children in reverse order
  Tensor Backward(Context& ctx, Tensor dy, Saved& saved) override;

 protected:
  // Propagates a gradient back through one child, by the method that this pass uses.
  class Backprop {
   public:
    using Method = Tensor (Module::*)(Context&, Tensor, Saved&);
    Backprop(const Composite& parent, Context& ctx, Saved& saved, Method method)
        : ctx(ctx), saved(saved), parent_(parent), method_(method) {}
    Tensor operator()(size_t child, Tensor dy) const {
      const InModule in(ctx, *parent_.children()[child].module);
      return (parent_.children()[child].module->*method_)(ctx, std::move(dy), saved.child(child));
    }
    // The same for a child that is a norm on a residual stream; adds the gradient `past` that bypassed it
    // (residual_norm.h).
    Tensor operator()(size_t child, Tensor dy, const Tensor& past) const;
    // Call this after calling a child's BackwardInput directly, or doing its work in a fused pass. It computes the
    // child's weight gradients if this pass is Backward.
    void EndOf(size_t child) const {
      if (method_ != &Module::Backward) return;
      const InModule in(ctx, *parent_.children()[child].module);
      parent_.children()[child].module->BackwardWeights(ctx, saved.child(child));
    }
    Context& ctx;
    Saved& saved;  // of the module itself

   private:
    const Composite& parent_;
    Method method_;
  };

  // Takes the gradient of the output to the gradient of the input, through every child once, last to first.
  virtual Tensor Propagate(const Backprop& back, Tensor dy) = 0;

  // Runs one child forward. If no backward pass follows, frees what it saved before the next child runs.
  Tensor Apply(size_t child, Context& ctx, const Tensor& x, Saved& saved) {
    const InModule in(ctx, *children()[child].module);
    Tensor y = children()[child].module->Forward(ctx, x, saved.child(child));
    if (!ctx.for_backward) saved.child(child).Clear();
    return y;
  }
  // Likewise for FillSaved.
  void Fill(size_t child, Context& ctx, const Tensor& x, Saved& saved) {
    const InModule in(ctx, *children()[child].module);
    children()[child].module->FillSaved(ctx, x, saved.child(child));
  }
  // FillSaved of a branch dropout(inner(x)). A stored mask is made with inner's output.
  void FillBranch(size_t inner, size_t dropout, bool stores_mask, Context& ctx, const Tensor& x, Saved& saved) {
    Tensor h;
    if (stores_mask)
      h = Apply(inner, ctx, x, saved);
    else
      Fill(inner, ctx, x, saved);
    Fill(dropout, ctx, h, saved);
  }
};

}  // namespace twofold::nn
