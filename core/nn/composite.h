// A module made of child modules.
//
// A subclass says once, in Propagate, how a gradient travels back through its children. The same text serves
// both ways of running backward: child by child with the weights' gradients at once (Backward), or the
// inputs' gradients of all children first and the weights' later (BackwardInput, then BackwardWeights:
// zero-bubble schedules). The two give the same bits, because every child does the same operations on the
// same values.
//
// Children are reached by their index only, so that what WrapChild puts in their place is used.
#pragma once

#include "core/nn/module.h"

namespace twofold::nn {

class Composite : public Module {
 public:
  Tensor BackwardInput(Context& ctx, Tensor dy, Saved& saved) override;
  void BackwardWeights(Context& ctx, Saved& saved) override;  // children in reverse order
  Tensor Backward(Context& ctx, Tensor dy, Saved& saved) override;

 protected:
  // Takes a gradient back through one child, in the way that this pass runs.
  class Backprop {
   public:
    using Method = Tensor (Module::*)(Context&, Tensor, Saved&);
    Backprop(const Composite& parent, Context& ctx, Saved& saved, Method method)
        : ctx(ctx), saved(saved), parent_(parent), method_(method) {}
    Tensor operator()(size_t child, Tensor dy) const {
      return (parent_.children()[child].module->*method_)(ctx, std::move(dy), saved.child(child));
    }
    // The same through a child that is a norm on a residual stream, plus the gradient that came past it (residual_norm.h).
    Tensor operator()(size_t child, Tensor dy, const Tensor& past) const;
    // After who calls a child's BackwardInput, or what does its work and more, by itself: its weights' gradients, if now is their time.
    void EndOf(size_t child) const {
      if (method_ == &Module::Backward) parent_.children()[child].module->BackwardWeights(ctx, saved.child(child));
    }
    Context& ctx;
    Saved& saved;  // of the module itself

   private:
    const Composite& parent_;
    Method method_;
  };

  // From the gradient of the output to that of the input, through every child once, last to first.
  virtual Tensor Propagate(const Backprop& back, Tensor dy) = 0;

  // Runs one child forward. Where no backward follows, what it kept is freed before the next one runs.
  Tensor Apply(size_t child, Context& ctx, const Tensor& x, Saved& saved) {
    Tensor y = children()[child].module->Forward(ctx, x, saved.child(child));
    if (!ctx.for_backward) saved.child(child).Clear();
    return y;
  }
};

}  // namespace twofold::nn
