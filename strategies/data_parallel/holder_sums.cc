#include "strategies/data_parallel/holder_sums.h"

#include <utility>

#include "core/base/check.h"

namespace twofold {

std::map<nn::GroupTag, PartialGradients> PartialGradientsOf(const std::vector<optim::SlicePart>& kept) {
  std::map<nn::GroupTag, PartialGradients> all;
  optim::ForStretches(kept, [&](int64_t first, const nn::Parameter&, const nn::Parameter::Stretch& stretch) {
    if (!stretch.part.partial) return;
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

HolderSums::HolderSums(const std::vector<optim::SlicePart>& kept, const ReplicaGroups& groups) {
  for (auto& [holders, partial] : PartialGradientsOf(kept)) {
    TWOFOLD_CHECK(groups.Knows(holders),
                  kept[0].parameter->name() + " or one after it has a gradient to sum, and no ranks to sum it over");
    ProcessGroup* const group = groups.HoldersOf(holders);
    if (group == nullptr) continue;
    messages_.push_back({group, std::move(partial)});
    across_stages_ |= AcrossStages(holders);
  }
}

std::vector<HolderSums::Sending> HolderSums::Start(nn::Context& ctx, const Tensor& gradients) const {
  std::vector<Sending> sending;
  for (const Message& message : messages_) {
    Tensor elements = gradients.Flat().Slice(message.partial.stretches[0].first, message.partial.stretches[0].count);
    if (message.partial.stretches.size() > 1) {
      elements = ctx.device.NewTensor(Shape{message.partial.elements}, gradients.dtype(), Category::kCommunication);
      int64_t at = 0;
      for (const PartialGradients::Stretch& s : message.partial.stretches) {
        ctx.Launch(ops::Cast{.in = gradients.Flat().Slice(s.first, s.count), .out = elements.Slice(at, s.count)});
        at += s.count;
      }
    }
    Work work = message.group->AllReduce(elements, ReduceOp::kSum);
    sending.push_back({std::move(elements), std::move(work)});
  }
  return sending;
}

void HolderSums::Finish(nn::Context& ctx, std::vector<Sending> sending, const Tensor& gradients) const {
  for (size_t i = 0; i < sending.size(); ++i) {
    sending[i].work.WaitOn(ctx.stream);
    const std::vector<PartialGradients::Stretch>& stretches = messages_[i].partial.stretches;
    if (stretches.size() == 1) continue;
    int64_t at = 0;
    for (const PartialGradients::Stretch& s : stretches) {
      ctx.Launch(
          ops::Cast{.in = sending[i].elements.Slice(at, s.count), .out = gradients.Flat().Slice(s.first, s.count)});
      at += s.count;
    }
  }
}

}  // namespace twofold
