#include "strategies/model_parallel/shared_ranges.h"

#include <array>
#include <utility>

#include "core/base/check.h"
#include "core/base/strings.h"

namespace twofold {
namespace {

using nn::Cut;

ProcessGroup* GroupOf(const Sharers& sharers, Cut::Sum sum) {
  switch (sum) {
    case Cut::Sum::kNone: return nullptr;
    case Cut::Sum::kTensor: return sharers.tensor;
    case Cut::Sum::kKeyValue: return sharers.key_value;
    case Cut::Sum::kEmbedding: return sharers.embedding;
  }
  return nullptr;
}

// Whether `next` begins where `last` ends.
bool Continues(const Tensor& last, const Tensor& next) {
  return last.dtype() == next.dtype() && last.address() + static_cast<Address>(last.bytes().value()) == next.address();
}

}  // namespace

SharedRanges::SharedRanges(nn::Context& ctx, ParameterLayout& layout, const Sharers& sharers, Of of,
                           absl::FunctionRef<Cut::Sum(const SliceRange&)> shared)
    : ctx_(ctx) {
  constexpr std::array kSums = {Cut::Sum::kTensor, Cut::Sum::kKeyValue, Cut::Sum::kEmbedding};
  for (const Cut::Sum sum : kSums) {
    Message message{.group = GroupOf(sharers, sum), .pieces = {}};
    if (message.group != nullptr && !Sharers::several(message.group)) continue;
    Address begin = 0;  // of the tensor that the last piece is of
    ForSliceRanges(layout, [&](const SliceRange& range) {
      if (range.run.count == 0 || shared(range) != sum) return;
      TWOFOLD_CHECK(message.group != nullptr, range.parameter.name() + " is shared, and there are no ranks to exchange it with");
      const Tensor whole = (of == Of::kValues ? range.slice.data : range.slice.gradient).Flat();
      const Tensor piece = whole.Slice(range.offset, range.run.count);
      const bool grows = begin == whole.address() && !message.pieces.empty() && Continues(message.pieces.back(), piece);
      if (grows) {
        const int64_t held = message.pieces.back().numel();
        message.pieces.back() = whole.Slice(range.offset - held, held + range.run.count);
      } else {
        message.pieces.push_back(piece);
      }
      begin = whole.address();
      message.elements += range.run.count;
      TWOFOLD_CHECK(piece.dtype() == message.pieces[0].dtype(), range.parameter.name() + " has another type than those before it");
    });
    if (!message.pieces.empty()) messages_.push_back(std::move(message));
  }
}

std::string SharedRanges::Footprint() const {
  std::string text;
  for (const Message& m : messages_) StrAppend(&text, m.group->name(), " ", m.elements, IsCopied(m) ? " copied" : " in place", ";");
  return text;
}

void SharedRanges::Exchange(absl::FunctionRef<Work(ProcessGroup&, Tensor&)> exchange) {
  for (const Message& message : messages_) {
    const Tensor& first = message.pieces[0];
    Tensor whole = IsCopied(message) ? ctx_.device.NewTensor(Shape{message.elements}, first.dtype(), Category::kCommunication) : first;
    const auto copy = [&](bool in) {
      if (IsCopied(message)) LiesOnHost(message) ? CopyFromHost(message, whole, in) : CopyOnDevice(message, whole, in);
    };
    copy(true);
    exchange(*message.group, whole).WaitOn(ctx_.stream);
    copy(false);
  }
}

void SharedRanges::CopyOnDevice(const Message& message, const Tensor& whole, bool in) {
  int64_t at = 0;
  for (const Tensor& piece : message.pieces) {
    const Tensor place = whole.Slice(at, piece.numel());
    ctx_.Launch(in ? ops::Cast{.in = piece, .out = place} : ops::Cast{.in = place, .out = piece});
    at += piece.numel();
  }
}

// What lies in the host's memory comes along and goes back.
void SharedRanges::CopyFromHost(const Message& message, const Tensor& whole, bool in) {
  TransferStream stream(ctx_.device, in ? "host to device" : "device to host");
  Transfer last;
  int64_t at = 0;
  for (const Tensor& piece : message.pieces) {
    const Tensor place = whole.Slice(at, piece.numel());
    last = in ? stream.Copy(piece, place) : stream.Copy(place, piece);
    at += piece.numel();
  }
  last.WaitOn(ctx_.stream);
}

}  // namespace twofold
