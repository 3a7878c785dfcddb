// A layer or a model, with explicit forward and backward passes instead of a tape.
//
// Forward stores what backward needs in a Saved object, one per micro-batch. So several micro-batches may be in flight
// at once, recomputation is just another Forward, and a schedule may run the two halves of backward at different times:
//     y  = m.Forward(ctx, x, saved)
//     dx = m.BackwardInput(ctx, dy, saved)    // keeps in `saved` what BackwardWeights needs; drops the rest
//     m.BackwardWeights(ctx, saved)           // empties `saved`
// Backward() runs both; composite modules run them child by child, so that activations are freed and gradients become
// ready as early as possible.
//
// Gradients are passed by value: a caller that moves the last handle of `dy` in lets the module free it early or
// overwrite it.
//
// Modules own their children and parameters; parameters get their full dotted names when the root is
// Finalized.
#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "core/nn/context.h"
#include "core/nn/parameter.h"

namespace twofold::nn {

// What one module saves between forward and backward of one micro-batch: a node of a tree shaped like the module tree.
// It is reused from step to step (Clear keeps the nodes), so that a step allocates no host memory.
class Saved {
 public:
  Tensor& operator[](size_t slot) {
    if (slot >= tensors_.size()) tensors_.resize(slot + 1);
    return tensors_[slot];
  }
  // Moves the tensor out, so that the caller holds the node's only handle.
  Tensor Take(size_t slot) { return std::move((*this)[slot]); }  // a tensor that was moved from is empty
  Saved& child(size_t i) {
    while (i >= children_.size()) children_.emplace_back();
    return children_[i];
  }
  void Clear() {
    key.reset();
    place.reset();
    rows.clear();
    tensors_.clear();  // keeps the capacity
    for (Saved& c : children_) c.Clear();
  }
  bool empty() const {  // nothing saved in this node or below
    for (const Tensor& t : tensors_)
      if (!t.empty()) return false;
    for (const Saved& c : children_)
      if (!c.empty()) return false;
    return true;
  }

  // The key that forward drew random numbers with, if any. Backward uses it to repeat the draws, even if the context
  // has changed.
  std::optional<PhiloxKey> key;

  // Where in training forward ran, saved by a module that runs it again (recompute.h): it gives the same draws and
  // mode.
  struct Place {
    int64_t step = 0, micro_batch = 0;
    bool training = true;
  };
  std::optional<Place> place;

  // How many rows belong to what, where only data say so: to experts (experts.h), or to ranks.
  std::vector<int64_t> rows;

 private:
  std::vector<Tensor> tensors_;
  std::deque<Saved> children_;
};

class Module {
 public:
  Module() = default;
  virtual ~Module() = default;
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;

  virtual Tensor Forward(Context& ctx, const Tensor& x, Saved& saved) = 0;
  // Fills `saved` as Forward does, for a caller that does not need the output: may leave out what only makes that.
  virtual void FillSaved(Context& ctx, const Tensor& x, Saved& saved) { Forward(ctx, x, saved); }
  // Returns an empty tensor if the input is not differentiable (token ids).
  virtual Tensor BackwardInput(Context& ctx, Tensor dy, Saved& saved) = 0;
  virtual void BackwardWeights(Context& ctx, Saved& saved) = 0;
  virtual Tensor Backward(Context& ctx, Tensor dy, Saved& saved) {
    Tensor dx = BackwardInput(ctx, std::move(dy), saved);
    BackwardWeights(ctx, saved);
    return dx;
  }

  // The kind of module, as wrapping policies name it: "linear", "transformer_block", ...
  virtual std::string_view kind() const = 0;

  // Own parameters, then those of the children in order; each parameter once, even if it is used several times.
  std::vector<Parameter*> Parameters() const;
  // Parameters of other modules that this module or its children also use (a tied head).
  std::vector<Parameter*> SharedParameters() const;
  // Persistent state that is not a parameter (running statistics of a batch norm).
  std::vector<Parameter*> Buffers() const;
  int64_t ParameterCount() const;
  struct NamedChild {
    std::string name;
    Module* module;
  };
  const std::vector<NamedChild>& children() const { return children_; }

  // Gives every module and parameter its dotted path below this module. Call once, on the root.
  void Finalize(std::string_view prefix = "");
  // "blocks.0.attention"; empty before Finalize, and at the root.
  const std::string& path() const { return path_; }

  // Replaces child i by a wrapper (recomputation, a layout that gathers parameters). `wrap` receives the child and
  // returns its new owner. Names do not change; call it after Finalize.
  void WrapChild(size_t i, absl::FunctionRef<std::unique_ptr<Module>(std::unique_ptr<Module>)> wrap);

 protected:
  Parameter* AddParameter(std::string name, Shape shape, DType dtype, Init init, Role role = Role::kMatrix);
  Parameter* AddBuffer(std::string name, Shape shape, DType dtype, Init init);
  // Registers a parameter that another module owns and this one uses, too (tied embeddings).
  void ShareParameter(Parameter* parameter) {
    parameter->AddUse();
    shared_.push_back(parameter);
  }
  template <class M>
  M* AddChild(std::string name, std::unique_ptr<M> module) {
    M* raw = module.get();
    children_.push_back({std::move(name), raw});
    owned_.push_back(std::move(module));
    return raw;
  }

 private:
  std::string path_;
  bool finalized_ = false;
  std::vector<std::unique_ptr<Parameter>> parameters_, buffers_;
  std::vector<Parameter*> shared_;
  std::vector<NamedChild> children_;
  std::vector<std::unique_ptr<Module>> owned_;
};

// While it exists, memory is asked for by the module. Whoever calls a module's passes makes one.
class InModule {
 public:
  InModule(Context& ctx, const Module& module) : scope_(ctx.owners(), {.module = module.path()}) {}

 private:
  const OwnerScope scope_;
};

}  // namespace twofold::nn
