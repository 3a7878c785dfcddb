// Parameters are handles: a layout may swap what stands behind one (the full tensor, a shard, a view into a flat buffer,
// nothing) without the module knowing.
//
// Gradients. A layer that has computed (part of) a parameter's gradient does
//     Parameter::Gradient g = p.BeginGradient();      // where to write, and whether to add to what is there
//     ... Launch(... .out = g.tensor, .accumulate = g.accumulate);
//     p.EndGradient();
// After the last use of the parameter in a backward pass (a tied one has several), the ready hook runs: that is where a
// data-parallel strategy starts its reduction. The first write after ZeroGradient() overwrites, later ones add, so
// gradients need no clearing and micro-batches accumulate.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "core/base/check.h"
#include "core/base/philox.h"
#include "core/device/device.h"
#include "core/tensor/tensor.h"

namespace twofold::nn {

// How a parameter starts: keyed by seed and the parameter's name, so that any shard draws its own part.
struct Init {
  enum Kind { kConstant, kNormal, kUniform } kind = kConstant;
  double a = 0, b = 0;  // kConstant: a; kNormal: mean a, deviation b; kUniform: [a, b)
};

class Parameter {
 public:
  Parameter(std::string name, Shape shape, DType dtype, Init init, bool decay = true)
      : name_(std::move(name)), shape_(std::move(shape)), dtype_(dtype), init_(init), decay_(decay) {}
  Parameter(const Parameter&) = delete;
  Parameter& operator=(const Parameter&) = delete;

  const std::string& name() const { return name_; }  // "blocks.0.attention.qkv.weight"
  void set_name(std::string name) { name_ = std::move(name); }
  const Shape& shape() const { return shape_; }      // of the whole parameter, whatever stands behind it
  int64_t numel() const { return shape_.numel(); }
  DType dtype() const { return dtype_; }
  const Init& init() const { return init_; }
  bool decay() const { return decay_; }              // weight decay applies (matrices yes; biases and norms no)

  const Tensor& data() const { return data_; }
  void set_data(Tensor t) { data_ = std::move(t); }
  const Tensor& gradient() const { return gradient_; }
  void set_gradient(Tensor t) { gradient_ = std::move(t); }

  // Writes elements [first, first + out.numel()) of the initial value to `out`.
  void Initialize(Device& device, Stream& stream, uint64_t seed, Tensor out, int64_t first = 0) const;

  struct Gradient { Tensor tensor; bool accumulate; };
  Gradient BeginGradient() {
    TWOFOLD_CHECK(!gradient_.empty(), name_ + " has no gradient tensor: no layout was applied");
    const bool accumulate = has_gradient_;
    has_gradient_ = true;
    return {gradient_, accumulate};
  }
  void EndGradient() {
    if (++done_ < uses_) return;
    done_ = 0;
    if (on_ready_) on_ready_(*this);
  }
  void ZeroGradient() { has_gradient_ = false; }
  bool has_gradient() const { return has_gradient_; }

  void AddUse() { ++uses_; }  // one more module computes a gradient for it
  void SetReadyHook(std::function<void(Parameter&)> hook) { on_ready_ = std::move(hook); }

 private:
  std::string name_;
  Shape shape_;
  DType dtype_;
  Init init_;
  bool decay_;
  Tensor data_, gradient_;
  bool has_gradient_ = false;
  int uses_ = 1, done_ = 0;
  std::function<void(Parameter&)> on_ready_;
};

}  // namespace twofold::nn
