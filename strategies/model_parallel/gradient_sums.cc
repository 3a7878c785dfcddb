#include "strategies/model_parallel/gradient_sums.h"

#include <array>
#include <utility>

#include "core/base/check.h"
#include "strategies/model_parallel/slices.h"

namespace twofold {
namespace {

using nn::ShardLayout;

ProcessGroup* GroupOf(const Sharers& sharers, ShardLayout::Sum sum) {
  switch (sum) {
    case ShardLayout::Sum::kNone: return nullptr;
    case ShardLayout::Sum::kTensor: return sharers.tensor;
    case ShardLayout::Sum::kKeyValue: return sharers.key_value;
    case ShardLayout::Sum::kEmbedding: return sharers.embedding;
  }
  return nullptr;
}

// Whether `next` begins where `last` ends.
bool Continues(const Tensor& last, const Tensor& next) {
  return last.dtype() == next.dtype() && last.address() + static_cast<Address>(last.bytes().value()) == next.address();
}

}  // namespace

GradientSums::GradientSums(nn::Context& ctx, ParameterLayout& layout, const Sharers& sharers) : ctx_(ctx) {
  constexpr std::array kSums = {ShardLayout::Sum::kTensor, ShardLayout::Sum::kKeyValue, ShardLayout::Sum::kEmbedding};
  for (const ShardLayout::Sum sum : kSums) {
    Message message{.group = GroupOf(sharers, sum), .pieces = {}};
    Address slice = 0;  // address of the slice's gradient that the last piece belongs to
    ForSliceRanges(layout, [&](const SliceRange& range) {
      if (range.run.sum != sum || range.run.count == 0) return;
      TWOFOLD_CHECK(message.group != nullptr,
                    range.parameter.name() + " has a gradient to sum, and no ranks to sum it over");
      const Tensor piece = range.slice.gradient.Flat().Slice(range.offset, range.run.count);
      const bool grows =
          slice == range.slice.gradient.address() && !message.pieces.empty() && Continues(message.pieces.back(), piece);
      if (grows) {
        const int64_t held = message.pieces.back().numel();
        message.pieces.back() = range.slice.gradient.Flat().Slice(range.offset - held, held + range.run.count);
      } else {
        message.pieces.push_back(piece);
      }
      slice = range.slice.gradient.address();
      message.elements += range.run.count;
      TWOFOLD_CHECK(piece.dtype() == message.pieces[0].dtype(),
                    range.parameter.name() + " has another type of gradients than those before it");
    });
    if (message.group != nullptr && message.group->size() > 1 && !message.pieces.empty())
      messages_.push_back(std::move(message));
  }
}

void GradientSums::Run() {
  for (const Message& message : messages_) Sum(message);
}

void GradientSums::Sum(const Message& message) {
  const Tensor& first = message.pieces[0];
  const bool on_host = &first.allocator() != &ctx_.device.allocator();
  if (message.pieces.size() == 1 && !on_host) {
    Tensor whole = first;
    message.group->AllReduce(whole).WaitOn(ctx_.stream);
    return;
  }
  Tensor whole = ctx_.device.NewTensor(Shape{message.elements}, first.dtype(), Category::kCommunication);
  if (on_host) return SumOnHost(message, whole);
  const auto copy = [&](bool in) {
    int64_t at = 0;
    for (const Tensor& piece : message.pieces) {
      const Tensor place = whole.Slice(at, piece.numel());
      ctx_.Launch(in ? ops::Cast{.in = piece, .out = place} : ops::Cast{.in = place, .out = piece});
      at += piece.numel();
    }
  };
  copy(true);
  message.group->AllReduce(whole).WaitOn(ctx_.stream);
  copy(false);
}

// For gradients in host memory: copies them to the device, sums them, and copies them back.
void GradientSums::SumOnHost(const Message& message, Tensor& whole) {
  const auto copy = [&](std::string_view name, bool in) {
    TransferStream stream(ctx_.device, name);
    Transfer last;
    int64_t at = 0;
    for (const Tensor& piece : message.pieces) {
      const Tensor place = whole.Slice(at, piece.numel());
      last = in ? stream.Copy(piece, place) : stream.Copy(place, piece);
      at += piece.numel();
    }
    last.WaitOn(ctx_.stream);
  };
  copy("host to device", true);
  message.group->AllReduce(whole).WaitOn(ctx_.stream);
  copy("device to host", false);
}

}  // namespace twofold
