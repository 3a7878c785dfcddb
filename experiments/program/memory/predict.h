// Predicts the memory of a run's ranks by replaying one rank of each kind.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "backends/host/memory_rules.h"
#include "core/memory/ledger.h"
#include "core/proto/report.pb.h"
#include "core/proto/spec.pb.h"
#include "strategies/trainer.h"

namespace twofold {

// Ranks that allocate alike, and the replay of one of them.
struct RankKind {
  std::vector<int> ranks;  // ascending
  absl::Status status;  // how the replay ended: OK, or RESOURCE_EXHAUSTED with the message that the run would end with
  report::RankRecord record;  // as in the run; its times are 0
  // at the start of the last step: device memory, and host memory for offloaded data
  MemoryStats between, host_between;
  int64_t steps = 0;       // number of replayed steps; all others repeat them
  bool settled = true;     // false: memory kept changing from step to step, and not all steps were replayed
  std::vector<int> kinds;  // as in ReplayResult
};

struct MemoryPrediction {
  host::MemoryRules rules;
  std::vector<RankKind> kinds;  // sorted by their first rank; each rank is in exactly one
  // The status of the first rank that fails; OK if the run fits.
  absl::Status status() const;
  // The kind with the highest peak.
  const RankKind& largest() const;
};

// `spec` is resolved and validated. `bounded`: memory is limited by the device and by memory.budget_mib; otherwise it
// is unlimited, which shows what a run would need. Equal to a simulated run of the same spec, to the byte. Refuses the
// specs that FindMemoryRules refuses. Another framework's device is not bounded: framework_memory.h judges that.
absl::StatusOr<MemoryPrediction> PredictMemory(const spec::Spec& spec, const Samples& samples, bool bounded = true);

}  // namespace twofold
