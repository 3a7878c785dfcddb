#include "experiments/program/plan/stage_pieces.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <utility>

#include "core/base/check.h"
#include "core/base/strings.h"
#include "core/comm/device_mesh.h"
#include "core/proto/world_size.h"
#include "experiments/program/plan/layout_traits.h"
#include "experiments/program/plan/rank_sums.h"
#include "experiments/program/plan/small_job.h"
#include "experiments/program/plan/stage_kinds.h"
#include "strategies/from_spec.h"
#include "strategies/pipeline/stages.h"

namespace twofold::plan {
namespace {

using spec::Parallel;

double Total(const ChunkTimes& c) {
  return c.forward + c.input + std::max(c.backward[0], c.backward[1]) + std::max(c.weights[0], c.weights[1]);
}

// By how much they differ, one way or the other.
double Apart(const ChunkTimes& a, const ChunkTimes& b) {
  double apart = std::abs(a.forward - b.forward) + std::abs(a.input - b.input);
  for (const int i : {0, 1})
    apart = std::max(apart, apart + std::abs(a.backward[i] - b.backward[i]) + std::abs(a.weights[i] - b.weights[i]));
  return apart;
}

// Each action is slowed so much less at most, and not less than not at all.
void TakeLess(double seconds, const ChunkTimes& slowed, ChunkTimes& times) {
  const auto less = [seconds](double most, double& time) { time -= std::min(seconds, most); };
  less(slowed.forward, times.forward), less(slowed.input, times.input);
  for (const int i : {0, 1}) less(slowed.backward[i], times.backward[i]), less(slowed.weights[i], times.weights[i]);
}

ChunkTimes Sum(const ChunkTimes& a, double n, const ChunkTimes& b) {
  ChunkTimes sum = a;
  sum.forward += n * b.forward, sum.input += n * b.input;
  for (const int i : {0, 1}) sum.backward[i] += n * b.backward[i], sum.weights[i] += n * b.weights[i];
  return sum;
}

Piece PieceOf(const RankTimes& rank) {
  Piece piece{.times = LeastOf(rank, 1, &RankTimes::OfAction::after_message)[0],
              .slowed = MostSlowed(rank),
              .parameters = rank.parameters};
  for (const RankTimes::OfAction& action : rank.actions) {
    // The second forward pass: before it, a message of the first one is still held, as one of its own is after it.
    if (action.action.micro_batch == 1 && action.action.kind == pipeline::Action::kForward)
      piece.kept = std::max<int64_t>(0, action.kept);
  }
  return piece;
}

}  // namespace

Pieces StagePieces::MakePieces(const spec::Spec& spec, const spec::Spec& small) {
  // The ranks of the whole job at whose places the small one's are, for each kind of stage.
  const MeshShape mesh = MeshOf(small.parallel()), whole = MeshOf(spec.parallel());
  std::vector<std::vector<int>> places;
  for (const int stage : likeness_.UnlikeStages(spec)) {
    std::vector<int>& at = places.emplace_back();
    for (int r = 0; r < mesh.size(); ++r) {
      MeshPlace place = PlaceOf(mesh, r);
      place.pp = stage;
      at.push_back(RankAt(whole, place));
    }
  }
  Pieces pieces{.blocks = PeriodOf(spec)};
  Piece* const all[] = {&pieces.first, &pieces.middle, &pieces.last};
  host::MemoryRules unbounded = rules_;
  unbounded.device = unbounded.host = Bytes(0);
  double deviations = likeness_.DeviationsOf(spec, kFewest);
  const auto replay = [&](const spec::Spec& job, int stage, int cp) {
    const absl::StatusOr<RankTimes> rank = TimeRank(job,
                                                    {.rank = RankAt(mesh, {.pp = stage, .cp = cp}),
                                                     .steps = 1,
                                                     .places = places,
                                                     .beside = AreSlowed(spec),
                                                     .without_replicas = true,
                                                     .deviations = deviations,
                                                     .world = WorldSize(spec)},
                                                    samples_, unbounded, times_);
    TWOFOLD_CHECK(rank.ok(), std::string(rank.status().message()));
    return *rank;
  };
  if (deviations > 0 && HostIsBusy(replay(small, 1, 0))) deviations = 0;
  const auto time = [&](const spec::Spec& job, int stage, int cp) {
    const RankTimes rank = replay(job, stage, cp);
    pieces.most_slowed = std::max(pieces.most_slowed, rank.most_slowed);
    return PieceOf(rank);
  };
  if (mesh.cp > 1) {  // ranks compute different parts of the causal mask
    const int last = mesh.cp - 1;
    const ChunkTimes a = time(small, 1, 0).times, b = time(small, 1, last).times;
    if (Total(b) > Total(a)) pieces.cp = last;
    pieces.cp_apart = Apart(a, b);
  }
  for (int stage = 0; stage < kSmallStages; ++stage) *all[stage] = time(small, stage, pieces.cp);
  // Messages on their way and buffers that are kept until the next block blur each figure, so the lower of two counts.
  const int64_t twice = time(*SmallJob(spec, 2), 1, pieces.cp).kept;
  pieces.kept_more = std::max<int64_t>(0, std::min(twice - pieces.middle.kept, twice / 2));
  pieces.kept_by_head = std::max<int64_t>(0, pieces.last.kept - std::max(pieces.first.kept, pieces.middle.kept));
  return pieces;
}

// Of messages among cp's ranks, which compute meanwhile. What else is in flight changes by how much: a message between
// stages, or what replicas exchange, may come first and slow less. That is taken off where it is little; where replicas
// gather and reduce in every micro-batch, and where stages' ranks are not equally far from each other, pieces are those
// of ranks that nothing slows.
bool StagePieces::AreSlowed(const spec::Spec& spec) {
  return spec.parallel().cp() > 1 && !GathersOrReducesAlways(spec) && !StepsDiffer(spec) &&
         likeness_.UnlikeStages(spec).size() == 1;
}

const Pieces* StagePieces::Of(const spec::Spec& spec) {
  const std::optional<spec::Spec> small = SmallJob(spec);
  if (!small) return nullptr;
  std::string key = small->SerializeAsString();
  // Where ranks are depends on how many others are between them, and on how far the stages' are from each other.
  const std::vector<int> kinds = likeness_.UnlikeStages(spec);
  if (small->parallel().order() != "pp dp cp tp" || spec.parallel().ep() > 1 || kinds.size() > 1)
    key += StrCat(" ", spec.parallel().pp(), " ", spec.parallel().dp());
  if (AreSlowed(spec)) key += " slowed";
  key += StrCat(" ", likeness_.DeviationsOf(spec, kFewest));
  std::unique_ptr<const Pieces>& known = pieces_[key];
  if (known == nullptr) known = std::make_unique<const Pieces>(MakePieces(spec, *small));
  return known.get();
}

StagesOfPieces StagePieces::Compose(const spec::Spec& spec, const Pieces& pieces,
                                    const std::vector<nn::ModelPart>& parts) {
  const auto pp = static_cast<size_t>(spec.parallel().pp());
  const bool tied = ModelOf(spec.model())->shape().tied;
  StagesOfPieces result{.stages = std::vector<StageTimes>(pp, {.chunks = std::vector<ChunkTimes>(parts.size() / pp)})};
  std::vector<StageTimes>& stages = result.stages;
  const double of_messages = SetMessages(spec, stages) * (1 - 1 / pieces.most_slowed);
  for (size_t i = 0; i < parts.size(); ++i) {
    const nn::ModelPart& part = parts[i];
    auto n = static_cast<double>((part.last_block - part.first_block) / pieces.blocks);
    ChunkTimes times, slowed;
    const auto take = [&](const Piece& piece) {
      if (n < 1) return;
      times = Sum(times, 1, piece.times), slowed = Sum(slowed, 1, piece.slowed), --n;
    };
    if (part.embedding) take(pieces.first);
    // A table that is tied to the head on the same stage is not cleared in the first backward pass: the head has
    // written.
    if (part.embedding && part.head && tied) {
      times.backward[0] = std::min(times.backward[0], pieces.middle.times.backward[0]);
      times.weights[0] = std::min(times.weights[0], pieces.middle.times.weights[0]);
    }
    if (part.head) take(pieces.last);
    times = Sum(times, n, pieces.middle.times), slowed = Sum(slowed, n, pieces.middle.slowed);
    TakeLess(of_messages, slowed, times);
    if (spec.parallel().dp() * spec.parallel().cp() > 1) result.less += Total(slowed);
    // Where gradients are reduced in every micro-batch, none adds to those of earlier ones: tables are cleared each
    // time.
    if (spec.parallel().sharding() > Parallel::ZERO_1) {
      const bool cleared =
          spec.parallel().dp() * spec.parallel().cp() > 1 && spec.parallel().reduce_every_micro_batch();
      for (double* both : {times.backward, times.weights}) both[1] = cleared ? both[0] : std::min(both[0], both[1]);
    }
    stages[i % pp].chunks[i / pp] = times;
  }
  return result;
}

double StagePieces::SetMessages(const spec::Spec& spec, std::vector<StageTimes>& stages) {
  const Parallel& p = spec.parallel();
  if (p.pp() == 1) return 0;
  const std::shared_ptr<const Model> model = ModelOf(spec.model());
  if (model->input().kind != ModelInput::kTokens) return 0;
  const Boundary boundary = model->BoundaryBefore(
      1,
      {.samples = spec.train().micro_batch(), .cp = p.cp(), .tp = p.tp(), .sequence_parallel = p.sequence_parallel()});
  const auto elements =
      static_cast<double>(boundary.shape.numel()) / static_cast<double>(p.scatter_gather_messages() ? p.tp() : 1);
  const double bytes = elements * static_cast<double>(ElementSize(ToDType(spec.train().precision().parameter())));
  const MeshShape mesh = MeshOf(p);
  times_.SetLayout(p);
  std::vector<int> ranks;
  for (int s = 0; s < mesh.pp; ++s) ranks.push_back(RankAt(mesh, {.pp = s}));
  double longest = 0;
  for (size_t s = 0; s < ranks.size(); ++s) {
    const int from = ranks[s], to = ranks[(s + 1) % ranks.size()];
    longest = std::max(
        {longest, times_.MessageOccupies(ranks, from, to, bytes), times_.MessageOccupies(ranks, to, from, bytes)});
    stages[s].to_next =
        std::min(times_.Message(ranks, from, to, bytes), times_.Message(ranks, to, from, bytes)).value();
  }
  return 2 * longest;
}

// What replicas of a stage exchange in each micro-batch for the blocks of a piece: a small job with two of them, whose
// communication takes as long as that of all.
double StagePieces::ReplicasOf(const spec::Spec& spec, int64_t blocks) {
  const Parallel& given = spec.parallel();
  if (!GathersOrReducesAlways(spec) || given.ep() > 1 || given.has_zero_plus_plus() || StepsDiffer(spec)) return 0;
  std::optional<spec::Spec> small = SmallJob(spec);
  Parallel& p = *small->mutable_parallel();
  p = given;
  p.set_pp(kSmallStages), p.set_dp(given.dp() > 1 ? 2 : 1), p.set_cp(given.dp() > 1 ? 1 : 2), p.set_virtual_stages(1);
  p.set_sequence_parallel(false), p.set_tp_overlap(false), p.set_scatter_gather_messages(false);
  p.clear_stage_layers(), p.set_schedule(Parallel::ONE_F_ONE_B), p.clear_offload();
  if (p.sharding() == Parallel::HYBRID_SHARD) p.set_shard_group(2);
  small->mutable_train()->set_micro_batch(1);
  small->mutable_train()->set_global_batch(kSmallMicroBatches * p.dp());
  const int64_t group = given.sharding() == Parallel::HYBRID_SHARD ? given.shard_group() : given.dp() * given.cp();
  const std::string key = StrCat(small->SerializeAsString(), " ", group, " ", given.pp(), " ", given.cp());
  const auto [at, fresh] = replicas_.try_emplace(key, 0);
  if (!fresh) return at->second / static_cast<double>(blocks);
  const MeshShape mesh = MeshOf(p);
  const MeshShape whole = MeshOf(given);
  TimedRank timed{.rank = RankAt(mesh, {.pp = 1}), .steps = 1};
  for (const int stage : likeness_.UnlikeStages(spec)) {
    timed.replicas.push_back(GroupInStage(whole, MeshGroup::kReplicas, stage, group));
    std::vector<int>& at = timed.places.emplace_back();
    for (int r = 0; r < mesh.size(); ++r) {  // all ranks of the small job must be at some place of the whole one
      MeshPlace place = PlaceOf(mesh, r);
      place.pp = stage, place.cp = std::min(place.cp, whole.cp - 1), place.dp = std::min(place.dp, whole.dp - 1);
      at.push_back(RankAt(whole, place));
    }
  }
  timed.beside = false;
  const absl::StatusOr<RankTimes> rank = TimeRank(*small, timed, samples_, {.kind = rules_.kind}, times_);
  TWOFOLD_CHECK(rank.ok(), std::string(rank.status().message()));
  double gathers = 0, reductions = 0;
  for (const RankTimes::OfAction& of : rank->actions) {
    if (of.action.micro_batch == 1) gathers += of.gathers, reductions += of.reductions;
  }
  const double seconds = std::max(gathers, reductions);
  replicas_[key] = seconds;
  return seconds / static_cast<double>(blocks);
}

}  // namespace twofold::plan
