// Optimizers update slices: pieces of parameters with their gradients. A whole parameter is one slice; a sharded layout
// passes the shards it owns. State is kept per slice, in the order in which slices are given, and allocated as
// Category::kOptimizerState when the slices are first seen.
//
// BF16 and F16 parameters get an F32 master copy in the state: the update applies to the master, and the parameter is
// the rounded master. Or there is no master, and each update of the parameter is rounded (LowPrecisionUpdate).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "core/nn/context.h"
#include "core/nn/parameter.h"
#include "core/tensor/tensor.h"

namespace twofold::optim {

// The part of one parameter that a slice holds: elements [first, first + count) of what this rank has of the parameter.
// In the slice they are elements [offset, offset + count).
struct SlicePart {
  const nn::Parameter* parameter = nullptr;  // must outlive the slice
  int64_t first = 0, offset = 0, count = 0;
};

struct Slice {
  std::string name;  // for errors
  Tensor data, gradient;
  std::vector<SlicePart> parts = {};  // in the order of their offsets; everything between and after them is padding
};

// The slice that is one whole parameter.
inline Slice WholeSlice(const nn::Parameter& p) {
  return {p.name(), p.data(), p.gradient(), {{.parameter = &p, .count = p.numel()}}};
}

// Visits the stretches of whole parameters that `parts` consist of, in order. `offset`: where a stretch begins in the
// slice.
inline void ForStretches(
    std::span<const SlicePart> parts,
    absl::FunctionRef<void(int64_t offset, const nn::Parameter&, const nn::Parameter::Stretch&)> visit) {
  for (const SlicePart& part : parts) {
    part.parameter->ForParts(part.first, part.count, [&](const nn::Parameter::Stretch& stretch) {
      visit(part.offset + stretch.local - part.first, *part.parameter, stretch);
    });
  }
}

// What an optimizer keeps for a slice, such as "exp_avg", "exp_avg_sq", "momentum_buffer" or "master". It has one
// element for each of the slice's elements from `offset` on. Or, if `parameter` is set, it has a shape of its own: the
// tensor then holds the elements `where` of a whole of shape `whole`, which belongs to this parameter.
struct State {
  std::string name;
  Tensor tensor;
  int64_t offset = 0;
  const nn::Parameter* parameter = nullptr;
  Shape whole = {};
  Region where = {};
};
// A state of one whole parameter.
struct StateShape {
  std::string name;
  Shape whole;
};

class Optimizer {
 public:
  virtual ~Optimizer() = default;
  // Allocates the state for `slices` and initialises the masters (BF16, F16). Call once, before the first Step.
  virtual void Attach(nn::Context& ctx, std::span<const Slice> slices) = 0;
  // Updates all slices given to Attach once, with one operation per non-empty slice (more if it is staged through the
  // device in chunks). lr is this step's rate. Gradients are multiplied by the element `factor` (clip.h) as they are
  // read, and do not change; empty: 1.
  virtual void Step(nn::Context& ctx, double lr, const Tensor& factor) = 0;
  void Step(nn::Context& ctx, double lr) { Step(ctx, lr, Tensor()); }
  virtual double learning_rate() const = 0;  // the base rate
  // What a checkpoint saves: the state of slice i, in the order given to Attach, and the number of updates done.
  virtual std::vector<State> StateOf(size_t i) const = 0;
  // The states that are kept for a parameter, wherever its elements are. Masters, which depend on its type, are not
  // listed.
  virtual std::vector<StateShape> StatesOf(const nn::Parameter& parameter) const = 0;
  virtual int64_t updates() const = 0;
  virtual void set_updates(int64_t updates) = 0;
};

// Where the state is: on the device, or in host memory, from where it is staged through the device for the update
// (states.h).
struct Offload {
  bool state = false;
  // Elements per chunk. 0: a sixteenth of all elements, so that transfers overlap, limited to 256 Ki to 4 Mi: such
  // transfers reach a link's full rate, and their staging memory is small.
  int64_t chunk = 0;
};

// How BF16 and F16 parameters take updates that are smaller than the spacing of their type.
struct LowPrecisionUpdate {
  enum Kind {
    kMaster,
    kNearest,  // round to nearest: small updates are lost; for comparison
    // Stochastic rounding: kept on average (ops/optimizer.h). Draws are keyed by the seed, the parameter's name, the
    // element's index and the update.
    kStochastic,
  } kind = kMaster;
  uint64_t seed = 0;
};

struct SgdOptions {
  double lr = 0.01, momentum = 0, weight_decay = 0;
  bool nesterov = false;
};
struct AdamOptions {
  double lr = 3e-4, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
  bool decoupled = true;  // AdamW (Loshchilov and Hutter 2019); false: decay is added to the gradient
  // After so many updates the second moment ("exp_avg_sq") does not change any more (Tang et al. 2021, "1-bit Adam",
  // algorithm 1). 0: it always changes
  int64_t freeze_step = 0;
};
std::unique_ptr<Optimizer> MakeSgd(const SgdOptions& options, const Offload& offload = {},
                                   const LowPrecisionUpdate& low_precision = {});
std::unique_ptr<Optimizer> MakeAdam(const AdamOptions& options, const Offload& offload = {},
                                    const LowPrecisionUpdate& low_precision = {});

// An optimizer of its own for the parameters of some roles.
struct RoleGroup {
  std::vector<nn::Role> roles;
  std::unique_ptr<Optimizer> optimizer;
  bool by_parameter = false;  // its slices never hold parts of two parameters
};
// Each parameter is updated by the optimizer of its role's group; every role that occurs must be in exactly one group.
// learning_rate() is that of the first group and must be greater than 0; the others' rates keep their ratio to it as it
// changes. Consecutive parts of a slice that belong to the same group are one slice for its optimizer, or one for each
// part (by_parameter).
std::unique_ptr<Optimizer> MakeGrouped(std::vector<RoleGroup> groups);

}  // namespace twofold::optim
