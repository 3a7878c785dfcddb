#include "experiments/program/memory/predict.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>
#include <utility>

#include "backends/registry.h"
#include "backends/replay/replay.h"
#include "core/base/check.h"
#include "core/base/strings.h"
#include "experiments/program/memory/repetition.h"
#include "experiments/program/spec/spec.h"
#include "strategies/data_parallel/holder_sums.h"
#include "strategies/from_spec.h"
#include "strategies/pipeline/stages.h"

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
  kind.status = result.status, kind.ranks_differ = result.ranks_differ;
  kind.steps = repetition.done(), kind.settled = repetition.settled();
  TWOFOLD_CHECK(kind.record.ParseFromString(result.result), "a rank's record");
  return kind;
}

// Ranks that are expected to allocate alike, and those of them that are replayed to verify it.
struct Expected {
  std::vector<int> ranks, replayed;
};

// How many gradients of each of a rank's slices are summed over other ranks that share the model with it, and whether
// they are contiguous (holder_sums.h). If shards cut parameters at any point, both differ from shard to shard, and so
// does the size of messages.
std::string SumsOf(const TrainingOptions& run, ReplayedRank rank) {
  rank.memory = rank.host_memory = Bytes(0);
  return Replay(rank,
                [&](RankContext& ctx) {
                  DeviceMesh mesh(ctx.world(), run.mesh);
                  ParallelLayers layers(mesh, run.layers);
                  nn::Context nn{.device = ctx.device(), .stream = ctx.device().compute()};
                  const std::vector<nn::ModelPart> parts =
                      PartsOfStage(run.parts, mesh.Coordinate(Axis::kPp), run.mesh.pp);
                  const auto layout = MakeLayout(nn, MakeStage(*run.model, run.types, parts, layers),
                                                 {mesh.Group(MeshGroup::kReplicas),
                                                  {{kTensorTag, nullptr},
                                                   {kKeyValueTag, nullptr},
                                                   {kEmbeddingTag, nullptr},
                                                   {kExpertsTag, &mesh.Group(MeshGroup::kExpertReplicas)}}},
                                                 run.layout);
                  std::string text;
                  for (const optim::Slice& slice : layout->Slices()) {
                    for (const bool partial : {true, false}) {
                      for (const auto& [holders, held] : HeldGradientsOf(slice.parts, partial))
                        StrAppend(&text, holders.id, " ", held.elements, " ", held.stretches.size() > 1, ";");
                    }
                    StrAppend(&text, "|");
                  }
                  return text;
                })
      .result;
}

// Stages of a pipeline differ in layers and in numbers of micro-batches; ranks along cp have different parts of
// sequences; shards differ in the sums above. Otherwise ranks hold equally much, because heads, vocabularies and shards
// are padded. If the last of such ranks differs from the first nevertheless, it represents all but the first. Where
// ranks say that they differ (ProcessGroup::RanksDiffer), PredictMemory replays each.
std::vector<Expected> ExpectedKinds(const TrainingOptions& run, const ReplayedRank& rank) {
  const MeshShape& mesh = run.mesh;
  const bool cut = run.layout.sharded() && (mesh.tp > 1 || mesh.pp > 1);
  std::map<std::tuple<int, int, int>, std::string> sums;  // by pp, dp, cp
  std::map<std::tuple<int, int, std::string>, Expected> kinds;
  for (int r = 0; r < mesh.size(); ++r) {
    const MeshPlace at = PlaceOf(mesh, r);
    const auto [known, fresh] = sums.try_emplace({at.pp, at.dp, at.cp});
    if (fresh && cut) {
      ReplayedRank here = rank;
      here.rank = r;
      known->second = SumsOf(run, here);
    }
    kinds[{at.pp, at.cp, known->second}].ranks.push_back(r);
  }
  std::vector<Expected> all;
  for (auto& [key, kind] : kinds) {
    kind.replayed = {kind.ranks.front()};
    if (kind.ranks.size() > 1) kind.replayed.push_back(kind.ranks.back());
    all.push_back(std::move(kind));
  }
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
                    .memory = bounded ? rules->device : Bytes(0),
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
  for (Expected& expected : ExpectedKinds(run, rank)) {
    for (size_t i = 0; i < expected.replayed.size(); ++i) {
      rank.rank = expected.replayed[i];
      RankKind kind = ReplayRank(spec.train(), run, samples, rank);
      if (kind.ranks_differ) expected.replayed = expected.ranks;
      const auto from = expected.ranks.begin() + static_cast<std::ptrdiff_t>(i);
      add(std::move(kind), {from, i + 1 < expected.replayed.size() ? from + 1 : expected.ranks.end()});
    }
  }
  for (RankKind& kind : prediction.kinds) std::sort(kind.ranks.begin(), kind.ranks.end());
  std::sort(prediction.kinds.begin(), prediction.kinds.end(),
            [](const RankKind& a, const RankKind& b) { return a.ranks[0] < b.ranks[0]; });
  return prediction;
}

}  // namespace twofold
