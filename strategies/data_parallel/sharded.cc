#include "strategies/data_parallel/sharded.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "core/base/check.h"
#include "core/base/strings.h"
#include "strategies/data_parallel/initial_values.h"

namespace twofold {

ShardedDataParallel::ShardedDataParallel(nn::Context& ctx, Chunks chunks, const ReplicaGroups& replicas,
                                         ShardedOptions options, MakeReducer make_reducer, MakeGather make_gather)
    : ParameterLayout(std::move(chunks)),
      ctx_(ctx),
      options_(std::move(options)),
      groups_(replicas),
      all_(replicas.all,
           {options_.shard_group > 0 ? options_.shard_group : replicas.all.size(), options_.gather_near,
            options_.reduce_near},
           ""),
      pipeline_(ctx, make_reducer ? std::move(make_reducer) : MeanReducers(options_.reduce), replicas) {
  for (const nn::Parameter* p : Parameters()) {
    ProcessGroup& group = replicas.Of(p->replicas());
    if (&group == &replicas.all || others_.contains(p->replicas())) continue;
    TWOFOLD_CHECK(options_.shard_group == 0 && options_.gather_near == 0 && options_.reduce_near == 0,
                  p->name() + " is sharded over all of its replicas");
    others_.try_emplace(p->replicas(), group, SharingSizes{.shards = group.size()}, NamePrefix(p->replicas()));
  }
  if (options_.offload) {
    TWOFOLD_CHECK(options_.stage == ShardedOptions::kParameters, "only sharded parameters are offloaded");
    host_.emplace(ctx);
  }
  buffers_ = std::make_unique<ReplicaBuffers>(ctx, Buffers(), replicas.Of(kBatchTag));
  units_.emplace(
      chunks_, options_.wrap, [this](nn::GroupTag of) -> const Sharing& { return SharingOf(of); },
      !options_.pipeline_stage, static_cast<UnitObserver&>(*this));
  for (ShardedUnit* unit : units_->forward()) {
    Allocate(*unit, make_gather);
    AddBucket(*unit);
  }
  TellSumsApart();
}

ShardedDataParallel::~ShardedDataParallel() = default;

// ---- Units ----

// Draws the initial values of this rank's shard. If several ranks draw the same elements, all take the first one's
// values.
void ShardedDataParallel::Draw(ShardedUnit& unit) {
  const FlatParameter& flat = *unit.flat;
  const int64_t rank = unit.sharing->gather->rank();
  if (!ctx_.draws) return ctx_.Launch(ops::Fill{.out = unit.shard, .value = 0});  // for the padding
  flat.Initialize(ctx_.device, ctx_.stream, ctx_.seed, unit.shard, rank * flat.shard_numel());
  if (unit.sharing->replicas() > 1) unit.sharing->replicate->Broadcast(unit.shard, 0).WaitOn(ctx_.device.compute());
  for (const optim::SlicePart& part : flat.PartsOf(rank))
    ShareInitialValues(ctx_, groups_, *part.parameter, part.first, unit.shard.Slice(part.offset, part.count));
}

// Allocates what this rank keeps of the unit, and sets the initial values.
void ShardedDataParallel::Allocate(ShardedUnit& unit, const MakeGather& make_gather) {
  const OwnerScope of(ctx_.owners(), {.module = unit.name});
  const FlatParameter& flat = *unit.flat;
  const int64_t rank = unit.sharing->gather->rank();
  if (KeepsParameters(unit)) {
    unit.used = true;
    unit.parameters =
        ctx_.device.NewTensor(Shape{flat.padded_numel()}, flat.dtype(), Category::kParameters, "whole parameters");
    unit.shard = flat.Shard(unit.parameters, rank);
    flat.SetData(unit.parameters);
    Draw(unit);
    if (!Alone(unit) && ctx_.draws)
      unit.sharing->gather->AllGather(unit.parameters, unit.shard).WaitOn(ctx_.device.compute());
  } else {
    unit.shard =
        ctx_.device.NewTensor(Shape{flat.shard_numel()}, flat.dtype(), Category::kParameters, "shard of parameters");
    Draw(unit);
    if (host_) host_->Move(unit.shard);
    unit.gather = make_gather(ctx_, *unit.sharing, unit.shard);
  }
  if (KeepsGradients(unit)) {
    PrepareGradients(unit);
    unit.gradient_shard = flat.Shard(unit.gradients, rank);
  } else {
    const Shape shape{flat.shard_numel()};
    unit.gradient_shard =
        host_ ? host_->NewGradients(shape, options_.gradient)
              : ctx_.device.NewTensor(shape, options_.gradient, Category::kGradients, "shard of gradients");
  }
}

void ShardedDataParallel::AddBucket(ShardedUnit& unit) {
  const FlatParameter& flat = *unit.flat;
  Bucket bucket{.numel = flat.padded_numel(), .dtype = options_.gradient};
  if (!Alone(unit)) bucket.groups = unit.sharing->reduction();
  bucket.whole = flat.places();
  bucket.kept = flat.PartsOf(unit.sharing->gather->rank());
  if (host_) return pipeline_.Add(std::move(bucket), host_->HomeOf(unit.gradient_shard, options_.reduce));
  pipeline_.Add(std::move(bucket), std::make_unique<DeviceHome>(ctx_, unit.gradient_shard));
}

std::vector<ShardedDataParallel::UnitInfo> ShardedDataParallel::units() const {
  std::vector<UnitInfo> units;
  for (const ShardedUnit* u : units_->forward())
    units.push_back({u->module->path(), u->flat->numel(), u->flat->padded_numel()});
  return units;
}

// ---- Parameters: gathered, used, freed ----

void ShardedDataParallel::FetchNext(const std::vector<ShardedUnit*>& order, size_t place) {
  if (host_ && options_.prefetch > 0) host_->FetchNext(order, place);
}

void ShardedDataParallel::Gather(ShardedUnit& unit) {
  if (!unit.parameters.empty()) return;
  const FlatParameter& flat = *unit.flat;
  const OwnerScope of(ctx_.owners(), {.module = unit.name});
  const Tensor shard = host_ ? host_->Take(unit) : unit.shard;
  unit.parameters =
      ctx_.device.NewTensor(Shape{flat.padded_numel()}, flat.dtype(), Category::kParameters, "whole parameters");
  unit.gathered = unit.gather->Start(ctx_, shard, unit.parameters);
  unit.gathering = true;
  unit.used = false;
  if (!options_.overlap) Use(unit);
}

// Starts to gather the units of `order` after `place`, within the limits. Stops at the end of the chunk, since only the
// schedule knows which chunk comes next.
void ShardedDataParallel::GatherAhead(const std::vector<ShardedUnit*>& order, size_t place) {
  if (options_.stage < ShardedOptions::kParameters || !options_.overlap) return;
  const size_t end = std::min(order.size(), place + 1 + static_cast<size_t>(options_.prefetch));
  for (size_t i = place + 1; i < end && order[i]->chunk == order[place]->chunk; ++i) {
    if (options_.prefetch_limit > Bytes(0)) {
      Bytes ahead(order[i]->flat->padded_numel() * ElementSize(order[i]->flat->dtype()));
      for (const ShardedUnit* u : units_->forward()) {
        if (!u->parameters.empty() && !u->used && u != order[i]) ahead += u->parameters.bytes();
      }
      if (ahead > options_.prefetch_limit) break;
    }
    Gather(*order[i]);
  }
  if (place + 1 < order.size() && order[place + 1]->chunk == order[place]->chunk) FetchNext(order, place + 1);
}

void ShardedDataParallel::Use(ShardedUnit& unit) {
  if (!unit.gathering) return;
  std::exchange(unit.gathered, Work()).WaitOn(ctx_.device.compute());
  if (unit.gather != nullptr) unit.gather->Finish(ctx_, unit.parameters);
  unit.gathering = false;
  unit.flat->SetData(unit.parameters);
}

void ShardedDataParallel::Reshard(ShardedUnit& unit) {
  if (KeepsParameters(unit)) return;
  unit.flat->SetData(Tensor());
  unit.parameters = Tensor();
}

// ---- Around a unit's passes ----

void ShardedDataParallel::BeforeForward(ShardedUnit& unit) {
  if (!unit.flat) return;
  Gather(unit);
  unit.used = true;
  GatherAhead(units_->forward(), unit.forward);
  Use(unit);
}

// Called in the backward pass of a module around this unit (recomputation). This unit's backward pass follows at once,
// so nothing is gathered ahead: the units after it in forward order have already run backward.
void ShardedDataParallel::BeforeForwardAgain(ShardedUnit& unit) {
  if (!unit.flat) return;
  Gather(unit);
  unit.used = true;
  Use(unit);
}

// The parameters of the root and of the last unit are needed when backward begins, so they stay.
void ShardedDataParallel::AfterForward(ShardedUnit& unit, bool training) {
  if (unit.flat && (!training || (options_.reshard_after_forward && !unit.stays))) Reshard(unit);
  if (unit.root && training && options_.backward_prefetch == ShardedOptions::kPre && options_.overlap)
    FetchNext(units_->backward(), 0);
}

void ShardedDataParallel::BeforeBackwardInput(ShardedUnit& unit) {
  if (!unit.flat) return;
  Gather(unit);
  unit.used = true;
  if (options_.backward_prefetch == ShardedOptions::kPre) GatherAhead(units_->backward(), unit.backward);
  Use(unit);
}

void ShardedDataParallel::BeforeBackwardWeights(ShardedUnit& unit) {
  if (unit.flat) PrepareGradients(unit);
}

void ShardedDataParallel::AfterBackwardInput(ShardedUnit& unit) {
  if (!unit.flat) return;
  Reshard(unit);  // first, so that the next unit may reuse its memory
  if (options_.backward_prefetch == ShardedOptions::kPost) GatherAhead(units_->backward(), unit.backward_last);
}

void ShardedDataParallel::AfterBackwardWeights(ShardedUnit& unit) {
  if (unit.flat && sync_) Reduce(unit);
}

// ---- Gradients: whole while the unit's backward pass writes them, then reduced to this rank's shard ----

void ShardedDataParallel::PrepareGradients(ShardedUnit& unit) {
  if (!unit.gradients.empty()) return;  // they are always kept, or an earlier micro-batch left them to be added to
  const OwnerScope of(ctx_.owners(), {.module = unit.name});
  const FlatParameter& flat = *unit.flat;
  unit.gradients =
      ctx_.device.NewTensor(Shape{flat.padded_numel()}, options_.gradient, Category::kGradients, "whole gradients");
  for (const Tensor& padding : flat.Paddings(unit.gradients)) ctx_.Launch(ops::Fill{.out = padding, .value = 0});
  flat.SetGradients(unit.gradients);
  for (nn::Parameter* p : flat.parameters()) p->ZeroGradient();
}

// Meanwhile the gradients of the unit before it take their next step, those of the unit before that the one after, and
// so on (reduction_pipeline.h).
void ShardedDataParallel::Reduce(ShardedUnit& unit) {
  if (!pipeline_.Moves(unit.forward)) return;
  for (const nn::Parameter* p : unit.flat->parameters()) {
    TWOFOLD_CHECK(p->has_gradient(), p->name() + " got no gradient in this backward pass");
  }
  if (SumsStayInFlight(unit))
    pipeline_.AdvanceDependent();
  else
    AdvanceReductions();
  // With a single unit, its reduction of the previous micro-batch may still be in flight.
  while (pipeline_.IsInFlight(unit.forward)) AdvanceReductions();
  Tensor whole = unit.gradients;
  if (!KeepsGradients(unit)) {
    unit.flat->SetGradients(Tensor());
    unit.gradients = Tensor();
  }
  pipeline_.Start(unit.forward, std::move(whole), last_);
  unit.reduced = last_;
  if (!options_.overlap) FinishReductions();
}

void ShardedDataParallel::AdvanceReductions() {
  if (host_) host_->Settle();
  pipeline_.Advance();
}

void ShardedDataParallel::FinishReductions() {
  while (!pipeline_.idle()) AdvanceReductions();
  if (host_) host_->Settle();
}

// ---- A step ----

void ShardedDataParallel::BeginStep(double loss_scale) {
  pipeline_.BeginStep(loss_scale);
  for (ShardedUnit* unit : units_->forward()) {
    unit->reduced = false;
    for (nn::Parameter* p : unit->flat->parameters()) p->ZeroGradient();
  }
}

// kOptimizer cannot reduce after every micro-batch: it keeps whole gradients, and after a reduction one shard of them
// would already be a mean, so they could not be added to and reduced again.
void ShardedDataParallel::BeginMicroBatch(bool last) {
  last_ = last;
  sync_ = last || (options_.reduce_every_micro_batch && options_.stage >= ShardedOptions::kGradients);
}

void ShardedDataParallel::FinishGradients() {
  FinishReductions();
  pipeline_.Finish();
  if (host_) host_->Settle();
  for (const ShardedUnit* unit : units_->forward()) {
    TWOFOLD_CHECK(unit->reduced || !pipeline_.Moves(unit->forward),
                  unit->flat->parameters()[0]->name() + " was not reduced: no micro-batch was the last");
  }
}

void ShardedDataParallel::PublishUpdate() {
  for (ShardedUnit* unit : units_->forward()) {
    if (Alone(*unit)) continue;
    if (!KeepsParameters(*unit)) {
      TWOFOLD_CHECK(unit->parameters.empty() && !(host_ && host_->holds(*unit)),
                    unit->name + " still has the parameters from before the update");
      unit->gather->Updated();
      continue;
    }
    unit->gathered = unit->sharing->gather->AllGather(unit->parameters, unit->shard);
    unit->gathering = true;
    if (!options_.overlap) Use(*unit);
  }
}

std::vector<optim::Slice> ShardedDataParallel::Slices() const {
  std::vector<optim::Slice> slices;
  for (const ShardedUnit* unit : units_->forward()) {
    slices.push_back({.name = unit->name,
                      .data = unit->shard,
                      .gradient = unit->gradient_shard,
                      .parts = unit->flat->PartsOf(unit->sharing->gather->rank())});
  }
  return slices;
}

std::vector<std::vector<optim::SlicePart>> ShardedDataParallel::PartsOfShard(int shard) const {
  std::vector<std::vector<optim::SlicePart>> parts;
  for (const ShardedUnit* unit : units_->forward()) parts.push_back(unit->flat->PartsOf(shard));
  return parts;
}

void ShardedDataParallel::ForShared(absl::FunctionRef<void(const ShardedUnit& unit, int64_t shard)> visit) const {
  for (const ShardedUnit* unit : units_->forward()) {
    std::set<int64_t> shards;
    for (const optim::SlicePart& place : unit->flat->places()) {
      const std::vector<nn::ShardLayout::Part>& parts = place.parameter->shard_layout().parts;
      if (std::all_of(parts.begin(), parts.end(), [](const auto& p) { return p.holders.none(); })) continue;
      const int64_t each = unit->flat->shard_numel();
      for (int64_t s = place.offset / each; s <= (place.offset + place.count - 1) / each; ++s) shards.insert(s);
    }
    for (const int64_t shard : shards) visit(*unit, shard);
  }
}

// Where each sum is of few gradients, and all are over one group, a rank that takes the longest one of each unit may
// stand for all.
void ShardedDataParallel::TellSumsApart() {
  std::map<size_t, std::pair<int64_t, int64_t>> most;  // by bucket: elements, and the shard that sums them
  bool few = !options_.offload;                        // offloaded gradients stay on the device until they are summed
  std::set<ProcessGroup*> over;
  ForShared([&](const ShardedUnit& unit, int64_t shard) {
    const HolderSums sums = pipeline_.SumsOf(unit.forward, unit.flat->PartsOf(shard));
    if (!sums.empty()) over.insert(sums.only_group());
    few = few && sums.few() && over.size() <= 1;
    auto& known = most.try_emplace(unit.forward, 0, shard).first->second;
    if (sums.elements() > known.first) known = {sums.elements(), shard};
  });
  const bool stands_for_others = TellShardsApart(
      [this](size_t bucket, const std::vector<optim::SlicePart>& kept) -> ShardTraits {
        const HolderSums sums = pipeline_.SumsOf(bucket, kept);
        return {sums.Traits(), options_.offload ? nullptr : sums.only_group()};
      },
      "shards have different parts of the gradients that several ranks sum", few);
  if (!stands_for_others) return;
  for (const ShardedUnit* unit : units_->forward()) {
    const auto found = most.find(unit->forward);
    if (found == most.end() || found->second.first == 0) continue;
    pipeline_.StandFor(unit->forward, unit->flat->PartsOf(found->second.second));
  }
}

// Only shards with elements that several ranks of a copy of the model hold can have traits.
bool ShardedDataParallel::TellShardsApart(PartTraits traits, const std::string& why, bool briefly) {
  std::map<const Sharing*, std::map<int64_t, std::set<std::string>>> of;  // by shard; absent: none
  std::map<const Sharing*, std::set<ProcessGroup*>> over;
  ForShared([&](const ShardedUnit& unit, int64_t shard) {
    const ShardTraits shards_own = traits(unit.forward, unit.flat->PartsOf(shard));
    if (shards_own.text.empty()) return;
    of[unit.sharing][shard].insert(StrCat(unit.forward, ":", shards_own.text));
    over[unit.sharing].insert(shards_own.over);
  });
  bool stands_for_others = false;
  for (const auto& [sharing, texts] : of) {
    std::map<std::set<std::string>, int> numbers;
    std::vector<int> kinds(static_cast<size_t>(sharing->shards()));
    for (const auto& [shard, text] : texts)
      kinds[static_cast<size_t>(shard)] = numbers.try_emplace(text, static_cast<int>(numbers.size()) + 1).first->second;
    const std::set<std::string>& first = texts.begin()->second;
    const bool first_has_all = std::all_of(texts.begin(), texts.end(), [&](const auto& shard) {
      return std::includes(first.begin(), first.end(), shard.second.begin(), shard.second.end());
    });
    ProcessGroup* const group = over[sharing].size() == 1 ? *over[sharing].begin() : nullptr;
    if (group != nullptr && texts.begin()->first == 0 && first_has_all)
      sharing->gather->RanksDifferOver(*group, kinds, why, briefly);
    else if (briefly)
      stands_for_others = sharing->gather->RanksDifferBriefly(kinds, why) || stands_for_others;
    else
      sharing->gather->RanksDiffer(kinds, why);
  }
  return stands_for_others;
}

std::vector<FlatGradient> ShardedDataParallel::Gradients() const {
  std::vector<FlatGradient> gradients;
  for (optim::Slice& slice : Slices()) gradients.push_back({slice.gradient, std::move(slice.parts)});
  return gradients;
}

}  // namespace twofold
