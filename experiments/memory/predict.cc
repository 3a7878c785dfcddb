#include "experiments/memory/predict.h"

#include <algorithm>
#include <string>

#include "backends/replay/replay.h"
#include "core/base/check.h"
#include "experiments/memory/repetition.h"
#include "experiments/spec/spec.h"

namespace twofold {
namespace {

RankKind ReplayRank(const spec::Spec& spec, const Samples& samples, const ReplayedRank& rank) {
  RankKind kind{.first = rank.rank, .last = rank.rank};
  Repetition repetition(spec.train());
  const ReplayResult result = Replay(rank, [&](RankContext& ctx) {
    return TrainRank(ctx, spec, samples, {}, [&](int64_t step) {
      kind.between = ctx.memory(), kind.host_between = ctx.host_memory();
      return repetition.Next(step, ctx.device().allocator().Fingerprint() + 31 * ctx.device().host_allocator().Fingerprint());
    });
  });
  kind.status = result.status;
  kind.steps = repetition.done(), kind.settled = repetition.settled();
  TWOFOLD_CHECK(kind.record.ParseFromString(result.result), "a rank's record");
  return kind;
}

// The last rank of each kind, by rank. Shards are padded, so that ranks hold equally much. Of a full checkpoint, rank 0 collects
// what the others of its shard group send, and ranks of other groups have no part in it.
std::vector<int> LastOfEachKind(const spec::Spec& spec, int ranks) {
  std::vector<int> lasts = {0};
  const bool full = spec.train().has_checkpoint() && spec.train().checkpoint().kind() == spec::Checkpoint::FULL;
  if (full && spec.parallel().sharding() == spec::Parallel::HYBRID_SHARD) lasts.push_back(static_cast<int>(spec.parallel().shard_group()) - 1);
  if (lasts.back() < ranks - 1) lasts.push_back(ranks - 1);
  return lasts;
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
  const absl::StatusOr<host::MemoryRules> rules = host::FindMemoryRules(whole);
  if (!rules.ok()) return rules.status();
  spec::Spec spec = whole;
  spec.mutable_trace()->set_enabled(false);
  spec.mutable_train()->set_shuffle(false);  // the order of samples takes time to draw, and none of the ranks' memory
  if (spec.train().has_checkpoint()) spec.mutable_train()->mutable_checkpoint()->set_path("checkpoints");  // nothing is written
  const int ranks = static_cast<int>(WorldSize(spec));
  ReplayedRank rank{.rank = 0,
                    .world_size = ranks,
                    .kind = rules->kind,
                    .threads = static_cast<int>(spec.train().threads_per_rank()),
                    .memory = bounded ? rules->device : Bytes(0),
                    .host_memory = bounded ? rules->host : Bytes(0)};
  MemoryPrediction prediction{.rules = *rules, .kinds = {}};
  for (const int last : LastOfEachKind(spec, ranks)) {
    rank.rank = last;
    RankKind kind = ReplayRank(spec, samples, rank);
    if (!prediction.kinds.empty()) {
      RankKind& before = prediction.kinds.back();
      if (Alike(before, kind)) {
        before.last = last;
        continue;
      }
      kind.first = before.last + 1;
    }
    prediction.kinds.push_back(std::move(kind));
  }
  return prediction;
}

}  // namespace twofold
