// What a rank holds of a training run's state, by name: what checkpoints are made from, whatever the layout.
#pragma once

#include <string>
#include <vector>

#include "core/nn/module.h"
#include "core/optim/optimizer.h"
#include "strategies/data_parallel/layout.h"

namespace twofold::checkpoint {

// Elements [first, first + data.numel()) of a flattened tensor.
struct Held {
  std::string name;  // "model.<parameter>", "buffer.<buffer>", "optimizer.<state>.<parameter>"
  Shape shape;       // of the whole
  int64_t first = 0;
  Tensor data;       // flat; a view of what the run uses
};

inline constexpr char kModel[] = "model.", kBuffer[] = "buffer.", kOptimizer[] = "optimizer.", kMaster[] = "master";

// The parts of parameters that a slice of `layout` holds: its own list, or the one whole parameter that bears its name.
std::vector<optim::Part> PartsOf(const optim::Slice& slice, const nn::Module& model);

std::vector<Held> ParametersHeld(ParameterLayout& layout);
std::vector<Held> StatesHeld(ParameterLayout& layout, const optim::Optimizer& optimizer);  // attached to the layout's slices
std::vector<Held> BuffersHeld(const nn::Module& model);

// Of pieces that `replicas` ranks hold alike, the share that replica `replica` writes: laid end to end, every replica has an
// equal stretch of the bytes, and at most two pieces of each are cut.
std::vector<Held> ShareOf(const std::vector<Held>& pieces, int64_t replica, int64_t replicas);

}  // namespace twofold::checkpoint
