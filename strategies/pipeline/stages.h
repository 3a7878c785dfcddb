// Splits a model into the parts that the stages of a pipeline hold.
//
// There are pp * virtual_stages parts of consecutive blocks, in the model's order, with at least one block each. Blocks
// are transformer blocks, an MLP's hidden layers or a CNN's residual blocks. The first part also has the model's input
// side (embedding, stem), the last one its output side (head). Chunk c of stage s is part c * pp + s (schedule.h).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/comm/device_mesh.h"
#include "core/nn/model_part.h"
#include "core/proto/spec.pb.h"
#include "strategies/models/kinds.h"
#include "strategies/pipeline/executor.h"
#include "strategies/pipeline/schedule.h"

namespace twofold {

// The parts, as stage_layers and stage_balance of spec.parallel say. The spec is resolved and valid.
std::vector<nn::ModelPart> PartsOf(const spec::Spec& spec);
std::vector<nn::ModelPart> PartsOfStage(const spec::Spec& spec, int stage);  // indexed by chunk

// The number of blocks in each part, first to last. If they do not divide evenly, the first parts have one more.
std::vector<int64_t> SplitUniformly(int64_t blocks, int parts);
// Minimizes the cost of the most expensive part. Ties are broken by the least sum of squared costs, then by more blocks
// in earlier parts. `costs`: the cost of each block; `before` and `after`: additional costs of the first and the last
// part.
std::vector<int64_t> SplitByCost(std::span<const double> costs, double before, double after, int parts);

pipeline::Schedule ScheduleOf(const spec::Parallel& parallel);
// Stages, micro-batches per step, and chunks.
pipeline::PipelineShape PipelineShapeOf(const spec::Spec& spec);

// The message between two parts for a micro-batch of `samples`, in either direction. The second part begins at block
// `next`.
Boundary BoundaryOf(const spec::Spec& spec, int64_t next, int64_t samples);
// The shapes of the messages of these parts.
std::vector<pipeline::Boundaries> BoundariesOf(const spec::Spec& spec, std::span<const nn::ModelPart> parts,
                                               int64_t samples);

// Whether the first and the last stage both hold the table of a tied head. They then sum its gradients
// (kEmbeddingTag).
bool StagesShareTable(const spec::Spec& spec);
// The groups for this sum: the ranks of the first and last stage with the same coordinates on the other axes. Each rank
// of another stage is a group of its own.
std::vector<std::vector<int>> EndsOf(const MeshShape& mesh);

}  // namespace twofold
