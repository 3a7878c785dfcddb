// Adds to a report what another framework takes of memory, and judges whether it fits; and, if memory.assume_fits, how
// many bytes are missing.
#pragma once

#include "core/proto/report.pb.h"
#include "core/proto/spec.pb.h"
#include "strategies/trainer.h"

namespace twofold {

// Only for predictions. A job that does not fit under its framework ends as OUT_OF_MEMORY, without times, unless
// memory.assume_fits. A framework's memory that cannot be predicted makes the outcome a failure, and a note says why.
void AddFramework(const spec::Spec& spec, const Samples& samples, report::Report& report);

}  // namespace twofold
