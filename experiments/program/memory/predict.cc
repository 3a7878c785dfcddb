#include "experiments/program/memory/predict.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "backends/registry.h"
#include "backends/replay/replay.h"
#include "core/base/check.h"
#include "experiments/program/memory/repetition.h"
#include "experiments/program/spec/spec.h"
#include "strategies/from_spec.h"

namespace twofold {
namespace {

RankKind ReplayRank(const spec::Train& train, const TrainingOptions& run, const Samples& samples,
                    const ReplayedRank& rank) {
  RankKind kind;
  Repetition repetition(train);
  const ReplayResult result = Replay(rank, [&](RankContext& ctx) {
    return TrainRank(ctx, run, samples, {}, [&](int64_t step) {
      kind.between = ctx.memory(), kind.host_between = ctx.host_memory();
      return repetition.Next(step,
                             ctx.device().allocator().Fingerprint() + 31 * ctx.device().host_allocator().Fingerprint());
    });
  });
  kind.status = result.status, kind.kinds = result.kinds;
  kind.steps = repetition.done(), kind.settled = repetition.settled();
  TWOFOLD_CHECK(kind.record.ParseFromString(result.result), "a rank's record");
  return kind;
}

// Ranks that may allocate alike: those of one pipeline stage, which have the same layers and numbers of micro-batches,
// and of one place along cp, which have the same part of sequences. Servers and workers tell themselves apart.
std::vector<std::vector<int>> ByPlace(const MeshShape& mesh, int world_size) {
  std::map<int, std::vector<int>> ranks;
  for (int r = 0; r < world_size; ++r) ranks[PlaceOf(mesh, r).pp].push_back(r);
  std::vector<std::vector<int>> all;
  for (auto& [place, those] : ranks) all.push_back(std::move(those));
  return all;
}

bool Alike(const RankKind& a, const RankKind& b) {
  report::Rank x = a.record.memory(), y = b.record.memory();
  x.clear_rank(), y.clear_rank();
  return a.status.code() == b.status.code() && x.SerializeAsString() == y.SerializeAsString();
}

}  // namespace

absl::Status MemoryPrediction::status() const {
  for (const RankKind& kind : kinds) {
    if (!kind.status.ok()) return kind.status;
  }
  return absl::OkStatus();
}

const RankKind& MemoryPrediction::largest() const {
  return *std::max_element(kinds.begin(), kinds.end(), [](const RankKind& a, const RankKind& b) {
    return a.record.memory().peak_bytes() < b.record.memory().peak_bytes();
  });
}

absl::StatusOr<MemoryPrediction> PredictMemory(const spec::Spec& whole, const Samples& samples, bool bounded) {
  const absl::StatusOr<host::MemoryRules> rules = FindMemoryRules(whole);
  if (!rules.ok()) return rules.status();
  spec::Spec spec = whole;
  spec.mutable_trace()->set_enabled(false);
  spec.mutable_train()->set_shuffle(false);  // drawing the order of samples takes time, but no memory of the ranks
  // nothing is written
  if (spec.train().has_checkpoint()) spec.mutable_train()->mutable_checkpoint()->set_path("checkpoints");
  const int ranks = static_cast<int>(WorldSize(spec));
  ReplayedRank rank{.rank = 0,
                    .world_size = ranks,
                    .kind = rules->kind,
                    .threads = static_cast<int>(spec.train().threads_per_rank()),
                    .memory = bounded && spec.framework() == spec::TWOFOLD ? rules->device : Bytes(0),
                    .host_memory = bounded ? rules->host : Bytes(0),
                    .staging = StagingOf(whole)};
  const TrainingOptions run = TrainingOptionsOf(spec);
  MemoryPrediction prediction{.rules = *rules, .kinds = {}};
  const auto add = [&prediction](RankKind kind, std::vector<int> of) {
    for (RankKind& known : prediction.kinds) {
      if (!Alike(known, kind)) continue;
      known.ranks.insert(known.ranks.end(), of.begin(), of.end());
      return;
    }
    kind.ranks = std::move(of);
    prediction.kinds.push_back(std::move(kind));
  };
  // Ranks that say that they differ (ProcessGroup::RanksDiffer) are replayed apart. Otherwise ranks hold equally much,
  // because heads, vocabularies and shards are padded. If the last of such ranks differs from the first nevertheless,
  // it stands for all but the first.
  std::vector<std::vector<int>> open = ByPlace(run.mesh, ranks);
  while (!open.empty()) {
    const std::vector<int> ranks = std::move(open.back());
    open.pop_back();
    rank.rank = ranks.front();
    RankKind first = ReplayRank(spec.train(), run, samples, rank);
    std::map<int, std::vector<int>> kinds;
    for (const int r : ranks) kinds[first.kinds.empty() ? 0 : first.kinds[static_cast<size_t>(r)]].push_back(r);
    std::vector<int> alike = std::move(kinds[first.kinds.empty() ? 0 : first.kinds[static_cast<size_t>(ranks[0])]]);
    for (auto& [kind, others] : kinds) {
      if (!others.empty()) open.push_back(std::move(others));
    }
    add(std::move(first), {alike.front()});
    if (alike.size() == 1) continue;
    rank.rank = alike.back();
    add(ReplayRank(spec.train(), run, samples, rank), {alike.begin() + 1, alike.end()});
  }
  for (RankKind& kind : prediction.kinds) std::sort(kind.ranks.begin(), kind.ranks.end());
  std::sort(prediction.kinds.begin(), prediction.kinds.end(),
            [](const RankKind& a, const RankKind& b) { return a.ranks[0] < b.ranks[0]; });
  return prediction;
}

}  // namespace twofold
