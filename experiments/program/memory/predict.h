// How much memory the ranks of a run take, from a replay of one rank of each kind.
#pragma once

#include <vector>

#include "absl/status/statusor.h"
#include "backends/host/memory_rules.h"
#include "core/memory/ledger.h"
#include "core/proto/report.pb.h"
#include "core/proto/spec.pb.h"
#include "strategies/trainer.h"

namespace twofold {

// Ranks that allocate alike, and what one of them does.
struct RankKind {
  std::vector<int> ranks;     // ascending
  absl::Status status;        // how it ended: OK, or RESOURCE_EXHAUSTED with the message that the run would end with
  report::RankRecord record;  // as the run's; its times are 0
  MemoryStats between, host_between;  // when the last step began: of the device, and of the host's for what is offloaded
  int64_t steps = 0;          // that were replayed: all others repeat them
  bool settled = true;        // false: steps went on to change the memory, and not all were replayed
};

struct MemoryPrediction {
  host::MemoryRules rules;
  std::vector<RankKind> kinds;  // by their first rank; together every rank once
  // Of the first rank to fail; OK: the run fits.
  absl::Status status() const;
  // The kind with the highest peak.
  const RankKind& largest() const;
};

// `spec` is whole and validated. `bounded`: by what the device has and by memory.budget_mib; else to see what a run would
// need. Equal to a simulated run of the same spec, to the byte. Refuses what host::FindMemoryRules does.
absl::StatusOr<MemoryPrediction> PredictMemory(const spec::Spec& spec, const Samples& samples, bool bounded = true);

}  // namespace twofold
