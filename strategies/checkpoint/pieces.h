// The pieces of a training run's state that a rank holds, by name. Checkpoints consist of them under any layout and
// mesh. Names and shapes are those of the whole model.
#pragma once

#include <string>
#include <vector>

#include "core/io/band.h"
#include "core/nn/module.h"
#include "core/optim/optimizer.h"
#include "strategies/data_parallel/layout.h"

namespace twofold::checkpoint {

// Elements [first, first + data.numel()) of a band of a tensor.
struct LocalPiece {
  std::string name;  // "model.<parameter>", "buffer.<buffer>", "optimizer.<state>.<parameter>"
  Shape shape;       // of the whole tensor
  Band band;
  int64_t first = 0;
  Tensor data;                                 // flat; a view into the run's own tensor
  bool owned = true;                           // false: another rank that shares the model with this one saves it
  nn::Replicas replicas = nn::Replicas::kAll;  // the ranks that hold equal copies
};

inline constexpr char kModel[] = "model.", kBuffer[] = "buffer.", kOptimizer[] = "optimizer.", kMaster[] = "master";

// Whether the device stores data, so that what is uploaded can be downloaded. False in simulations without data.
bool DataExists(Device& device);

// The parts of parameters that a slice holds: its own list, or the one whole parameter with its name. Indices count
// this rank's elements.
std::vector<optim::SlicePart> PartsOf(const optim::Slice& slice, const ParameterLayout& layout);

// Where elements [first, first + flat.numel()) of this rank's part of `p` lie in the whole. Padding is left out.
std::vector<LocalPiece> PlacesOf(const nn::Parameter& p, int64_t first, const Tensor& flat);

std::vector<LocalPiece> LocalParameters(ParameterLayout& layout);
// The optimizer must be attached to the layout's slices.
std::vector<LocalPiece> LocalStates(ParameterLayout& layout, const optim::Optimizer& optimizer);
std::vector<LocalPiece> LocalBuffers(const ParameterLayout& layout);

// The share of `pieces`, of which `replicas` ranks hold equal copies, that replica `replica` writes. The concatenated
// bytes are divided into equal stretches, so at most two pieces per replica are cut.
std::vector<LocalPiece> ShareOf(const std::vector<LocalPiece>& pieces, int64_t replica, int64_t replicas);

}  // namespace twofold::checkpoint
