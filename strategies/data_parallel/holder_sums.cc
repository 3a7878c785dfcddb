#include "strategies/data_parallel/holder_sums.h"

#include <algorithm>
#include <utility>

#include "core/base/check.h"

namespace twofold {
namespace {

ProcessGroup* GroupOf(const Sharers& sharers, nn::ShardLayout::Sum sum) {
  switch (sum) {
    case nn::ShardLayout::Sum::kNone: return nullptr;
    case nn::ShardLayout::Sum::kTensor: return sharers.tensor;
    case nn::ShardLayout::Sum::kKeyValue: return sharers.key_value;
    case nn::ShardLayout::Sum::kEmbedding: return sharers.embedding;
  }
  return nullptr;
}

}  // namespace

HolderSums::HolderSums(const std::vector<BucketPart>& kept, const Sharers& sharers) {
  for (const BucketPart& part : kept) {
    part.parameter->ForRanges(part.first, part.count, [&](const nn::Parameter::Run& run) {
      if (run.sum == nn::ShardLayout::Sum::kNone || run.count == 0) return;
      ProcessGroup* const group = GroupOf(sharers, run.sum);
      TWOFOLD_CHECK(group != nullptr, part.parameter->name() + " has a gradient to sum, and no ranks to sum it over");
      if (group->size() > 1) Add(group, {.first = part.offset + run.local - part.first, .count = run.count});
    });
  }
}

void HolderSums::Add(ProcessGroup* group, const Stretch& stretch) {
  auto message = std::find_if(messages_.begin(), messages_.end(), [=](const Message& m) { return m.group == group; });
  if (message == messages_.end()) message = messages_.insert(message, {.group = group, .stretches = {}});
  message->elements += stretch.count;
  Stretch* const last = message->stretches.empty() ? nullptr : &message->stretches.back();
  if (last != nullptr && last->first + last->count == stretch.first) {
    last->count += stretch.count;
  } else {
    message->stretches.push_back(stretch);
  }
}

std::vector<HolderSums::Sending> HolderSums::Start(nn::Context& ctx, const Tensor& gradients) const {
  std::vector<Sending> sending;
  for (const Message& message : messages_) {
    Tensor elements = gradients.Flat().Slice(message.stretches[0].first, message.stretches[0].count);
    if (message.stretches.size() > 1) {
      elements = ctx.device.NewTensor(Shape{message.elements}, gradients.dtype(), Category::kCommunication);
      int64_t at = 0;
      for (const Stretch& s : message.stretches) {
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
    const std::vector<Stretch>& stretches = messages_[i].stretches;
    if (stretches.size() == 1) continue;
    int64_t at = 0;
    for (const Stretch& s : stretches) {
      ctx.Launch(ops::Cast{.in = sending[i].elements.Slice(at, s.count), .out = gradients.Flat().Slice(s.first, s.count)});
      at += s.count;
    }
  }
}

}  // namespace twofold
