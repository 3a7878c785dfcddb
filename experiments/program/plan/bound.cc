#include "experiments/program/plan/bound.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <optional>
#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "backends/registry.h"
#include "core/base/check.h"
#include "core/base/strings.h"
#include "core/proto/world_size.h"
#include "experiments/program/plan/layout_traits.h"
#include "experiments/program/plan/rank_sums.h"
#include "experiments/program/plan/stage_kinds.h"
#include "sim/spread.h"
#include "strategies/from_spec.h"
#include "strategies/pipeline/stages.h"
#include "topologies/frameworks.h"

namespace twofold::plan {
namespace {

using spec::Parallel;

pipeline::PipelineShape ShapeOf(const spec::Spec& spec) {
  const Parallel& p = spec.parallel();
  return {.stages = static_cast<int>(p.pp()),
          .micro_batches = static_cast<int>(spec.train().global_batch() / (p.dp() * spec.train().micro_batch())),
          .chunks = static_cast<int>(p.virtual_stages())};
}

// Sets the number of blocks of a model that has one. False: it has none.
bool SetBlocks(int64_t blocks, spec::Model& model) {
  model.clear_preset();
  if (model.has_gpt()) return model.mutable_gpt()->set_layers(blocks), true;
  if (model.has_llama()) return model.mutable_llama()->set_layers(blocks), true;
  if (!model.has_moe() || model.moe().routing().has_counts()) return false;
  return model.mutable_moe()->mutable_llama()->set_layers(blocks), true;
}

// After how many blocks the model and what is recomputed of it repeat themselves.
int64_t PeriodOf(const spec::Spec& spec) {
  const int64_t every = std::max<int64_t>(1, spec.train().activation_checkpointing().every());
  return spec.model().has_moe() ? std::lcm(every, std::max<int64_t>(1, spec.model().moe().every())) : every;
}

constexpr int kStages = 3, kMicroBatches = 3;  // of a small job
// Pieces are for groups of at least two, three, or so many ranks: many layouts share them.
constexpr int64_t kFewest = 4;

// A job of three stages without replicas whose ranks work on a micro-batch as those of `spec` do, but for gathering
// parameters, reducing gradients and moving them to the host. Each stage has `periods` times the blocks after which the
// model repeats itself.
std::optional<spec::Spec> Small(const spec::Spec& spec, int64_t periods = 1) {
  if (spec.parallel().wrap().has_paths()) return std::nullopt;
  const int64_t period = PeriodOf(spec) * periods;
  spec::Spec small = spec;
  if (!SetBlocks(kStages * period, *small.mutable_model())) return std::nullopt;
  Parallel& p = *small.mutable_parallel();
  p.set_pp(kStages), p.set_dp(p.ep()), p.set_virtual_stages(1), p.set_islands(1);
  p.clear_stage_layers(), p.clear_stage_balance(), p.clear_compression(), p.clear_zero_plus_plus();
  p.set_scatter_gather_messages(false);
  if (p.schedule() != Parallel::ZERO_BUBBLE_H1) p.set_schedule(Parallel::ONE_F_ONE_B);
  if (p.sharding() != Parallel::NO_SHARD) p.set_sharding(Parallel::ZERO_1), p.set_reduce_every_micro_batch(false);
  for (const char* field : {"shard_group", "offload", "prefetch", "prefetch_limit_mib", "reshard_after_forward",
                            "backward_prefetch", "bucket_mib"})
    p.GetReflection()->ClearField(&p, Parallel::descriptor()->FindFieldByName(field));
  spec::Train& train = *small.mutable_train();
  train.set_global_batch(kMicroBatches * p.dp() * train.micro_batch());
  train.clear_epochs();
  // Of which axes only those inside of ep's matter: ranks are elsewhere, but as far from each other.
  if (p.ep() == 1 && absl::EndsWith(p.order(), "cp tp")) p.set_order("pp dp cp tp");
  small.clear_name(), small.clear_trace(), small.clear_memory();
  return small;
}

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

// What a framework does not hold although this program does (framework.proto: Held with negative bytes).
double SpareBytes(const framework::Framework& f, double parameters, int64_t sharers) {
  double spare = 0;
  for (const framework::Held& held : f.memory().held()) {
    spare -= std::min(0.0, held.bytes_per_parameter()) * parameters;
    spare -= std::min(0.0, held.bytes_per_shard_parameter()) * parameters / static_cast<double>(sharers);
  }
  return spare;
}

// What is gathered for an action depends on the one before it, so that all pairs that follow one another must occur
// (`every`). Else only what comes between steps is new, which follows the last micro-batch.
int MicroBatchesToReplay(const pipeline::PipelineShape& shape, bool every) {
  const int least = shape.chunks > 1 ? shape.stages : 1;  // that the schedule needs
  // A step's first backward pass of a micro-batch writes gradients, and the later ones add to them.
  const int wanted = !every              ? 2
                     : shape.stages == 1 ? kMicroBatches
                     : shape.chunks > 1  ? 2 * shape.stages
                                         : shape.stages + 2;
  return std::min(shape.micro_batches, (wanted + least - 1) / least * least);
}

// So that the device may wait for it, although it has less to do.
bool HostIsBusy(const RankTimes& rank) { return rank.launches > 0.5 * rank.operations; }

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

bool Bounds::ReplicasAreAlike(const spec::Spec& spec) {
  const Parallel& p = spec.parallel();
  const auto [at, fresh] =
      alike_.try_emplace(StrCat(p.order(), " ", p.pp(), " ", p.dp(), " ", p.cp(), " ", p.tp()), true);
  if (!fresh || p.tp() == 1) return at->second;
  const MeshShape mesh = MeshOf(p);
  constexpr int kSome = 8;  // places within nodes repeat themselves
  double known = -1;
  for (int dp = 0; dp < std::min(mesh.dp, kSome); ++dp) {
    for (int cp = 0; cp < std::min(mesh.cp, kSome); ++cp) {
      std::vector<int> ranks;
      for (int tp = 0; tp < mesh.tp; ++tp) ranks.push_back(RankAt(mesh, {.dp = dp, .cp = cp, .tp = tp}));
      const double seconds = times_->Collective(ranks, Communication::kAllGather, 1e8, 0).value();
      if (known >= 0 && seconds != known) at->second = false;
      known = seconds;
    }
  }
  return at->second;
}

double Bounds::DeviationsOf(const spec::Spec& spec, int64_t at_most) {
  const int64_t n = FewestThatMeet(spec);
  return n == 0 || !ReplicasAreAlike(spec) ? 0 : sim::MaximumOf(std::min(n, at_most)).mean;
}

// ---- Pieces ----

Bounds::Piece Bounds::PieceOf(const RankTimes& rank) const {
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

Bounds::Pieces Bounds::MakePieces(const spec::Spec& spec, const spec::Spec& small) {
  // The ranks of the whole job at whose places the small one's are, for each kind of stage.
  const MeshShape mesh = MeshOf(small.parallel()), whole = MeshOf(spec.parallel());
  std::vector<std::vector<int>> places;
  for (const int stage : UnlikeStages(spec)) {
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
  double deviations = DeviationsOf(spec, kFewest);
  const auto replay = [&](const spec::Spec& job, int stage, int cp) {
    const absl::StatusOr<RankTimes> rank = TimeRank(job,
                                                    {.rank = RankAt(mesh, {.pp = stage, .cp = cp}),
                                                     .steps = 1,
                                                     .places = places,
                                                     .beside = AreSlowed(spec),
                                                     .without_replicas = true,
                                                     .deviations = deviations,
                                                     .world = WorldSize(spec)},
                                                    samples_, unbounded, *times_);
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
  for (int stage = 0; stage < kStages; ++stage) *all[stage] = time(small, stage, pieces.cp);
  // Messages on their way and buffers that are kept until the next block blur each figure, so the lower of two counts.
  const int64_t twice = time(*Small(spec, 2), 1, pieces.cp).kept;
  pieces.kept_more = std::max<int64_t>(0, std::min(twice - pieces.middle.kept, twice / 2));
  pieces.kept_by_head = std::max<int64_t>(0, pieces.last.kept - std::max(pieces.first.kept, pieces.middle.kept));
  return pieces;
}

const std::vector<int>& Bounds::KindsOf(const spec::Spec& spec) {
  const Parallel& p = spec.parallel();
  const int64_t group = p.sharding() == Parallel::HYBRID_SHARD ? p.shard_group() : 0;
  const std::string key =
      StrCat(p.order(), " ", p.pp(), " ", p.dp(), " ", p.cp(), " ", p.tp(), " ", p.ep(), " ", group);
  std::vector<int>& kinds = kinds_[key];
  if (kinds.empty()) kinds = KindsOfStages(MeshOf(p), group, *times_);
  return kinds;
}

std::vector<int> Bounds::UnlikeStages(const spec::Spec& spec) {
  std::vector<int> stages = KindsOf(spec);
  std::sort(stages.begin(), stages.end());
  stages.erase(std::unique(stages.begin(), stages.end()), stages.end());
  return stages;
}

// Of messages among cp's ranks, which compute meanwhile. What else is in flight changes by how much: a message between
// stages, or what replicas exchange, may come first and slow less. That is taken off where it is little; where replicas
// gather and reduce in every micro-batch, and where stages' ranks are not equally far from each other, pieces are those
// of ranks that nothing slows.
bool Bounds::AreSlowed(const spec::Spec& spec) {
  return spec.parallel().cp() > 1 && !GathersOrReducesAlways(spec) && !StepsDiffer(spec) &&
         UnlikeStages(spec).size() == 1;
}

const Bounds::Pieces* Bounds::PiecesOf(const spec::Spec& spec) {
  const std::optional<spec::Spec> small = Small(spec);
  if (!small) return nullptr;
  std::string key = small->SerializeAsString();
  // Where ranks are depends on how many others are between them, and on how far the stages' are from each other.
  const std::vector<int> kinds = UnlikeStages(spec);
  if (small->parallel().order() != "pp dp cp tp" || spec.parallel().ep() > 1 || kinds.size() > 1)
    key += StrCat(" ", spec.parallel().pp(), " ", spec.parallel().dp());
  if (AreSlowed(spec)) key += " slowed";
  key += StrCat(" ", DeviationsOf(spec, kFewest));
  std::unique_ptr<const Pieces>& known = pieces_[key];
  if (known == nullptr) known = std::make_unique<const Pieces>(MakePieces(spec, *small));
  return known.get();
}

Bounds::Stages Bounds::StagesOf(const spec::Spec& spec, const Pieces& pieces, const std::vector<nn::ModelPart>& parts) {
  const auto pp = static_cast<size_t>(spec.parallel().pp());
  const bool tied = ModelOf(spec.model())->shape().tied;
  Stages result{.stages = std::vector<StageTimes>(pp, {.chunks = std::vector<ChunkTimes>(parts.size() / pp)})};
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

double Bounds::SetMessages(const spec::Spec& spec, std::vector<StageTimes>& stages) {
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
  std::vector<int> ranks;
  for (int s = 0; s < mesh.pp; ++s) ranks.push_back(RankAt(mesh, {.pp = s}));
  double longest = 0;
  for (size_t s = 0; s < ranks.size(); ++s) {
    const int from = ranks[s], to = ranks[(s + 1) % ranks.size()];
    longest = std::max(
        {longest, times_->MessageOccupies(ranks, from, to, bytes), times_->MessageOccupies(ranks, to, from, bytes)});
    stages[s].to_next =
        std::min(times_->Message(ranks, from, to, bytes), times_->Message(ranks, to, from, bytes)).value();
  }
  return 2 * longest;
}

// What replicas of a stage exchange in each micro-batch for the blocks of a piece: a small job with two of them, whose
// communication takes as long as that of all.
double Bounds::ReplicasOf(const spec::Spec& spec, int64_t blocks) {
  const Parallel& given = spec.parallel();
  if (!GathersOrReducesAlways(spec) || given.ep() > 1 || given.has_zero_plus_plus() || StepsDiffer(spec)) return 0;
  std::optional<spec::Spec> small = Small(spec);
  Parallel& p = *small->mutable_parallel();
  p = given;
  p.set_pp(kStages), p.set_dp(given.dp() > 1 ? 2 : 1), p.set_cp(given.dp() > 1 ? 1 : 2), p.set_virtual_stages(1);
  p.set_sequence_parallel(false), p.set_tp_overlap(false), p.set_scatter_gather_messages(false);
  p.clear_stage_layers(), p.set_schedule(Parallel::ONE_F_ONE_B), p.clear_offload();
  if (p.sharding() == Parallel::HYBRID_SHARD) p.set_shard_group(2);
  small->mutable_train()->set_micro_batch(1);
  small->mutable_train()->set_global_batch(kMicroBatches * p.dp());
  const int64_t group = given.sharding() == Parallel::HYBRID_SHARD ? given.shard_group() : given.dp() * given.cp();
  const std::string key = StrCat(small->SerializeAsString(), " ", group, " ", given.pp(), " ", given.cp());
  const auto [at, fresh] = replicas_.try_emplace(key, 0);
  if (!fresh) return at->second / static_cast<double>(blocks);
  const MeshShape mesh = MeshOf(p);
  const MeshShape whole = MeshOf(given);
  TimedRank timed{.rank = RankAt(mesh, {.pp = 1}), .steps = 1};
  for (const int stage : UnlikeStages(spec)) {
    timed.replicas.push_back(GroupInStage(whole, MeshGroup::kReplicas, stage, group));
    std::vector<int>& at = timed.places.emplace_back();
    for (int r = 0; r < mesh.size(); ++r) {  // all ranks of the small job must be at some place of the whole one
      MeshPlace place = PlaceOf(mesh, r);
      place.pp = stage, place.cp = std::min(place.cp, whole.cp - 1), place.dp = std::min(place.dp, whole.dp - 1);
      at.push_back(RankAt(whole, place));
    }
  }
  timed.beside = false;
  const absl::StatusOr<RankTimes> rank = TimeRank(*small, timed, samples_, {.kind = rules_.kind}, *times_);
  TWOFOLD_CHECK(rank.ok(), std::string(rank.status().message()));
  double gathers = 0, reductions = 0;
  for (const RankTimes::OfAction& of : rank->actions) {
    if (of.action.micro_batch == 1) gathers += of.gathers, reductions += of.reductions;
  }
  const double seconds = std::max(gathers, reductions);
  replicas_[key] = seconds;
  return seconds / static_cast<double>(blocks);
}

// ---- Memory ----

const std::vector<StateFormula>& Bounds::StatesOf(const spec::Spec& spec) {
  const spec::Train& train = spec.train();
  std::string key = StrCat(spec.parallel().sharding(), " ", spec.parallel().shard_group(), " ", spec.parallel().dp(),
                           " ", spec.parallel().cp(), " ", spec.parallel().islands(), " ",
                           spec.parallel().zero_plus_plus().secondary_shard());
  key += train.precision().SerializeAsString() + train.optimizer().SerializeAsString();
  std::vector<StateFormula>& states = states_[key];
  if (states.empty()) states = ModelStateFormulas(spec);
  return states;
}

int64_t Bounds::MostInFlight(pipeline::Schedule schedule, const pipeline::PipelineShape& shape, int stage) {
  int64_t& most = in_flight_[{static_cast<int>(schedule), shape.stages, shape.micro_batches, shape.chunks, stage}];
  if (most == 0) most = pipeline::MostInFlight(ActionsOf(schedule, shape, stage));
  return most;
}

int64_t Bounds::BytesOf(const spec::Spec& spec, const Pieces& pieces, const std::vector<nn::ModelPart>& parts,
                        std::string& what) {
  const Parallel& p = spec.parallel();
  const pipeline::PipelineShape shape = ShapeOf(spec);
  const bool tied = ModelOf(spec.model())->shape().tied;
  int64_t largest = 0;
  for (int stage = 0; stage < shape.stages; ++stage) {
    int64_t parameters = 0, kept = -1;
    for (const nn::ModelPart& part : PartsOfStage(parts, stage, shape.stages)) {
      int64_t n = (part.last_block - part.first_block) / pieces.blocks, own = 0;
      const auto take = [&](const Piece& piece, int64_t times) {
        parameters += times * piece.parameters, own += times * pieces.kept_more, n -= times;
      };
      if (part.embedding && n > 0) take(pieces.first, 1);
      // A head that is tied to the embedding holds no table of its own beside it.
      if (part.head && n > 0 && !(part.embedding && tied)) take(pieces.last, 1);
      take(pieces.middle, n);
      if (part.head) own += pieces.kept_by_head;
      kept = kept < 0 ? own : std::min(kept, own);
    }
    int64_t bytes = MostInFlight(ScheduleOf(p), shape, stage) * kept, most = bytes;
    std::string name = "activations";
    for (const StateFormula& state : StatesOf(spec)) {
      const bool on_host = p.offload() == Parallel::OFFLOAD_ALL ||
                           (p.offload() == Parallel::OFFLOAD_OPTIMIZER && state.category == Category::kOptimizerState);
      if (on_host) continue;
      const auto own = static_cast<int64_t>(state.bytes(parameters));
      bytes += own;
      if (own > most) most = own, name = std::string(CategoryName(state.category));
    }
    bytes -= static_cast<int64_t>(SpareBytes(framework_, static_cast<double>(parameters), StatesOf(spec).back().ranks));
    if (bytes > largest) largest = bytes, what = std::move(name);
  }
  return largest;
}

// ---- The bounds ----

Bounds::Quick Bounds::QuickOf(const spec::Spec& spec, bool path) {
  Quick quick;
  const Pieces* const pieces = PiecesOf(spec);
  if (pieces == nullptr) return quick;
  const std::vector<nn::ModelPart> parts = PartsOf(spec.parallel(), *ModelOf(spec.model()));
  quick.bytes = BytesOf(spec, *pieces, parts, quick.what);
  const Stages made = StagesOf(spec, *pieces, parts);
  const std::vector<StageTimes>& stages = made.stages;
  const double less = made.less + (DeviationsOf(spec, kFewest) > 0 ? pieces->cp_apart : 0);
  const pipeline::Schedule schedule = ScheduleOf(spec.parallel());
  const pipeline::PipelineShape shape = ShapeOf(spec);
  quick.seconds = QuickPath(schedule, shape, stages) - less;
  // A stream does one thing after another. Units at the ends of the model may stay gathered.
  const double replicas = ReplicasOf(spec, pieces->blocks);
  for (int s = 0; s < shape.stages && replicas > 0; ++s) {
    int64_t blocks = 0;
    for (const nn::ModelPart& part : PartsOfStage(parts, s, shape.stages))
      blocks += part.last_block - part.first_block - part.embedding - part.head;
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
  const Pieces* const pieces = PiecesOf(spec);
  // A shorter step of the same ranks.
  spec::Spec part = spec;
  const bool every = GathersOrReducesAlways(spec) || pieces == nullptr;
  const int micro_batches = MicroBatchesToReplay(shape, every);
  part.mutable_train()->set_global_batch(micro_batches * p.dp() * spec.train().micro_batch());
  part.mutable_train()->clear_epochs();
  const MeshShape mesh = MeshOf(p);
  const int cp = pieces == nullptr ? 0 : pieces->cp;
  // Without pieces, it is not known how far ranks along cp are apart.
  double deviations = pieces == nullptr && p.cp() > 1 ? 0 : DeviationsOf(spec, std::numeric_limits<int64_t>::max());
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
    Stages made = StagesOf(spec, *pieces, parts);
    stages = std::move(made.stages), less = made.less;
  } else {
    stages.assign(static_cast<size_t>(shape.stages),
                  {.chunks = std::vector<ChunkTimes>(static_cast<size_t>(shape.chunks))});
    SetMessages(spec, stages);
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
    for (int stage = 1; stage < shape.stages; ++stage) {
      // Stages between the ends that have equally many blocks are alike, where their ranks are equally far apart.
      const std::vector<int>& kinds = KindsOf(spec);
      const bool like_before = pieces != nullptr && stage > 1 && stage + 1 < shape.stages && [&] {
        if (kinds[static_cast<size_t>(stage)] != kinds[static_cast<size_t>(stage - 1)]) return false;
        for (int c = 0; c < shape.chunks; ++c) {
          const nn::ModelPart &a = parts[static_cast<size_t>(c * shape.stages + stage - 1)],
                              &b = parts[static_cast<size_t>(c * shape.stages + stage)];
          if (a.last_block - a.first_block != b.last_block - b.first_block) return false;
        }
        return PeriodOf(spec) == 1;
      }();
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
