#include "experiments/program/plan/reserved.h"

#include <algorithm>
#include <vector>

#include "core/proto/report.pb.h"
#include "experiments/program/memory/framework_memory.h"
#include "experiments/program/memory/predict.h"

namespace twofold::plan {

absl::StatusOr<int64_t> ReservedOf(const spec::Spec& spec, const Samples& samples, const framework::Framework* other) {
  const bool bounded = !spec.memory().assume_fits();
  const absl::StatusOr<MemoryPrediction> needed = PredictMemory(spec, samples, bounded && other == nullptr);
  if (!needed.ok()) return needed.status();
  if (absl::Status s = needed->status(); !s.ok()) return s;
  int64_t most = 0;
  if (other == nullptr) {
    for (const RankKind& kind : needed->kinds) most = std::max(most, kind.record.memory().reserved_bytes());
    return most;
  }
  const std::vector<report::FrameworkMemory> memory = FrameworkMemoryOf(spec, *other, *needed);
  const Bytes device = bounded ? needed->rules.device : Bytes(0);
  if (absl::Status s = FrameworkFits(memory, *needed, *other, device); !s.ok()) return s;
  for (const report::FrameworkMemory& rank : memory) most = std::max(most, rank.least_device_bytes());
  return most;
}

}  // namespace twofold::plan
