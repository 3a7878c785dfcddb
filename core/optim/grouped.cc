#include <algorithm>
#include <utility>

#include "core/optim/optimizer.h"
#include "core/optim/state.h"

namespace twofold::optim {
namespace {

class Grouped final : public Optimizer {
 public:
  explicit Grouped(std::vector<RoleGroup> groups) : groups_(std::move(groups)) {
    TWOFOLD_CHECK(!groups_.empty() && learning_rate() > 0, "the first group has a learning rate");
  }

  void Attach(nn::Context& ctx, std::span<const Slice> slices) override {
    std::vector<std::vector<Slice>> of_groups(groups_.size());
    for (const Slice& slice : slices) {
      std::vector<Place>& places = places_.emplace_back();
      const std::vector<SlicePart>& parts = slice.parts;
      for (size_t begin = 0, end; begin < parts.size(); begin = end) {
        const size_t group = GroupOf(*parts[begin].parameter);
        const auto joins = [&](const SlicePart& part) {
          return !groups_[group].by_parameter && GroupOf(*part.parameter) == group;
        };
        for (end = begin + 1; end < parts.size() && joins(parts[end]);) ++end;
        const int64_t first = parts[begin].offset, last = parts[end - 1].offset + parts[end - 1].count;
        places.push_back({group, of_groups[group].size(), first});
        of_groups[group].push_back(PartOf(slice, first, last - first));
      }
    }
    for (size_t g = 0; g < groups_.size(); ++g) groups_[g].optimizer->Attach(ctx, of_groups[g]);
  }

  void Step(nn::Context& ctx, double lr, const Tensor& factor) override {
    const double scale = lr / learning_rate();
    for (const RoleGroup& group : groups_) group.optimizer->Step(ctx, group.optimizer->learning_rate() * scale, factor);
  }

  double learning_rate() const override { return groups_[0].optimizer->learning_rate(); }
  int64_t updates() const override { return groups_[0].optimizer->updates(); }
  void set_updates(int64_t updates) override {
    for (const RoleGroup& group : groups_) group.optimizer->set_updates(updates);
  }
  std::vector<State> StateOf(size_t i) const override {
    std::vector<State> states;
    for (const Place& place : places_[i]) {
      for (State& state : groups_[place.group].optimizer->StateOf(place.slice)) {
        state.offset += place.offset;
        states.push_back(std::move(state));
      }
    }
    return states;
  }
  std::vector<StateShape> StatesOf(const nn::Parameter& parameter) const override {
    return groups_[GroupOf(parameter)].optimizer->StatesOf(parameter);
  }

 private:
  struct Place {  // of a stretch of a slice, from `offset` on: the group's slice
    size_t group, slice;
    int64_t offset;
  };
  size_t GroupOf(const nn::Parameter& parameter) const {
    const auto has_role = [&](const RoleGroup& group) {
      return std::find(group.roles.begin(), group.roles.end(), parameter.role()) != group.roles.end();
    };
    const auto found = std::find_if(groups_.begin(), groups_.end(), has_role);
    TWOFOLD_CHECK(found != groups_.end(), parameter.name() + " has a role that no group of the optimizer has");
    return static_cast<size_t>(found - groups_.begin());
  }

  const std::vector<RoleGroup> groups_;
  std::vector<std::vector<Place>> places_;  // by slice, in the order of their offsets
};

}  // namespace

std::unique_ptr<Optimizer> MakeGrouped(std::vector<RoleGroup> groups) {
  return std::make_unique<Grouped>(std::move(groups));
}

}  // namespace twofold::optim
