// Optimizers update slices: pieces of parameters with their gradients. A whole parameter is one slice; a sharded layout
// hands in the shards it owns. State is kept per slice, in the order in which slices are given, and allocated as
// Category::kOptimizerState when the slices are first seen.
//
// Narrow parameters (bf16, f16) get an f32 master copy in the state: it leads, the parameter is its rounded image. Or they lead
// themselves, each update rounded (LowPrecisionUpdate).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/nn/context.h"
#include "core/tensor/tensor.h"

namespace twofold::optim {

// What a slice holds of one parameter: `count` elements, in the parameter from `first` on, in the slice from `offset` on.
struct SlicePart {
  std::string parameter;  // its name
  Shape shape;            // of the whole parameter
  int64_t first = 0, offset = 0, count = 0;
  bool decay = true;
};

struct Slice {
  std::string name;
  Tensor data, gradient;
  bool decay = true;  // weight decay applies; where there are parts, each says it for itself
  // In the order of their places; what lies between or after them is padding. Empty: one whole parameter of this
  // name or, where none has it, padding alone.
  std::vector<SlicePart> parts = {};
};

// What an optimizer keeps for one slice, element by element: "exp_avg", "exp_avg_sq", "momentum_buffer" or "master".
struct State {
  std::string name;
  Tensor tensor;
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  // Allocates the state for `slices` and (narrow types) copies the masters. Call once, before the first Step.
  virtual void Attach(nn::Context& ctx, std::span<const Slice> slices) = 0;
  // One update of all slices given to Attach, one operation for each that has elements (more where it visits the device in
  // pieces); lr is this step's rate. Gradients
  // are multiplied by the element `factor` (clip.h) as they are read, and stay as they are; empty: 1.
  virtual void Step(nn::Context& ctx, double lr, const Tensor& factor) = 0;
  void Step(nn::Context& ctx, double lr) { Step(ctx, lr, Tensor()); }
  virtual double learning_rate() const = 0;  // the base rate
  // What a checkpoint saves: the state of slice i, in the order given to Attach, and how many updates were done.
  virtual std::vector<State> StateOf(size_t i) const = 0;
  virtual int64_t updates() const = 0;
  virtual void set_updates(int64_t updates) = 0;
};

// Where the state lies: on the device, or in the host's memory, from where it visits the device for the update (states.h).
struct Offload {
  bool state = false;
  // Elements that visit at once; 0: a sixteenth of all, so that transfers overlap one another, from 256 Ki to 4 Mi, whose
  // transfers reach a link's full rate and whose staging is small.
  int64_t chunk = 0;
};

// How narrow parameters take updates finer than their type's spacing.
struct LowPrecisionUpdate {
  enum Kind {
    kMaster,
    kNearest,     // lost; to compare with
    kStochastic,  // taken on average (ops/optimizer.h), by draws that go by the seed, a parameter's name, an element's place and the update
  } kind = kMaster;
  uint64_t seed = 0;
};

struct SgdOptions { double lr = 0.01, momentum = 0, weight_decay = 0; bool nesterov = false; };
struct AdamOptions {
  double lr = 3e-4, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
  bool decoupled = true;  // AdamW (Loshchilov and Hutter 2019); false: decay is added to the gradient
};
std::unique_ptr<Optimizer> MakeSgd(const SgdOptions& options, const Offload& offload = {}, const LowPrecisionUpdate& low_precision = {});
std::unique_ptr<Optimizer> MakeAdam(const AdamOptions& options, const Offload& offload = {}, const LowPrecisionUpdate& low_precision = {});

}  // namespace twofold::optim
