#include "strategies/checkpoint/pieces.h"

#include <algorithm>

#include "core/base/strings.h"

namespace twofold::checkpoint {

std::vector<optim::Part> PartsOf(const optim::Slice& slice, const nn::Module& model) {
  if (!slice.parts.empty()) return slice.parts;
  for (const nn::Parameter* p : model.Parameters()) {
    if (p->name() != slice.name) continue;
    return {{.parameter = p->name(), .shape = p->shape(), .first = 0, .offset = 0, .count = p->numel(), .decay = p->decay()}};
  }
  return {};  // a shard of padding alone
}

std::vector<Held> ParametersHeld(ParameterLayout& layout) {
  std::vector<Held> held;
  for (const optim::Slice& slice : layout.Slices()) {
    for (const optim::Part& part : PartsOf(slice, layout.model())) {
      held.push_back({StrCat(kModel, part.parameter), part.shape, part.first, slice.data.Flat().Slice(part.offset, part.count)});
    }
  }
  return held;
}

std::vector<Held> StatesHeld(ParameterLayout& layout, const optim::Optimizer& optimizer) {
  std::vector<Held> held;
  const std::vector<optim::Slice> slices = layout.Slices();
  for (size_t i = 0; i < slices.size(); ++i) {
    for (const optim::State& state : optimizer.StateOf(i)) {
      for (const optim::Part& part : PartsOf(slices[i], layout.model())) {
        held.push_back({StrCat(kOptimizer, state.name, ".", part.parameter), part.shape, part.first,
                        state.tensor.Flat().Slice(part.offset, part.count)});
      }
    }
  }
  return held;
}

std::vector<Held> BuffersHeld(const nn::Module& model) {
  std::vector<Held> held;
  for (const nn::Parameter* b : model.Buffers()) held.push_back({StrCat(kBuffer, b->name()), b->shape(), 0, b->data().Flat()});
  return held;
}

std::vector<Held> ShareOf(const std::vector<Held>& pieces, int64_t replica, int64_t replicas) {
  int64_t total = 0;
  for (const Held& piece : pieces) total += piece.data.bytes().value();
  // Without overflow, and the same for the end of one replica as for the begin of the next.
  const auto bound = [&](int64_t r) { return total / replicas * r + total % replicas * r / replicas; };
  std::vector<Held> share;
  int64_t at = 0;
  for (const Held& piece : pieces) {
    const int64_t element = ElementSize(piece.data.dtype()), count = piece.data.numel();
    const auto cut = [&](int64_t byte) { return std::clamp<int64_t>((byte - at + element - 1) / element, 0, count); };
    const int64_t begin = bound(replica) <= at ? 0 : cut(bound(replica)), end = bound(replica + 1) <= at ? 0 : cut(bound(replica + 1));
    if (begin < end) share.push_back({piece.name, piece.shape, piece.first + begin, piece.data.Slice(begin, end - begin)});
    at += piece.data.bytes().value();
  }
  return share;
}

}  // namespace twofold::checkpoint
