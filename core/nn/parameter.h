// Parameters are handles: a layout may swap the tensor behind one (the full tensor, a shard, a view into a flat buffer,
// no tensor) without the module's knowledge.
//
// Gradients. A layer that has computed (part of) a parameter's gradient does
//     Parameter::Gradient g = p.BeginGradient();      // where to write, and whether to add to what is there
//     ... Launch(... .out = g.tensor, .accumulate = g.accumulate);
//     p.EndGradient();
// After the last use of the parameter in a backward pass (a tied one has several), the ready hook runs; a data-parallel
// strategy starts its reduction there. The first write after ZeroGradient() overwrites and later ones add, so gradients
// need no clearing and micro-batches accumulate.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"

#include "core/base/check.h"
#include "core/device/device.h"
#include "core/tensor/tensor.h"

namespace twofold::nn {

// A parameter's initial values. The draws are keyed by the seed and the parameter's name, so that any shard draws its
// own part.
struct Init {
  enum Kind { kConstant, kNormal, kUniform } kind = kConstant;
  double a = 0, b = 0;  // kConstant: a; kNormal: mean a, deviation b; kUniform: [a, b)
};

// Which part of a whole parameter this rank holds, if several ranks share one copy of a model: ranges along one
// dimension, one after the other. Names and initial values are those of the whole, so that every sharding gives the
// same model.
struct ShardLayout {
  // The ranks that sum their gradients of a range before an update, because each computes only a part of it.
  enum class Sum {
    kNone,
    kTensor,     // the tensor-parallel group: all its ranks have the parameter, and each saw part of the tokens
    kKeyValue,   // the ranks of that group that have the same key and value heads
    kEmbedding,  // the first and last stage of a pipeline, which share a table
  };
  struct Range {
    int64_t first = 0, count = 0;  // along `dim` of the whole; first < 0: padding, which is and stays zero
    // Exactly one of the ranks that share the model owns it, counts it in norms and writes it to checkpoints.
    bool owned = true;
    Sum sum = Sum::kNone;
  };
  Shape whole;
  int dim = 0;
  std::vector<Range> ranges;  // together they give the local extent; if there are several, dim is 0

  static ShardLayout Whole(Shape shape, bool owned = true, Sum sum = Sum::kNone) {
    const int64_t rows = shape[0];
    return {.whole = std::move(shape), .dim = 0, .ranges = {{.first = 0, .count = rows, .owned = owned, .sum = sum}}};
  }
};

// Which ranks hold equal copies, over which gradients are averaged.
enum class Replicas {
  kAll,      // all ranks that share the batch
  kExperts,  // the ranks among them that have the same experts
};

class Parameter {
 public:
  Parameter(std::string name, Shape shape, DType dtype, Init init, bool decay = true)
      : name_(std::move(name)),
        shape_(std::move(shape)),
        dtype_(dtype),
        init_(init),
        decay_(decay),
        shard_layout_(ShardLayout::Whole(shape_)) {}
  Parameter(const Parameter&) = delete;
  Parameter& operator=(const Parameter&) = delete;

  const std::string& name() const { return name_; }  // "blocks.0.attention.qkv.weight"
  void set_name(std::string name) { name_ = std::move(name); }
  const Shape& shape() const { return shape_; }  // this rank's shape, regardless of the tensor behind it
  int64_t numel() const { return shape_.numel(); }
  DType dtype() const { return dtype_; }
  const Init& init() const { return init_; }
  // Call before Finalize's caller uses the parameter. The local shape follows from the layout: `whole`, with the length
  // of the ranges along dim.
  const ShardLayout& shard_layout() const { return shard_layout_; }  // default: all of it, owned
  void set_shard_layout(ShardLayout layout);
  Replicas replicas() const { return replicas_; }
  void set_replicas(Replicas replicas) { replicas_ = replicas; }
  // A contiguous run of local elements [local, local + count), not padding, which starts at element `whole` of the
  // whole.
  struct Run {
    int64_t local, whole, count;
    bool owned;
    ShardLayout::Sum sum;
  };
  // Visits the runs of local elements [first, first + count), in order. If columns are split, there is one run per row.
  void ForRuns(int64_t first, int64_t count, absl::FunctionRef<void(const Run&)> visit) const;
  // Visits the ranges that local elements [first, first + count) belong to, in order. A stretch of one range need not
  // be contiguous in the whole (`whole` is -1 then, and in padding).
  void ForRanges(int64_t first, int64_t count, absl::FunctionRef<void(const Run&)> visit) const;
  bool decay() const { return decay_; }  // whether weight decay applies (matrices yes; biases and norms no)

  const Tensor& data() const { return data_; }
  void set_data(Tensor t) { data_ = std::move(t); }
  const Tensor& gradient() const { return gradient_; }
  void set_gradient(Tensor t) { gradient_ = std::move(t); }

  // Writes local elements [first, first + out.numel()) of the initial value to `out`.
  void Initialize(Device& device, Stream& stream, uint64_t seed, Tensor out, int64_t first = 0) const;

  struct Gradient {
    Tensor tensor;
    bool accumulate;
  };
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
  ShardLayout shard_layout_;
  Replicas replicas_ = Replicas::kAll;
  Tensor data_, gradient_;
  bool has_gradient_ = false;
  int uses_ = 1, done_ = 0;
  std::function<void(Parameter&)> on_ready_;
};

}  // namespace twofold::nn
