#include "core/nn/parameter.h"

#include <algorithm>
#include <utility>

namespace twofold::nn {

ShardLayout ShardLayout::Whole(Shape shape, bool owned, GroupTag holders, bool partial) {
  const int64_t numel = shape.numel();
  return {.whole = std::move(shape),
          .parts = {{.where = Region::Whole(numel), .owned = owned, .holders = holders, .partial = partial}}};
}

ShardLayout ShardLayout::Rows(Shape whole, const std::vector<Range>& ranges) {
  ShardLayout layout{.whole = std::move(whole), .parts = {}};
  const int64_t row = layout.whole.numel() / layout.whole[0];
  for (const Range& range : ranges) {
    const bool padding = range.first < 0;
    layout.parts.push_back({.where = padding ? Region{.count = range.count * row}
                                             : Region::Along(layout.whole, 0, range.first, range.count),
                            .padding = padding,
                            .owned = range.owned,
                            .holders = range.holders,
                            .partial = range.partial});
  }
  return layout;
}

ShardLayout ShardLayout::Along(Shape whole, int dim, int64_t first, int64_t count, bool owned) {
  const Region where = Region::Along(whole, dim, first, count);
  return {.whole = std::move(whole), .parts = {{.where = where, .owned = owned}}};
}

void Parameter::set_shard_layout(ShardLayout layout) {
  int64_t elements = 0;
  for (const ShardLayout::Part& part : layout.parts) elements += part.where.count;
  TWOFOLD_CHECK(elements == numel(), name_ + ": its parts have other than its number of elements");
  shard_layout_ = std::move(layout);
}

void Parameter::ForParts(int64_t first, int64_t count, absl::FunctionRef<void(const Stretch&)> visit) const {
  int64_t begin = 0;  // of the part
  for (const ShardLayout::Part& part : shard_layout_.parts) {
    const int64_t from = std::max(first, begin), to = std::min(first + count, begin + part.where.count);
    if (from < to) visit({from, part.where.Slice(from - begin, to - from), part});
    begin += part.where.count;
  }
}

void Parameter::Initialize(Device& device, Stream& stream, uint64_t seed, Tensor out, int64_t first) const {
  TWOFOLD_CHECK_GE(first, 0);
  TWOFOLD_CHECK_LE(first + out.numel(), numel());
  ForParts(first, out.numel(), [&](const Stretch& stretch) {
    const Tensor part = out.Flat().Slice(stretch.local - first, stretch.where.count);
    if (stretch.part.padding || init_.kind == Init::kConstant) {
      device.Launch(stream, ops::Fill{.out = part, .value = stretch.part.padding ? 0 : init_.a});
      return;
    }
    const Region& where = stretch.where;
    ops::IndexMap index{.first = where.first};
    if (!where.contiguous()) index.block = where.width, index.stride = where.row, index.offset = {where.column};
    device.Launch(stream, ops::RandomFill{.distribution = init_.kind == Init::kNormal ? ops::RandomFill::kNormal
                                                                                      : ops::RandomFill::kUniform,
                                          .out = part,
                                          .a = init_.a,
                                          .b = init_.b,
                                          .key = MakeKey(seed, name_),
                                          .where = index});
  });
}

}  // namespace twofold::nn
