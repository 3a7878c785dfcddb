#include "experiments/program/plan/bound.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "backends/registry.h"
#include "core/comm/device_mesh.h"
#include "core/proto/world_size.h"
#include "experiments/program/plan/layout_traits.h"
#include "experiments/program/plan/pipeline_bound.h"
#include "experiments/program/plan/rank_sums.h"
#include "experiments/program/plan/small_job.h"
#include "strategies/from_spec.h"
#include "strategies/pipeline/stages.h"
#include "topologies/frameworks.h"

namespace twofold::plan {
namespace {

using spec::Parallel;

// What is gathered for an action depends on the one before it, so that all pairs that follow one another must occur
// (`every`). Else only what comes between steps is new, which follows the last micro-batch.
int MicroBatchesToReplay(const pipeline::PipelineShape& shape, bool every) {
  const int least = shape.chunks > 1 ? shape.stages : 1;  // that the schedule needs
  // A step's first backward pass of a micro-batch writes gradients, and the later ones add to them.
  const int wanted = !every              ? 2
                     : shape.stages == 1 ? kSmallMicroBatches
                     : shape.chunks > 1  ? 2 * shape.stages
                                         : shape.stages + 2;
  return std::min(shape.micro_batches, (wanted + least - 1) / least * least);
}

// A shorter step of the same ranks.
spec::Spec WithMicroBatches(int64_t micro_batches, spec::Spec spec) {
  spec.mutable_train()->set_global_batch(micro_batches * spec.parallel().dp() * spec.train().micro_batch());
  spec.mutable_train()->clear_epochs();
  return spec;
}

// Stages between the ends that have equally many blocks are alike, where their ranks are equally far apart.
bool IsLikeTheOneBefore(int stage, const pipeline::PipelineShape& shape, const std::vector<int>& kinds,
                        const std::vector<nn::ModelPart>& parts) {
  if (stage <= 1 || stage + 1 >= shape.stages) return false;
  if (kinds[static_cast<size_t>(stage)] != kinds[static_cast<size_t>(stage - 1)]) return false;
  for (int c = 0; c < shape.chunks; ++c) {
    const nn::ModelPart &a = parts[static_cast<size_t>(c * shape.stages + stage - 1)],
                        &b = parts[static_cast<size_t>(c * shape.stages + stage)];
    if (a.last_block - a.first_block != b.last_block - b.first_block) return false;
  }
  return true;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Bounds>> Bounds::Make(const spec::Spec& any, const Samples& samples) {
  const absl::StatusOr<host::MemoryRules> rules = FindMemoryRules(any);
  if (!rules.ok()) return rules.status();
  absl::StatusOr<std::unique_ptr<LeastTimes>> times = MakeLeastTimes(any);
  if (!times.ok()) return times.status();
  host::MemoryRules bounded = *rules;
  if (any.memory().assume_fits()) bounded.device = bounded.host = Bytes(0);
  std::unique_ptr<Bounds> bounds(new Bounds(samples, bounded, *std::move(times)));
  if (any.framework() == spec::TWOFOLD) return bounds;
  const absl::StatusOr<framework::Framework> f = FindFramework(any);
  if (!f.ok()) return f.status();
  bounds->framework_ = *f, bounds->has_framework_ = true;
  bounds->rules_of_replay_.device = Bytes(0);  // what this program holds may be more than what that one does
  return bounds;
}

Bounds::Quick Bounds::QuickOf(const spec::Spec& spec, bool path) {
  Quick quick;
  const Pieces* const pieces = pieces_.Of(spec);
  if (pieces == nullptr) return quick;
  const std::vector<nn::ModelPart> parts = PartsOf(spec.parallel(), *ModelOf(spec.model()));
  quick.bytes = memory_.BytesOf(spec, *pieces, parts, quick.what);
  const StagesOfPieces made = pieces_.Compose(spec, *pieces, parts);
  const std::vector<StageTimes>& stages = made.stages;
  const double less = made.less + (likeness_.DeviationsOf(spec, StagePieces::kFewest) > 0 ? pieces->cp_apart : 0);
  const pipeline::Schedule schedule = ScheduleOf(spec.parallel());
  const pipeline::PipelineShape shape = ShapeOf(spec);
  quick.seconds = QuickPath(schedule, shape, stages) - less;
  // A stream does one thing after another. Units at the ends of the model may stay gathered.
  const double replicas = pieces_.ReplicasOf(spec, pieces->blocks);
  for (int s = 0; s < shape.stages && replicas > 0; ++s) {
    int64_t blocks = 0;
    for (const nn::ModelPart& part : PartsOfStage(parts, s, shape.stages))
      blocks += std::max<int64_t>(0, part.last_block - part.first_block - part.embedding - part.head);
    quick.seconds = std::max(quick.seconds, replicas * static_cast<double>(blocks * shape.micro_batches));
  }
  if (path) {
    const pipeline::Action last = ActionsOf(schedule, shape, 0).back();
    const ChunkTimes& first = stages[0].chunks[0];
    const ChunkTimes& ends = stages[0].chunks[static_cast<size_t>(last.chunk)];
    const int later = shape.micro_batches > 1 ? 1 : 0;
    const double around =
        first.forward + (last.kind == pipeline::Action::kBackwardWeights ? ends.weights[later] : ends.backward[later]);
    quick.seconds = std::max(quick.seconds, LongestPath(schedule, shape, stages, around) - less);
  }
  return quick;
}

absl::StatusOr<double> Bounds::TightOf(const spec::Spec& spec, double enough) {
  const Parallel& p = spec.parallel();
  const std::vector<nn::ModelPart> parts = PartsOf(p, *ModelOf(spec.model()));
  const pipeline::Schedule schedule = ScheduleOf(p);
  const pipeline::PipelineShape shape = ShapeOf(spec);
  const Pieces* const pieces = pieces_.Of(spec);
  const bool every = GathersOrReducesAlways(spec) || pieces == nullptr;
  const int micro_batches = MicroBatchesToReplay(shape, every);
  const spec::Spec part = WithMicroBatches(micro_batches, spec);
  const MeshShape mesh = MeshOf(p);
  const int cp = pieces == nullptr ? 0 : pieces->cp;
  // Without pieces, it is not known how far ranks along cp are apart.
  double deviations =
      pieces == nullptr && p.cp() > 1 ? 0 : likeness_.DeviationsOf(spec, std::numeric_limits<int64_t>::max());
  const auto time = [&](int stage) {
    return TimeRank(part,
                    {.rank = RankAt(mesh, {.pp = stage, .cp = cp}), .deviations = deviations, .world = WorldSize(spec)},
                    samples_, rules_of_replay_, *times_);
  };
  absl::StatusOr<RankTimes> zero = time(0);
  if (zero.ok() && deviations > 0 && HostIsBusy(*zero)) deviations = 0, zero = time(0);
  if (!zero.ok()) return zero.status();
  if (StepsDiffer(spec)) return QuickOf(spec, true).seconds;
  // Before they meet for the norm, others may have less to do.
  double sooner = deviations > 0 ? zero->before_meeting : 0;
  if (deviations > 0 && pieces != nullptr) sooner += pieces->cp_apart;
  double less = 0, busiest = BusiestLink(*zero, micro_batches, shape.micro_batches);
  std::vector<StageTimes> stages;
  if (pieces != nullptr) {
    StagesOfPieces made = pieces_.Compose(spec, *pieces, parts);
    stages = std::move(made.stages), less = made.less;
  } else {
    stages.assign(static_cast<size_t>(shape.stages),
                  {.chunks = std::vector<ChunkTimes>(static_cast<size_t>(shape.chunks))});
    pieces_.SetMessages(spec, stages);
  }
  const auto take = [&](int stage, const RankTimes& rank) {
    stages[static_cast<size_t>(stage)].chunks = LeastOf(rank, shape.chunks, &RankTimes::OfAction::after_message);
    stages[static_cast<size_t>(stage)].whole = LeastOf(rank, shape.chunks, &RankTimes::OfAction::whole);
  };
  const auto least = [&] {
    return std::max({LongestPath(schedule, shape, stages, zero->around) - less - sooner, busiest,
                     OneAfterAnother(*zero, micro_batches, shape.micro_batches)});
  };
  if (every) {
    take(0, *zero);
    const std::vector<int>& kinds = likeness_.KindsOf(spec);
    for (int stage = 1; stage < shape.stages; ++stage) {
      const bool like_before =
          pieces != nullptr && IsLikeTheOneBefore(stage, shape, kinds, parts) && PeriodOf(spec) == 1;
      if (like_before) {
        stages[static_cast<size_t>(stage)].chunks = stages[static_cast<size_t>(stage - 1)].chunks;
        stages[static_cast<size_t>(stage)].whole = stages[static_cast<size_t>(stage - 1)].whole;
        continue;
      }
      if (const double known = least(); known >= enough) return known;
      const absl::StatusOr<RankTimes> other = time(stage);
      if (!other.ok()) return other.status();
      take(stage, *other);
      busiest = std::max(busiest, BusiestLink(*other, micro_batches, shape.micro_batches));
    }
  }
  return least();
}

}  // namespace twofold::plan
