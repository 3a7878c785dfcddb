#include "strategies/model_parallel/gradient_sums.h"

#include <utility>

#include "core/base/check.h"
#include "core/base/strings.h"

namespace twofold {

std::map<nn::GroupTag, PartialGradients> PartialGradientsOf(const ParameterLayout& layout) {
  struct End {  // of the last piece
    size_t slice = 0;
    int64_t offset = -1;
  };
  std::map<nn::GroupTag, PartialGradients> all;
  std::map<nn::GroupTag, End> ends;
  const std::vector<optim::Slice> slices = layout.Slices();
  for (size_t i = 0; i < slices.size(); ++i) {
    const Tensor gradient = slices[i].gradient.Flat();
    optim::ForStretches(slices[i].parts,
                        [&](int64_t offset, const nn::Parameter& p, const nn::Parameter::Stretch& stretch) {
                          if (!stretch.part.partial) return;
                          PartialGradients& partial = all[stretch.part.holders];
                          End& end = ends[stretch.part.holders];
                          const int64_t count = stretch.where.count;
                          if (end.slice == i && end.offset == offset) {
                            const int64_t held = partial.pieces.back().numel();
                            partial.pieces.back() = gradient.Slice(offset - held, held + count);
                          } else {
                            partial.pieces.push_back(gradient.Slice(offset, count));
                          }
                          end = {i, offset + count};
                          partial.elements += count;
                          TWOFOLD_CHECK(gradient.dtype() == partial.pieces[0].dtype(),
                                        p.name() + " has another type of gradients than those before it");
                        });
  }
  return all;
}

GradientSums::GradientSums(nn::Context& ctx, const ParameterLayout& layout, const ReplicaGroups& groups) : ctx_(ctx) {
  for (auto& [holders, partial] : PartialGradientsOf(layout)) {
    ProcessGroup* group = groups.HoldersOf(holders);
    TWOFOLD_CHECK(group != nullptr, StrCat("there are no ranks to sum gradients with the tag ", holders.id, " over"));
    messages_.push_back({std::move(partial), group});
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
