#include "strategies/data_parallel/holder_sums.h"

#include <algorithm>
#include <utility>

#include "core/base/check.h"
#include "core/base/strings.h"

namespace twofold {

std::map<nn::GroupTag, HeldGradients> HeldGradientsOf(const std::vector<optim::SlicePart>& kept, bool partial) {
  std::map<nn::GroupTag, HeldGradients> all;
  optim::ForStretches(kept, [&](int64_t first, const nn::Parameter&, const nn::Parameter::Stretch& stretch) {
    if (stretch.part.partial != partial || stretch.part.holders == nn::GroupTag{}) return;
    auto& [stretches, elements] = all[stretch.part.holders];
    const int64_t count = stretch.where.count;
    if (!stretches.empty() && stretches.back().first + stretches.back().count == first) {
      stretches.back().count += count;
    } else {
      stretches.push_back({first, count});
    }
    elements += count;
  });
  return all;
}

HolderSums::HolderSums(const std::vector<optim::SlicePart>& kept, const ReplicaGroups& groups, bool copies_differ) {
  Add(kept, groups, /*partial=*/true, ReduceOp::kSum);
  if (copies_differ) Add(kept, groups, /*partial=*/false, ReduceOp::kAvg);
}

HolderSums HolderSums::Averages(const std::vector<optim::SlicePart>& kept, const ReplicaGroups& groups) {
  HolderSums averages;
  for (const bool partial : {true, false}) averages.Add(kept, groups, partial, ReduceOp::kAvg);
  return averages;
}

void HolderSums::Add(const std::vector<optim::SlicePart>& kept, const ReplicaGroups& groups, bool partial,
                     ReduceOp op) {
  for (auto& [holders, held] : HeldGradientsOf(kept, partial)) {
    TWOFOLD_CHECK(groups.Knows(holders),
                  kept[0].parameter->name() + " or one after it has a gradient to sum, and no ranks to sum it over");
    ProcessGroup* const group = groups.HoldersOf(holders);
    if (group == nullptr) continue;
    messages_.push_back({group, op, std::move(held)});
    across_stages_ |= AcrossStages(holders);
  }
}

std::string HolderSums::Traits() const {
  std::string text;
  for (const Message& message : messages_) {
    StrAppend(&text, message.group->name(), ReduceOpName(message.op));
    for (const HeldGradients::Stretch& s : message.held.stretches) StrAppend(&text, " ", s.count);
    StrAppend(&text, ";");
  }
  return text;
}

ProcessGroup* HolderSums::only_group() const {
  const bool one = std::all_of(messages_.begin(), messages_.end(), [this](const Message& message) {
    return message.group == messages_[0].group && message.held.stretches.size() == 1;
  });
  return one && !messages_.empty() ? messages_[0].group : nullptr;
}

bool HolderSums::few() const {
  constexpr int64_t kFew = 1 << 18;
  return messages_.empty() ||
         (messages_.size() == 1 && only_group() != nullptr && !across_stages_ && elements() <= kFew);
}

int64_t HolderSums::elements() const {
  int64_t all = 0;
  for (const Message& message : messages_) all += message.held.elements;
  return all;
}

std::vector<HolderSums::Sending> HolderSums::Start(nn::Context& ctx, const Tensor& gradients) const {
  std::vector<Sending> sending;
  for (const Message& message : messages_) {
    Tensor elements = gradients.Flat().Slice(message.held.stretches[0].first, message.held.stretches[0].count);
    if (message.held.stretches.size() > 1) {
      elements = ctx.device.NewTensor(Shape{message.held.elements}, gradients.dtype(), Category::kCommunication);
      int64_t at = 0;
      for (const HeldGradients::Stretch& s : message.held.stretches) {
        ctx.Launch(ops::Cast{.in = gradients.Flat().Slice(s.first, s.count), .out = elements.Slice(at, s.count)});
        at += s.count;
      }
    }
    Work work;
    const auto sum = [&] { work = message.group->AllReduce(elements, message.op); };
    brief_ ? ctx.device.Briefly(sum) : sum();
    sending.push_back({std::move(elements), std::move(work)});
  }
  return sending;
}

void HolderSums::Finish(nn::Context& ctx, std::vector<Sending> sending, const Tensor& gradients) const {
  for (size_t i = 0; i < sending.size(); ++i) {
    sending[i].work.WaitOn(ctx.stream);
    const std::vector<HeldGradients::Stretch>& stretches = messages_[i].held.stretches;
    if (stretches.size() == 1) continue;
    int64_t at = 0;
    for (const HeldGradients::Stretch& s : stretches) {
      ctx.Launch(
          ops::Cast{.in = sending[i].elements.Slice(at, s.count), .out = gradients.Flat().Slice(s.first, s.count)});
      at += s.count;
    }
  }
}

}  // namespace twofold
