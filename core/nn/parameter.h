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

#include <compare>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"

#include "core/base/check.h"
#include "core/device/device.h"
#include "core/tensor/region.h"
#include "core/tensor/tensor.h"

namespace twofold::nn {

// A parameter's initial values. The draws are keyed by the seed and the parameter's name, so that any shard draws its
// own part.
struct Init {
  enum Kind { kConstant, kNormal, kUniform } kind = kConstant;
  double a = 0, b = 0;  // kConstant: a; kNormal: mean a, deviation b; kUniform: [a, b)
};

// A group of ranks, by a small number. Whoever splits a model over ranks hands tags out and knows the groups behind
// them; here nothing depends on which tag it is.
struct GroupTag {
  int id = 0;  // 0: none
  bool none() const { return id == 0; }
  friend auto operator<=>(const GroupTag&, const GroupTag&) = default;
};

// What a parameter is for. Optimizers may treat roles differently; weight decay applies to matrices and embeddings.
enum class Role { kMatrix, kEmbedding, kNorm, kBias };

// Which elements of a whole parameter this rank holds, if several ranks share one copy of a model. Names and initial
// values are those of the whole, so that every sharding gives the same model.
struct ShardLayout {
  struct Part {
    Region where;          // in the whole; of padding, only the count matters
    bool padding = false;  // is and stays zero
    // Exactly one of the ranks that share the model owns it, counts it in norms and writes it to checkpoints.
    bool owned = true;
    GroupTag holders = {};  // the ranks of one copy of the model that hold these elements; none: this rank alone
    bool partial = false;   // each holder computes a part of the gradient: they are summed before an update
  };
  // Consecutive rows (indices along dimension 0).
  struct Range {
    int64_t first = 0, count = 0;  // first < 0: padding
    bool owned = true;
    GroupTag holders = {};
    bool partial = false;
  };
  Shape whole;
  std::vector<Part> parts;  // one after the other, they are this rank's parameter

  static ShardLayout Whole(Shape shape, bool owned = true, GroupTag holders = {}, bool partial = false);
  static ShardLayout Rows(Shape whole, const std::vector<Range>& ranges);
  // Indices [first, first + count) along dimension `dim`.
  static ShardLayout Along(Shape whole, int dim, int64_t first, int64_t count, bool owned = true);
};

class Parameter {
 public:
  Parameter(std::string name, Shape shape, DType dtype, Init init, Role role = Role::kMatrix)
      : name_(std::move(name)),
        shape_(std::move(shape)),
        dtype_(dtype),
        init_(init),
        role_(role),
        shard_layout_(ShardLayout::Whole(shape_)) {}
  Parameter(const Parameter&) = delete;
  Parameter& operator=(const Parameter&) = delete;

  const std::string& name() const { return name_; }  // "blocks.0.attention.qkv.weight"
  void set_name(std::string name) { name_ = std::move(name); }
  const Shape& shape() const { return shape_; }  // this rank's shape, regardless of the tensor behind it
  int64_t numel() const { return shape_.numel(); }
  DType dtype() const { return dtype_; }
  const Init& init() const { return init_; }
  Role role() const { return role_; }
  void set_role(Role role) { role_ = role; }
  // Call before Finalize's caller uses the parameter. The parts must have numel() elements.
  const ShardLayout& shard_layout() const { return shard_layout_; }  // default: all of it, owned
  void set_shard_layout(ShardLayout layout);
  // The ranks that hold equal copies and work on other parts of the batch, over which gradients are averaged. None: all
  // ranks that share the batch.
  GroupTag replicas() const { return replicas_; }
  void set_replicas(GroupTag replicas) { replicas_ = replicas; }
  // Local elements [local, local + where.count), which lie in one part.
  struct Stretch {
    int64_t local;
    Region where;  // in the whole; of padding, only the count matters
    const ShardLayout::Part& part;
  };
  // Visits the stretches that local elements [first, first + count) consist of, in order; none is empty.
  void ForParts(int64_t first, int64_t count, absl::FunctionRef<void(const Stretch&)> visit) const;

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
  Role role_;
  ShardLayout shard_layout_;
  GroupTag replicas_;
  Tensor data_, gradient_;
  bool has_gradient_ = false;
  int uses_ = 1, done_ = 0;
  std::function<void(Parameter&)> on_ready_;
};

}  // namespace twofold::nn
