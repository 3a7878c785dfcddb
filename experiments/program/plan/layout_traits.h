// What bounds on a layout's step depend on (bound.h): traits of its spec, which is resolved.
#pragma once

#include <cstdint>

#include "core/proto/spec.pb.h"
#include "strategies/pipeline/schedule.h"

namespace twofold::plan {

pipeline::PipelineShape ShapeOf(const spec::Spec& spec);

// Ranks send other gradients in later steps than in the first ones.
bool StepsDiffer(const spec::Spec& spec);
// Replicas gather parameters or reduce gradients in every micro-batch.
bool GathersOrReducesAlways(const spec::Spec& spec);
// Ranks of the smallest group of a layout whose ranks wait for each other. 0: ranks of a kind do different work or are
// not on links that are alike, or gradients' norms, for which all ranks of a replica meet at last, are not wanted.
int64_t FewestThatMeet(const spec::Spec& spec);

}  // namespace twofold::plan
