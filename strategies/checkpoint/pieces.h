// The pieces of a training run's state that a rank holds, by name. Checkpoints consist of them under any layout and
// mesh. Names and shapes are those of the whole model.
#pragma once

#include <string>
#include <vector>

#include "core/io/checkpoint_manifest.h"
#include "core/nn/module.h"
#include "core/optim/optimizer.h"
#include "core/tensor/region.h"
#include "strategies/data_parallel/layout.h"
#include "strategies/local_update/local_update.h"

namespace twofold::checkpoint {

struct LocalPiece {
  // "model.<parameter>", "buffer.<buffer>", "optimizer.<state>.<parameter>", "outer.<state>.<parameter>".
  // Islands but the first have "island.<island>." before the names of their parameters and optimizer states
  std::string name;
  Shape shape;                   // of the whole tensor
  Region where;                  // in the whole tensor
  Tensor data;                   // flat, where.count elements; a view into the run's own tensor
  bool owned = true;             // false: another rank that shares the model with this one saves it
  nn::GroupTag replicas = {};    // the ranks that hold equal copies (nn::Parameter::replicas)
  std::vector<Held> holds = {};  // of a reducer's state
};

inline constexpr char kModel[] = "model.", kBuffer[] = "buffer.", kOptimizer[] = "optimizer.", kReducer[] = "reducer.",
                      kMaster[] = "master", kOuter[] = "outer.", kIsland[] = "island.";

// The bytes of all these pieces, in their element types.
Bytes BytesOf(const std::vector<LocalPiece>& pieces);

// The pieces of parameters in `tensor`, whose elements belong to those of `slice` from `offset` on. Padding is left
// out. `prefix` is prepended to the parameters' names.
std::vector<LocalPiece> PiecesOf(const std::string& prefix, const optim::Slice& slice, const Tensor& tensor,
                                 int64_t offset = 0);

// The pieces of what an optimizer keeps for `slice`.
std::vector<LocalPiece> PiecesOfStates(const optim::Slice& slice, const std::vector<optim::State>& states);

std::vector<LocalPiece> LocalParameters(ParameterLayout& layout);
// The optimizer must be attached to the layout's slices.
std::vector<LocalPiece> LocalStates(ParameterLayout& layout, const optim::Optimizer& optimizer);
// What this rank's reducers keep, whole tensors named "reducer.<rank>.<state>" (NamedState::name). Every rank has its
// own, and they depend on how gradients are divided into buckets and shards.
std::vector<LocalPiece> LocalReducerStates(const ParameterLayout& layout, int rank);
// What outer steps keep equal on all islands, and what this rank alone keeps, whole tensors named
// "outer.<state>.<rank>".
std::vector<LocalPiece> LocalOuterStates(const std::vector<FragmentState>& states);
std::vector<LocalPiece> OwnOuterStates(const std::vector<FragmentState>& states, int rank);
// The names of an island's own parameters and optimizer state.
void NameOfIsland(std::vector<LocalPiece>& pieces, int island);
std::vector<LocalPiece> LocalBuffers(const ParameterLayout& layout);

// The share of `pieces`, of which `replicas` ranks hold equal copies, that replica `replica` writes. The concatenated
// bytes are divided into equal stretches, so at most two pieces per replica are cut.
std::vector<LocalPiece> ShareOf(const std::vector<LocalPiece>& pieces, int64_t replica, int64_t replicas);

}  // namespace twofold::checkpoint
