#include "strategies/data_parallel/sharded_units.h"

#include <set>
#include <utility>

#include "core/base/check.h"
#include "core/base/strings.h"
#include "strategies/models/chunks.h"

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
  ShardedUnit& unit() { return unit_; }

 private:
  nn::Module& inner() const { return *children()[0].module; }

  UnitObserver& observer_;
  ShardedUnit& unit_;
};

// Null if `module` is not a unit, or is one without parameters of its own.
ShardedUnit* UnitOf(nn::Module& module) {
  auto* wrapper = dynamic_cast<UnitModule*>(&module);
  return wrapper != nullptr && wrapper->unit().flat ? &wrapper->unit() : nullptr;
}

}  // namespace

Sharing::Sharing(ProcessGroup& group, int shards, std::string_view prefix) {
  using Pattern = ProcessGroup::Pattern;
  TWOFOLD_CHECK_EQ(group.size() % shards, 0);
  gather = group.SplitEvenly(shards, Pattern::kConsecutive, StrCat(prefix, "gather"));
  reduce = group.SplitEvenly(shards, Pattern::kConsecutive, StrCat(prefix, "reduce"));
  if (group.size() > shards)
    replicate = group.SplitEvenly(group.size() / shards, Pattern::kStrided, StrCat(prefix, "replicate"));
}

ShardedUnits::ShardedUnits(std::unique_ptr<nn::Module> model, const WrapPolicy& policy, SharingOf sharing_of,
                           bool last_stays, UnitObserver& observer) {
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
    return std::make_unique<UnitModule>(observer, unit, std::move(module));
  };
  if (policy) WrapUnits(*model, policy, wrap);
  if (model->kind() == Chunks::kKind) {  // each chunk is run separately
    for (size_t c = 0; c < model->children().size(); ++c) {
      model->WrapChild(c, wrap);
      units_.back()->name = StrCat("chunk ", c);
    }
  }
  model_ = wrap(std::move(model));
  units_.back()->root = true;
  units_.back()->name = "root";
  CollectForward(*model_, 0);
  CollectBackward(*model_);
  const size_t last = forward_.back()->backward;
  for (ShardedUnit* unit : forward_) {
    const bool holds_last = unit->backward <= last && last <= unit->backward_last;
    unit->stays = unit->root || (last_stays && holds_last);
  }
}

void ShardedUnits::CollectForward(nn::Module& module, size_t chunk) {
  ShardedUnit* unit = UnitOf(module);
  if (unit != nullptr) unit->forward = forward_.size(), unit->chunk = chunk, forward_.push_back(unit);
  const bool divides = dynamic_cast<Chunks*>(&module) != nullptr;
  for (size_t i = 0; i < module.children().size(); ++i)
    CollectForward(*module.children()[i].module, divides ? i : chunk);
}

void ShardedUnits::CollectBackward(nn::Module& module) {
  ShardedUnit* unit = UnitOf(module);
  if (unit != nullptr) unit->backward = backward_.size(), backward_.push_back(unit);
  for (size_t i = module.children().size(); i-- > 0;) CollectBackward(*module.children()[i].module);
  if (unit != nullptr) unit->backward_last = backward_.size() - 1;
}

}  // namespace twofold
