// Splits a model into the parts that the stages of a pipeline hold.
//
// There are pp * virtual_stages parts of consecutive blocks, in the model's order, with at least one block each (a
// transformer's first and last part may have none: parallel.stage_layers). Blocks are transformer blocks, an MLP's
// hidden layers or a CNN's residual blocks. The first part also has the model's input side (embedding, stem), the last
// one its output side (head). Chunk c of stage s is part c * pp + s (schedule.h).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/comm/device_mesh.h"
#include "core/nn/model_part.h"
#include "strategies/models/model.h"
#include "strategies/pipeline/executor.h"

namespace twofold {

// The number of blocks in each part, first to last. If they do not divide evenly, the first parts have one more.
std::vector<int64_t> SplitUniformly(int64_t blocks, int parts);
// Minimizes the cost of the most expensive part. Ties are broken by the least sum of squared costs, then by more blocks
// in earlier parts. `costs`: the cost of each block; `before` and `after`: additional costs of the first and the last
// part.
std::vector<int64_t> SplitByCost(std::span<const double> costs, double before, double after, int parts);

// The same for the blocks of a model, by their FLOPs.
std::vector<int64_t> SplitByCost(const Model& model, int parts);

// Parts of `sizes` blocks each.
std::vector<nn::ModelPart> PartsOf(std::span<const int64_t> sizes);
// Those of one stage among all `parts`, indexed by chunk.
std::vector<nn::ModelPart> PartsOfStage(std::span<const nn::ModelPart> parts, int stage, int stages);

// The shapes of the messages of these parts of the model.
std::vector<pipeline::Boundaries> BoundariesOf(const Model& model, std::span<const nn::ModelPart> parts,
                                               const BoundaryShare& share);

// If the head is tied, the first and the last stage both hold its table and sum its gradients (kEmbeddingTag). The
// groups for this sum: the ranks of the first and last stage with the same coordinates on the other axes. Each rank of
// another stage is a group of its own.
GroupList EndsOf(const MeshShape& mesh);

}  // namespace twofold
