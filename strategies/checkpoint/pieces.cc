#include "strategies/checkpoint/pieces.h"

#include <algorithm>
#include <map>
#include <utility>

#include "core/base/strings.h"

namespace twofold::checkpoint {
namespace {

using ByName = std::map<std::string_view, const nn::Parameter*>;

ByName NamesOf(const ParameterLayout& layout) {
  ByName names;
  for (const nn::Parameter* p : layout.Parameters()) names[p->name()] = p;
  return names;
}

// The number of elements per index of dimension `dim`: the product of the dimensions after it.
int64_t Below(const Shape& shape, int dim) {
  int64_t elements = 1;
  for (int d = dim + 1; d < shape.rank(); ++d) elements *= shape[d];
  return elements;
}

// Appends the pieces of parameters in `tensor`, which has the layout of `slice`. `prefix` is prepended to their names.
void AppendLocal(std::vector<LocalPiece>& held, const std::string& prefix, const optim::Slice& slice,
                 const Tensor& tensor, const ParameterLayout& layout, const ByName& names) {
  const Tensor flat = tensor.Flat();
  for (const optim::SlicePart& part : PartsOf(slice, layout)) {
    for (LocalPiece& piece : PlacesOf(*names.at(part.parameter), part.first, flat.Slice(part.offset, part.count))) {
      piece.name = prefix + piece.name;
      held.push_back(std::move(piece));
    }
  }
}

}  // namespace

std::vector<optim::SlicePart> PartsOf(const optim::Slice& slice, const ParameterLayout& layout) {
  if (!slice.parts.empty()) return slice.parts;
  for (const nn::Parameter* p : layout.Parameters()) {
    if (p->name() != slice.name) continue;
    return {{.parameter = p->name(),
             .shape = p->shape(),
             .first = 0,
             .offset = 0,
             .count = p->numel(),
             .decay = p->decay()}};
  }
  return {};  // a shard of only padding
}

std::vector<LocalPiece> PlacesOf(const nn::Parameter& p, int64_t first, const Tensor& flat) {
  const nn::ShardLayout& cut = p.shard_layout();
  const int64_t below = Below(cut.whole, cut.dim), end = first + flat.numel();
  const auto place = [&](const Band& band, int64_t at, int64_t local, int64_t count, bool owned) {
    return LocalPiece{.name = p.name(),
                      .shape = cut.whole,
                      .band = band,
                      .first = at,
                      .data = flat.Slice(local - first, count),
                      .owned = owned,
                      .replicas = p.replicas()};
  };
  if (cut.dim > 0) {  // there is one range: this rank's elements are those of a band, in order
    const nn::ShardLayout::Range& range = cut.ranges.at(0);
    TWOFOLD_CHECK_GE(range.first, 0);
    return {place({.row = cut.whole[cut.dim] * below, .column = range.first * below, .width = range.count * below},
                  first, first, flat.numel(), range.owned)};
  }
  struct Stretch {
    int64_t local, whole, count;
    bool owned;
  };
  std::vector<Stretch> stretches;  // ranges that are also adjacent in the whole are merged
  int64_t begin = 0;
  for (const nn::ShardLayout::Range& range : cut.ranges) {
    const int64_t from = std::max(first, begin), to = std::min(end, begin + range.count * below),
                  whole = range.first * below + from - begin;
    begin += range.count * below;
    if (from >= to || range.first < 0) continue;
    if (Stretch* last = stretches.empty() ? nullptr : &stretches.back();
        last != nullptr && last->owned == range.owned && last->local + last->count == from &&
        last->whole + last->count == whole) {
      last->count += to - from;
    } else {
      stretches.push_back({from, whole, to - from, range.owned});
    }
  }
  std::vector<LocalPiece> places;
  for (const Stretch& s : stretches)
    places.push_back(place(Band::Whole(cut.whole.numel()), s.whole, s.local, s.count, s.owned));
  return places;
}

std::vector<LocalPiece> LocalParameters(ParameterLayout& layout) {
  const ByName names = NamesOf(layout);
  std::vector<LocalPiece> held;
  for (const optim::Slice& slice : layout.Slices()) AppendLocal(held, kModel, slice, slice.data, layout, names);
  return held;
}

std::vector<LocalPiece> LocalStates(ParameterLayout& layout, const optim::Optimizer& optimizer) {
  const ByName names = NamesOf(layout);
  std::vector<LocalPiece> held;
  const std::vector<optim::Slice> slices = layout.Slices();
  for (size_t i = 0; i < slices.size(); ++i) {
    for (const optim::State& state : optimizer.StateOf(i)) {
      AppendLocal(held, StrCat(kOptimizer, state.name, "."), slices[i], state.tensor, layout, names);
    }
  }
  return held;
}

std::vector<LocalPiece> LocalBuffers(const ParameterLayout& layout) {
  std::vector<LocalPiece> held;
  for (const nn::Parameter* b : layout.Buffers()) {
    held.push_back({.name = StrCat(kBuffer, b->name()),
                    .shape = b->shape(),
                    .band = Band::Whole(b->numel()),
                    .data = b->data().Flat()});
  }
  return held;
}

std::vector<LocalPiece> ShareOf(const std::vector<LocalPiece>& pieces, int64_t replica, int64_t replicas) {
  int64_t total = 0;
  for (const LocalPiece& piece : pieces) total += piece.data.bytes().value();
  // Avoids overflow. The end of one replica's share equals the beginning of the next one's.
  const auto bound = [&](int64_t r) { return total / replicas * r + total % replicas * r / replicas; };
  std::vector<LocalPiece> share;
  int64_t at = 0;
  for (const LocalPiece& piece : pieces) {
    const int64_t element = ElementSize(piece.data.dtype()), count = piece.data.numel();
    const auto cut = [&](int64_t byte) { return std::clamp<int64_t>((byte - at + element - 1) / element, 0, count); };
    const int64_t begin = bound(replica) <= at ? 0 : cut(bound(replica)),
                  end = bound(replica + 1) <= at ? 0 : cut(bound(replica + 1));
    if (begin < end) {
      LocalPiece part = piece;
      part.first += begin, part.data = piece.data.Slice(begin, end - begin);
      share.push_back(std::move(part));
    }
    at += piece.data.bytes().value();
  }
  return share;
}

bool DataExists(Device& device) {
  bool exists = false;
  Tensor probe = device.NewTensor(Shape{1}, DType::kU8, Category::kOther);
  device.Upload(probe, [&exists](std::span<std::byte> out) {
    exists = true;
    std::memset(out.data(), 0, out.size());
  });
  device.compute().Synchronize();
  return exists;
}

}  // namespace twofold::checkpoint
