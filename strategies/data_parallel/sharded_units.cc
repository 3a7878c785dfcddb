#include "strategies/data_parallel/sharded_units.h"

#include <set>
#include <utility>

#include "core/base/check.h"
#include "core/base/strings.h"

namespace twofold {
namespace {

// Replaces a unit's module: runs its passes and calls the observer before and after them.
class UnitModule final : public nn::Module {
 public:
  UnitModule(UnitObserver& observer, ShardedUnit& unit, std::unique_ptr<nn::Module> module)
      : observer_(observer), unit_(unit) {
    AddChild("", std::move(module));
  }

  Tensor Forward(nn::Context& ctx, const Tensor& x, nn::Saved& saved) override {
    if (ctx.recomputing) {
      observer_.BeforeForwardAgain(unit_);
      return inner().Forward(ctx, x, saved.child(0));
    }
    observer_.BeforeForward(unit_);
    Tensor y = inner().Forward(ctx, x, saved.child(0));
    observer_.AfterForward(unit_, ctx.training);
    return y;
  }
  void FillSaved(nn::Context& ctx, const Tensor& x, nn::Saved& saved) override {
    TWOFOLD_CHECK(ctx.recomputing, "only what is recomputed has no use for its output");
    observer_.BeforeForwardAgain(unit_);
    inner().FillSaved(ctx, x, saved.child(0));
  }
  Tensor BackwardInput(nn::Context& ctx, Tensor dy, nn::Saved& saved) override {
    observer_.BeforeBackwardInput(unit_);
    Tensor dx = inner().BackwardInput(ctx, std::move(dy), saved.child(0));
    observer_.AfterBackwardInput(unit_);
    return dx;
  }
  void BackwardWeights(nn::Context& ctx, nn::Saved& saved) override {
    observer_.BeforeBackwardWeights(unit_);
    inner().BackwardWeights(ctx, saved.child(0));
    observer_.AfterBackwardWeights(unit_);
  }
  Tensor Backward(nn::Context& ctx, Tensor dy, nn::Saved& saved) override {
    observer_.BeforeBackwardInput(unit_);
    observer_.BeforeBackwardWeights(unit_);
    Tensor dx = inner().Backward(ctx, std::move(dy), saved.child(0));
    observer_.AfterBackwardInput(unit_);
    observer_.AfterBackwardWeights(unit_);
    return dx;
  }
  std::string_view kind() const override { return inner().kind(); }

 private:
  nn::Module& inner() const { return *children()[0].module; }

  UnitObserver& observer_;
  ShardedUnit& unit_;
};

}  // namespace

Sharing::Sharing(ProcessGroup& group, const SharingSizes& sizes, std::string_view prefix) {
  using Pattern = ProcessGroup::Pattern;
  const int shards = sizes.shards;
  TWOFOLD_CHECK_EQ(group.size() % shards, 0);
  gather = group.SplitEvenly(shards, Pattern::kConsecutive, StrCat(prefix, "gather"));
  reduce = group.SplitEvenly(shards, Pattern::kConsecutive, StrCat(prefix, "reduce"));
  if (group.size() > shards)
    replicate = group.SplitEvenly(group.size() / shards, Pattern::kStrided, StrCat(prefix, "replicate"));
  if (sizes.gather_near > 0) {
    TWOFOLD_CHECK_EQ(shards % sizes.gather_near, 0);
    gather_near = gather->SplitEvenly(sizes.gather_near, Pattern::kConsecutive, StrCat(prefix, "gather_near"));
  }
  if (sizes.reduce_near > 0) {
    TWOFOLD_CHECK_EQ(shards % sizes.reduce_near, 0);
    reduce_near = reduce->SplitEvenly(sizes.reduce_near, Pattern::kConsecutive, StrCat(prefix, "reduce_near"));
    reduce_far = reduce->SplitEvenly(shards / sizes.reduce_near, Pattern::kStrided, StrCat(prefix, "reduce_far"));
  }
}

ShardedUnits::ShardedUnits(std::span<std::unique_ptr<nn::Module>> chunks, const WrapPolicy& policy,
                           SharingOf sharing_of, bool last_stays, UnitObserver& observer) {
  std::set<nn::Parameter*> taken;
  const auto wrap = [&](std::unique_ptr<nn::Module> module) -> std::unique_ptr<nn::Module> {
    std::vector<nn::Parameter*> own;
    for (nn::Parameter* p : module->Parameters()) {
      if (taken.insert(p).second) own.push_back(p);
    }
    units_.push_back(std::make_unique<ShardedUnit>(ShardedUnit{.module = module.get(), .name = module->path()}));
    ShardedUnit& unit = *units_.back();
    if (!own.empty()) {
      unit.sharing = &sharing_of(own[0]->replicas());
      for (const nn::Parameter* p : own)
        TWOFOLD_CHECK(&sharing_of(p->replicas()) == unit.sharing,
                      p->name() + " is held by other ranks than " + own[0]->name());
      unit.flat.emplace(std::move(own), unit.sharing->shards());
    }
    auto wrapper = std::make_unique<UnitModule>(observer, unit, std::move(module));
    if (unit.flat) unit_of_[wrapper.get()] = &unit;
    return wrapper;
  };
  for (size_t c = 0; c < chunks.size(); ++c) {
    if (policy) WrapUnits(*chunks[c], policy, wrap);
    chunks[c] = wrap(std::move(chunks[c]));
    units_.back()->root = chunks.size() == 1;
    units_.back()->name = chunks.size() == 1 ? "root" : StrCat("chunk ", c);
  }
  for (size_t c = 0; c < chunks.size(); ++c) CollectForward(*chunks[c], c);
  for (size_t c = chunks.size(); c-- > 0;) CollectBackward(*chunks[c]);
  const size_t last = forward_.back()->backward;
  for (ShardedUnit* unit : forward_) {
    const bool holds_last = unit->backward <= last && last <= unit->backward_last;
    unit->stays = unit->root || (last_stays && holds_last);
  }
}

// Null if `module` is not a unit, or is one without parameters of its own.
ShardedUnit* ShardedUnits::UnitOf(const nn::Module& module) const {
  const auto found = unit_of_.find(&module);
  return found != unit_of_.end() ? found->second : nullptr;
}

void ShardedUnits::CollectForward(const nn::Module& module, size_t chunk) {
  ShardedUnit* unit = UnitOf(module);
  if (unit != nullptr) unit->forward = forward_.size(), unit->chunk = chunk, forward_.push_back(unit);
  for (const nn::Module::NamedChild& child : module.children()) CollectForward(*child.module, chunk);
}

void ShardedUnits::CollectBackward(const nn::Module& module) {
  ShardedUnit* unit = UnitOf(module);
  if (unit != nullptr) unit->backward = backward_.size(), backward_.push_back(unit);
  for (size_t i = module.children().size(); i-- > 0;) CollectBackward(*module.children()[i].module);
  if (unit != nullptr) unit->backward_last = backward_.size() - 1;
}

}  // namespace twofold
