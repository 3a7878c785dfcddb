#include "strategies/data_parallel/sharded.h"

#include <algorithm>
#include <set>
#include <utility>

#include "core/base/check.h"
#include "core/base/strings.h"
#include "strategies/data_parallel/initial_values.h"

namespace twofold {

// Replaces a unit's module: runs its passes and calls the layout before and after them.
class ShardedDataParallel::UnitModule final : public nn::Module {
 public:
  UnitModule(ShardedDataParallel& layout, Unit& unit, std::unique_ptr<nn::Module> module)
      : layout_(layout), unit_(unit) {
    AddChild("", std::move(module));
  }

  Tensor Forward(nn::Context& ctx, const Tensor& x, nn::Saved& saved) override {
    if (ctx.recomputing) {
      layout_.BeforeForwardAgain(unit_);
      return inner().Forward(ctx, x, saved.child(0));
    }
    layout_.BeforeForward(unit_);
    Tensor y = inner().Forward(ctx, x, saved.child(0));
    layout_.AfterForward(unit_, ctx.training);
    return y;
  }
  // The two halves may be far apart, with passes of other units in between. The first half needs the parameters, the
  // second the gradients.
  Tensor BackwardInput(nn::Context& ctx, Tensor dy, nn::Saved& saved) override {
    layout_.BeforeBackwardInput(unit_);
    Tensor dx = inner().BackwardInput(ctx, std::move(dy), saved.child(0));
    layout_.AfterBackwardInput(unit_);
    return dx;
  }
  void BackwardWeights(nn::Context& ctx, nn::Saved& saved) override {
    layout_.BeforeBackwardWeights(unit_);
    inner().BackwardWeights(ctx, saved.child(0));
    layout_.AfterBackwardWeights(unit_);
  }
  Tensor Backward(nn::Context& ctx, Tensor dy, nn::Saved& saved) override {
    layout_.BeforeBackwardInput(unit_);
    layout_.BeforeBackwardWeights(unit_);
    Tensor dx = inner().Backward(ctx, std::move(dy), saved.child(0));
    layout_.AfterBackwardInput(unit_);
    layout_.AfterBackwardWeights(unit_);
    return dx;
  }
  std::string_view kind() const override { return inner().kind(); }

 private:
  nn::Module& inner() const { return *children()[0].module; }

  ShardedDataParallel& layout_;
  Unit& unit_;
};

ShardedDataParallel::Sharing::Sharing(ProcessGroup& group, int shards, const char* of) {
  using Pattern = ProcessGroup::Pattern;
  TWOFOLD_CHECK_EQ(group.size() % shards, 0);
  gather = group.SplitEvenly(shards, Pattern::kConsecutive, StrCat(of, "gather"));
  reduce = group.SplitEvenly(shards, Pattern::kConsecutive, StrCat(of, "reduce"));
  if (group.size() > shards)
    replicate = group.SplitEvenly(group.size() / shards, Pattern::kStrided, StrCat(of, "replicate"));
}

ShardedDataParallel::ShardedDataParallel(nn::Context& ctx, Chunks chunks, const ReplicaGroups& replicas,
                                         ShardedOptions options)
    : ParameterLayout(std::move(chunks)),
      ctx_(ctx),
      options_(std::move(options)),
      sharers_(replicas.sharers),
      all_(replicas.all, options_.shard_group > 0 ? options_.shard_group : replicas.all.size(), "") {
  if (replicas.differ()) {
    TWOFOLD_CHECK(options_.shard_group == 0, "experts are sharded over all ranks that hold the same experts");
    experts_.emplace(replicas.experts, replicas.experts.size(), "experts' ");
  }
  if (options_.offload) {
    TWOFOLD_CHECK(options_.stage == ShardedOptions::kParameters, "only sharded parameters are offloaded");
    in_.emplace(ctx.device, "host to device");
    out_.emplace(ctx.device, "device to host");
  }
  buffers_ = std::make_unique<ReplicaBuffers>(ctx, Buffers(), replicas.all);
  Wrap();
  for (Unit* unit : forward_) Allocate(*unit);
}

ShardedDataParallel::~ShardedDataParallel() = default;

// ---- Units ----

void ShardedDataParallel::Wrap() {
  std::set<nn::Parameter*> taken;
  const auto wrap = [&](std::unique_ptr<nn::Module> module) -> std::unique_ptr<nn::Module> {
    std::vector<nn::Parameter*> own;
    for (nn::Parameter* p : module->Parameters()) {
      if (taken.insert(p).second) own.push_back(p);
    }
    units_.push_back(std::make_unique<Unit>());
    Unit& unit = *units_.back();
    unit.module = module.get();
    unit.name = module->path();
    if (!own.empty()) {
      const nn::Replicas replicas = own[0]->replicas();
      for (const nn::Parameter* p : own)
        TWOFOLD_CHECK(&SharingOf(p->replicas()) == &SharingOf(replicas),
                      p->name() + " is held by other ranks than " + own[0]->name());
      unit.sharing = &SharingOf(replicas);
      unit.flat.emplace(std::move(own), unit.sharing->shards());
    }
    auto wrapper = std::make_unique<UnitModule>(*this, unit, std::move(module));
    if (unit.flat) unit_of_[wrapper.get()] = &unit;
    return wrapper;
  };
  const auto policy = [&](const nn::Module& module, int64_t parameters) {
    return (experts_ && module.kind() == "experts") || (options_.wrap && options_.wrap(module, parameters));
  };
  for (size_t c = 0; c < chunks_.size(); ++c) {
    if (experts_ || options_.wrap) WrapUnits(*chunks_[c], policy, wrap);
    chunks_[c] = wrap(std::move(chunks_[c]));
    units_.back()->root = chunks_.size() == 1;
    units_.back()->name = chunks_.size() == 1 ? "root" : StrCat("chunk ", c);
  }
  for (size_t c = 0; c < chunks_.size(); ++c) CollectForward(*chunks_[c], c);
  for (size_t c = chunks_.size(); c-- > 0;) CollectBackward(*chunks_[c]);
}

// Null if `module` is not a unit, or is one without parameters of its own.
ShardedDataParallel::Unit* ShardedDataParallel::UnitOf(const nn::Module& module) const {
  const auto found = unit_of_.find(&module);
  return found != unit_of_.end() ? found->second : nullptr;
}

// Both orders start at a chunk's own unit. Backward visits children from the last to the first.
void ShardedDataParallel::CollectForward(nn::Module& module, size_t chunk) {
  Unit* unit = UnitOf(module);
  if (unit != nullptr) unit->forward = forward_.size(), unit->chunk = chunk, forward_.push_back(unit);
  for (const nn::Module::NamedChild& child : module.children()) CollectForward(*child.module, chunk);
}

void ShardedDataParallel::CollectBackward(nn::Module& module) {
  Unit* unit = UnitOf(module);
  if (unit != nullptr) unit->backward = backward_.size(), backward_.push_back(unit);
  for (size_t i = module.children().size(); i-- > 0;) CollectBackward(*module.children()[i].module);
  if (unit != nullptr) unit->backward_last = backward_.size() - 1;
}

// Draws the initial values of this rank's shard. If several ranks draw the same elements, all take the first one's
// values.
void ShardedDataParallel::Draw(Unit& unit) {
  const FlatParameter& flat = *unit.flat;
  const int64_t rank = unit.sharing->gather->rank();
  flat.Initialize(ctx_.device, ctx_.stream, ctx_.seed, unit.shard, rank * flat.shard_numel());
  if (unit.sharing->replicas() > 1) unit.sharing->replicate->Broadcast(unit.shard, 0).WaitOn(ctx_.device.compute());
  flat.ForParts(rank, [&](const nn::Parameter& p, int64_t first, int64_t offset, int64_t count) {
    ShareInitialValues(ctx_, sharers_, p, first, unit.shard.Slice(offset, count));
  });
}

// Allocates what this rank keeps of the unit, and sets the initial values.
void ShardedDataParallel::Allocate(Unit& unit) {
  const FlatParameter& flat = *unit.flat;
  const int64_t rank = unit.sharing->gather->rank();
  if (KeepsParameters(unit)) {
    unit.used = true;
    unit.parameters = ctx_.device.NewTensor(Shape{flat.padded_numel()}, flat.dtype(), Category::kParameters);
    unit.shard = flat.Shard(unit.parameters, rank);
    flat.SetData(unit.parameters);
    Draw(unit);
    if (!Alone(unit)) unit.sharing->gather->AllGather(unit.parameters, unit.shard).WaitOn(ctx_.device.compute());
  } else {
    unit.shard = ctx_.device.NewTensor(Shape{flat.shard_numel()}, flat.dtype(), Category::kParameters);
    Draw(unit);
    if (options_.offload) {
      const Tensor made =
          std::exchange(unit.shard, ctx_.device.NewHostTensor(unit.shard.shape(), flat.dtype(), Category::kParameters));
      out_->Copy(made, unit.shard).WaitOn(ctx_.device.compute());
    }
  }
  if (KeepsGradients(unit)) {
    PrepareGradients(unit);
    unit.gradient_shard = flat.Shard(unit.gradients, rank);
  } else {
    CachingAllocator& memory = options_.offload ? ctx_.device.host_allocator() : ctx_.device.allocator();
    unit.gradient_shard = twofold::Allocate(memory, Shape{flat.shard_numel()}, options_.gradient, Category::kGradients);
  }
}

std::vector<ShardedDataParallel::UnitInfo> ShardedDataParallel::units() const {
  std::vector<UnitInfo> units;
  for (const Unit* u : forward_) units.push_back({u->module->path(), u->flat->numel(), u->flat->padded_numel()});
  return units;
}

// ---- Parameters: gathered, used, freed ----

void ShardedDataParallel::Fetch(Unit& unit) {
  if (!unit.parameters.empty() || !unit.staged.empty()) return;
  unit.staged = ctx_.device.NewTensor(unit.shard.shape(), unit.shard.dtype(), Category::kParameters);
  unit.host_to_device = in_->Copy(unit.shard, unit.staged);
}

void ShardedDataParallel::BringNext(const std::vector<Unit*>& order, size_t place) {
  if (!options_.offload || options_.prefetch == 0) return;
  const size_t chunk = place < order.size() ? order[place]->chunk : 0;
  while (place < order.size() && !order[place]->parameters.empty()) ++place;
  if (place < order.size() && order[place]->chunk == chunk) Fetch(*order[place]);
}

void ShardedDataParallel::Gather(Unit& unit) {
  if (!unit.parameters.empty()) return;
  if (options_.offload) {
    Fetch(unit);
    std::exchange(unit.host_to_device, Transfer()).WaitOn(ctx_.device.compute());
  }
  const FlatParameter& flat = *unit.flat;
  const Tensor shard = options_.offload ? std::exchange(unit.staged, Tensor()) : unit.shard;
  unit.parameters = ctx_.device.NewTensor(Shape{flat.padded_numel()}, flat.dtype(), Category::kParameters);
  unit.gather = unit.sharing->gather->AllGather(unit.parameters, shard);
  unit.gathering = true;
  unit.used = false;
  if (!options_.overlap) Use(unit);
}

// Starts to gather the units of `order` after `place`, within the limits. Stops at the end of the chunk, since only the
// schedule knows which chunk comes next.
void ShardedDataParallel::GatherAhead(const std::vector<Unit*>& order, size_t place) {
  if (options_.stage < ShardedOptions::kParameters || !options_.overlap) return;
  const size_t end = std::min(order.size(), place + 1 + static_cast<size_t>(options_.prefetch));
  for (size_t i = place + 1; i < end && order[i]->chunk == order[place]->chunk; ++i) {
    if (options_.prefetch_limit > Bytes(0)) {
      Bytes ahead(order[i]->flat->padded_numel() * ElementSize(order[i]->flat->dtype()));
      for (const Unit* u : forward_) {
        if (!u->parameters.empty() && !u->used && u != order[i]) ahead += u->parameters.bytes();
      }
      if (ahead > options_.prefetch_limit) break;
    }
    Gather(*order[i]);
  }
  BringNext(order, place + 1);
}

void ShardedDataParallel::Use(Unit& unit) {
  if (!unit.gathering) return;
  std::exchange(unit.gather, Work()).WaitOn(ctx_.device.compute());
  unit.gathering = false;
  unit.flat->SetData(unit.parameters);
}

void ShardedDataParallel::Reshard(Unit& unit) {
  if (KeepsParameters(unit)) return;
  unit.flat->SetData(Tensor());
  unit.parameters = Tensor();
}

// ---- Around a unit's passes ----

void ShardedDataParallel::BeforeForward(Unit& unit) {
  if (!unit.flat) return;
  Gather(unit);
  unit.used = true;
  GatherAhead(forward_, unit.forward);
  Use(unit);
}

// Called in the backward pass of a module around this unit (recomputation). This unit's backward pass follows at once,
// so nothing is gathered ahead: the units after it in forward order have already run backward.
void ShardedDataParallel::BeforeForwardAgain(Unit& unit) {
  if (!unit.flat) return;
  Gather(unit);
  unit.used = true;
  Use(unit);
}

// The root's parameters are needed at both ends of the model, so they are kept between forward and backward.
void ShardedDataParallel::AfterForward(Unit& unit, bool training) {
  if (unit.flat && (!training || (options_.reshard_after_forward && !unit.root))) Reshard(unit);
  if (unit.root && training && options_.backward_prefetch == ShardedOptions::kPre && options_.overlap)
    BringNext(backward_, 0);
}

void ShardedDataParallel::BeforeBackwardInput(Unit& unit) {
  if (!unit.flat) return;
  Gather(unit);
  unit.used = true;
  if (options_.backward_prefetch == ShardedOptions::kPre) GatherAhead(backward_, unit.backward);
  Use(unit);
}

void ShardedDataParallel::BeforeBackwardWeights(Unit& unit) {
  if (unit.flat) PrepareGradients(unit);
}

void ShardedDataParallel::AfterBackwardInput(Unit& unit) {
  if (!unit.flat) return;
  Reshard(unit);  // first, so that the next unit may reuse its memory
  if (options_.backward_prefetch == ShardedOptions::kPost) GatherAhead(backward_, unit.backward_last);
}

void ShardedDataParallel::AfterBackwardWeights(Unit& unit) {
  if (unit.flat && sync_) Reduce(unit);
}

// ---- Gradients: whole while the unit's backward pass writes them, then reduced to this rank's shard ----

void ShardedDataParallel::PrepareGradients(Unit& unit) {
  if (!unit.gradients.empty()) return;  // they are always kept, or an earlier micro-batch left them to be added to
  const FlatParameter& flat = *unit.flat;
  unit.gradients = ctx_.device.NewTensor(Shape{flat.padded_numel()}, options_.gradient, Category::kGradients);
  if (flat.padding() > 0) ctx_.Launch(ops::Fill{.out = flat.Padding(unit.gradients), .value = 0});
  flat.SetGradients(unit.gradients);
  for (nn::Parameter* p : flat.parameters()) p->ZeroGradient();
}

void ShardedDataParallel::Reduce(Unit& unit) {
  if (Alone(unit)) return;
  const FlatParameter& flat = *unit.flat;
  for (const nn::Parameter* p : flat.parameters()) {
    TWOFOLD_CHECK(p->has_gradient(), p->name() + " got no gradient in this backward pass");
  }
  AdvanceReductions();
  // With a single unit, its reduction of the previous micro-batch may still be in flight.
  if (replicating_ && replicating_->unit == &unit) AdvanceReductions();
  Tensor whole = unit.gradients;
  if (!KeepsGradients(unit)) {
    flat.SetGradients(Tensor());
    unit.gradients = Tensor();
  }
  if (options_.reduce != options_.gradient) {
    Tensor wire = ctx_.device.NewTensor(whole.shape(), options_.reduce, Category::kCommunication);
    ctx_.Launch(ops::Cast{.in = whole, .out = wire});
    whole = std::move(wire);
  }
  const bool direct = !options_.offload && !unit.reduced && options_.reduce == options_.gradient;
  Tensor part = direct ? unit.gradient_shard : flat.Shard(whole, unit.sharing->reduce->rank());
  // With offload, `part` must outlive `whole`.
  if (options_.offload) part = ctx_.device.NewTensor(part.shape(), part.dtype(), Category::kGradients);
  Work work = unit.sharing->reduce->ReduceScatter(part, whole, ReduceOp::kAvg);
  scattering_ = {&unit, std::move(part), std::move(work)};
  if (options_.offload && unit.reduced) {
    scattering_->sum = ctx_.device.NewTensor(unit.gradient_shard.shape(), options_.gradient, Category::kGradients);
    in_->After(storing_);
    scattering_->host_to_device = in_->Copy(unit.gradient_shard, scattering_->sum);
  }
  if (options_.overlap) return;
  AdvanceReductions();
  AdvanceReductions();
  std::exchange(storing_, Transfer()).WaitOn(ctx_.device.compute());
}

// One reduction is in flight at each stage. While a unit computes, the gradients of the unit before it are
// reduce-scattered and those of the unit before that are averaged over the replicas. With offload, those of the unit
// before that are copied to the host.
void ShardedDataParallel::AdvanceReductions() {
  std::exchange(storing_, Transfer()).WaitOn(ctx_.device.compute());
  if (replicating_) {
    replicating_->work.WaitOn(ctx_.device.compute());
    Store(*std::exchange(replicating_, std::nullopt));
  }
  if (!scattering_) return;
  scattering_->work.WaitOn(ctx_.device.compute());
  Reduction reduction = *std::exchange(scattering_, std::nullopt);
  const Sharing& sharing = *reduction.unit->sharing;
  if (sharing.replicas() == 1) return Store(std::move(reduction));
  reduction.work = sharing.replicate->AllReduce(reduction.part, ReduceOp::kAvg);
  replicating_ = std::move(reduction);
}

void ShardedDataParallel::Store(Reduction reduction) {
  if (options_.offload) return StoreOnHost(std::move(reduction));
  Unit& unit = *reduction.unit;
  if (reduction.part.address() != unit.gradient_shard.address()) {
    if (unit.reduced) {
      ctx_.Launch(ops::AddTo{.in = reduction.part, .out = unit.gradient_shard});
    } else {
      ctx_.Launch(ops::Cast{.in = reduction.part, .out = unit.gradient_shard});
    }
  }
  unit.reduced = true;
}

void ShardedDataParallel::StoreOnHost(Reduction reduction) {
  Unit& unit = *reduction.unit;
  Tensor value = std::move(reduction.part);
  if (unit.reduced) {
    reduction.host_to_device.WaitOn(ctx_.device.compute());
    ctx_.Launch(ops::AddTo{.in = value, .out = reduction.sum});
    value = std::move(reduction.sum);
  } else if (value.dtype() != unit.gradient_shard.dtype()) {
    Tensor cast = ctx_.device.NewTensor(value.shape(), unit.gradient_shard.dtype(), Category::kGradients);
    ctx_.Launch(ops::Cast{.in = value, .out = cast});
    value = std::move(cast);
  }
  storing_ = out_->Copy(value, unit.gradient_shard);
  unit.reduced = true;
}

// ---- A step ----

void ShardedDataParallel::BeginStep() {
  for (Unit* unit : forward_) {
    unit->reduced = false;
    for (nn::Parameter* p : unit->flat->parameters()) p->ZeroGradient();
  }
}

// kOptimizer cannot reduce after every micro-batch: it keeps whole gradients, and after a reduction one shard of them
// would already be a mean, so they could not be added to and reduced again.
void ShardedDataParallel::BeginMicroBatch(bool last) {
  sync_ = last || (options_.reduce_every_micro_batch && options_.stage >= ShardedOptions::kGradients);
}

void ShardedDataParallel::FinishGradients() {
  AdvanceReductions();
  AdvanceReductions();
  std::exchange(storing_, Transfer()).WaitOn(ctx_.device.compute());
  for (const Unit* unit : forward_) {
    TWOFOLD_CHECK(Alone(*unit) || unit->reduced,
                  unit->flat->parameters()[0]->name() + " was not reduced: no micro-batch was the last");
  }
}

void ShardedDataParallel::PublishUpdate() {
  for (Unit* unit : forward_) {
    if (Alone(*unit)) continue;
    if (!KeepsParameters(*unit)) {
      TWOFOLD_CHECK(unit->parameters.empty() && unit->staged.empty(),
                    unit->name + " still has the parameters from before the update");
      continue;
    }
    unit->gather = unit->sharing->gather->AllGather(unit->parameters, unit->shard);
    unit->gathering = true;
    if (!options_.overlap) Use(*unit);
  }
}

std::vector<optim::Slice> ShardedDataParallel::Slices() const {
  std::vector<optim::Slice> slices;
  for (const Unit* unit : forward_) {
    slices.push_back({.name = unit->name,
                      .data = unit->shard,
                      .gradient = unit->gradient_shard,
                      .parts = unit->flat->PartsOf(unit->sharing->gather->rank())});
  }
  return slices;
}

std::vector<Tensor> ShardedDataParallel::Gradients() const {
  std::vector<Tensor> gradients;
  for (const Unit* unit : forward_) gradients.push_back(unit->gradient_shard);
  return gradients;
}

}  // namespace twofold
