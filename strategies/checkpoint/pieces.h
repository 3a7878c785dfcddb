// What a rank holds of a training run's state, by name: what checkpoints are made from, whatever the layout and the mesh. Names
// and shapes are those of the whole model.
#pragma once

#include <string>
#include <vector>

#include "core/nn/module.h"
#include "core/optim/optimizer.h"
#include "core/io/band.h"
#include "strategies/data_parallel/layout.h"

namespace twofold::checkpoint {

// Elements [first, first + data.numel()) of a band of a tensor.
struct LocalPiece {
  std::string name;  // "model.<parameter>", "buffer.<buffer>", "optimizer.<state>.<parameter>"
  Shape shape;       // of the whole
  Band band;
  int64_t first = 0;
  Tensor data;       // flat; a view of what the run uses
  bool owned = true;  // false: another rank that shares the model with this one saves it
  nn::Replicas replicas = nn::Replicas::kAll;  // who holds it, too
};

inline constexpr char kModel[] = "model.", kBuffer[] = "buffer.", kOptimizer[] = "optimizer.", kMaster[] = "master";

// Whether what is put on the device can be had back.
bool DataExists(Device& device);

// The parts of parameters that a slice of `layout` holds: its own list, or the one whole parameter that bears its name. Counted
// in this rank's elements.
std::vector<optim::SlicePart> PartsOf(const optim::Slice& slice, const nn::Module& model);

// Where elements [first, first + flat.numel()) of this rank's part of `p` lie in the whole. What is padding is left out.
std::vector<LocalPiece> PlacesOf(const nn::Parameter& p, int64_t first, const Tensor& flat);

std::vector<LocalPiece> LocalParameters(ParameterLayout& layout);
std::vector<LocalPiece> LocalStates(ParameterLayout& layout, const optim::Optimizer& optimizer);  // attached to the layout's slices
std::vector<LocalPiece> LocalBuffers(const nn::Module& model);

// Of pieces that `replicas` ranks hold alike, the share that replica `replica` writes: laid end to end, every replica has an
// equal stretch of the bytes, and at most two pieces of each are cut.
std::vector<LocalPiece> ShareOf(const std::vector<LocalPiece>& pieces, int64_t replica, int64_t replicas);

}  // namespace twofold::checkpoint
