// How a model is cut into the parts that the stages of a pipeline hold.
//
// pp * virtual_stages parts of consecutive blocks, at least one each, in the order of the model; the first one has the embedding,
// the last one the head. Chunk c of stage s is part c * pp + s (schedule.h).
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "core/comm/device_mesh.h"
#include "core/nn/language_model.h"
#include "core/proto/spec.pb.h"
#include "core/tensor/tensor.h"
#include "strategies/pipeline/schedule.h"

namespace twofold {

// What spec.parallel says of stage_layers and stage_balance; the spec is resolved and valid. A model that does not split is one part.
std::vector<nn::ModelPart> PartsOf(const spec::Spec& spec);
std::vector<nn::ModelPart> PartsOfStage(const spec::Spec& spec, int stage);  // by chunk

// How many of `blocks` each part has, first to last: as many everywhere, the first ones one more where they do not divide evenly.
std::vector<int64_t> SplitUniformly(int64_t blocks, int parts);
// So that the most expensive part costs least; of those ways, the one with the least sum of squared costs, and then the one with
// more in earlier parts. `costs` are the blocks' own, `before` and `after` what comes with the first and the last part.
std::vector<int64_t> SplitByCost(std::span<const double> costs, double before, double after, int parts);

pipeline::Schedule ScheduleOf(const spec::Parallel& parallel);
// Stages, micro-batches of a step, and chunks.
pipeline::PipelineShape PipelineShapeOf(const spec::Spec& spec);

// What crosses from one part to the next of a micro-batch of `samples`, and its gradient on the way back: this rank's hidden states,
// [samples, tokens, hidden]. Of the sequence's tokens a rank has 1 / cp, and 1 / tp of those under sequence parallelism.
Shape BoundaryShape(const spec::Spec& spec, int64_t samples);

// Whether first and last stage both hold the table of a tied head, whose gradients they sum (nn::ShardLayout::Sum::kEmbedding), and between
// whom: ranks of first and last stage of equal place in the rest of the mesh; ranks of other stages alone.
bool StagesShareTable(const spec::Spec& spec);
std::vector<std::vector<int>> EndsOf(const MeshShape& mesh);

}  // namespace twofold
