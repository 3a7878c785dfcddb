// Whether what a run needs is there: on a device whose size is known, else in this machine's memory, else it is not known.
#pragma once

#include <optional>
#include <string>

#include "absl/status/status.h"
#include "core/base/units.h"
#include "core/proto/spec.pb.h"
#include "experiments/program/memory/predict.h"

namespace twofold {

struct MemoryVerdict {
  std::optional<bool> fits;  // absent: not known
  std::string text;          // a sentence or two, with the limit
  absl::Status status;       // what a report says of it: RESOURCE_EXHAUSTED where it does not fit
  Bytes machine;             // of this machine, where all ranks share it; else zero
};

// `prediction`: bounded. `needed`: not bounded; the same one where it fits.
MemoryVerdict JudgeMemory(const spec::Spec& spec, const MemoryPrediction& prediction, const MemoryPrediction& needed);

}  // namespace twofold
