// From a spec's sharding options to the layout of a model's parameters over the ranks that share the batch.
#pragma once

#include <memory>

#include "core/proto/spec.pb.h"
#include "strategies/data_parallel/layout.h"

namespace twofold {

// Takes ownership of the model; `ctx` and `replicas` must outlive the layout. The spec is resolved and valid.
// Collective over `replicas`. Throws OutOfMemory.
std::unique_ptr<ParameterLayout> MakeLayout(nn::Context& ctx, std::unique_ptr<nn::Module> model,
                                            const ReplicaGroups& replicas, const spec::Spec& spec);

}  // namespace twofold
