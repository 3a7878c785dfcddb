// Whether the memory that a run needs is there: on the device if its size is known, else in this machine; else unknown.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "core/base/units.h"
#include "core/proto/spec.pb.h"
#include "experiments/program/memory/framework_memory.h"
#include "experiments/program/memory/predict.h"

namespace twofold {

struct MemoryVerdict {
  std::optional<bool> fits;  // absent: not known
  std::string text;          // a sentence or two, with the limit
  absl::Status status;       // for the report: RESOURCE_EXHAUSTED if it does not fit
  Bytes machine;             // memory of this machine if all ranks share it; else zero
};

// `prediction`: bounded. `needed`: not bounded; equal to `prediction` if it fits.
MemoryVerdict JudgeMemory(const spec::Spec& spec, const MemoryPrediction& prediction, const MemoryPrediction& needed);

// Likewise under another framework; `memory`: of each kind of `needed`.
MemoryVerdict JudgeFramework(const MemoryPrediction& needed, const framework::Framework& f,
                             const std::vector<report::FrameworkMemory>& memory);

}  // namespace twofold
