#include "core/nn/parameter.h"

#include <algorithm>

namespace twofold::nn {
namespace {

// The number of elements in the dimensions after the sharded one: those in one step along it.
int64_t Inner(const ShardLayout& layout) {
  int64_t n = 1;
  for (int d = layout.dim + 1; d < layout.whole.rank(); ++d) n *= layout.whole[d];
  return n;
}

}  // namespace

void Parameter::set_shard_layout(ShardLayout layout) {
  TWOFOLD_CHECK_LT(layout.dim, layout.whole.rank());
  TWOFOLD_CHECK(!layout.ranges.empty() && (layout.ranges.size() == 1 || layout.dim == 0),
                "a layout of several ranges must split dimension 0");
  std::vector<int64_t> dims(layout.whole.begin(), layout.whole.end());
  dims[static_cast<size_t>(layout.dim)] = 0;
  for (const ShardLayout::Range& range : layout.ranges) {
    TWOFOLD_CHECK(range.first < 0 || range.first + range.count <= layout.whole[layout.dim],
                  name_ + ": its shard lies outside the parameter");
    dims[static_cast<size_t>(layout.dim)] += range.count;
  }
  const Shape local(dims);
  TWOFOLD_CHECK_EQ(local, shape_);
  shard_layout_ = std::move(layout);
}

void Parameter::ForRanges(int64_t first, int64_t count, absl::FunctionRef<void(const Run&)> visit) const {
  const int64_t end = first + count;
  if (shard_layout_.dim > 0) {  // one range
    const ShardLayout::Range& range = shard_layout_.ranges[0];
    if (count > 0) visit({first, -1, count, range.owned, range.sum});
    return;
  }
  const int64_t inner = Inner(shard_layout_);
  int64_t place = 0;
  for (const ShardLayout::Range& range : shard_layout_.ranges) {
    const int64_t from = std::max(first, place), to = std::min(end, place + range.count * inner);
    const bool padding = range.first < 0;
    if (from < to)
      visit({from, padding ? -1 : range.first * inner + from - place, to - from, range.owned && !padding, range.sum});
    place += range.count * inner;
  }
}

void Parameter::ForRuns(int64_t first, int64_t count, absl::FunctionRef<void(const Run&)> visit) const {
  if (shard_layout_.dim == 0) {
    ForRanges(first, count, [&](const Run& run) {
      if (run.whole >= 0) visit(run);
    });
    return;
  }
  const ShardLayout::Range& range = shard_layout_.ranges[0];
  const int64_t inner = Inner(shard_layout_), row = range.count * inner,
                whole_row = shard_layout_.whole[shard_layout_.dim] * inner;
  for (int64_t at = first; at < first + count;) {
    const int64_t in_row = at % row, n = std::min(first + count - at, row - in_row);
    visit({at, at / row * whole_row + range.first * inner + in_row, n, range.owned, range.sum});
    at += n;
  }
}

void Parameter::Initialize(Device& device, Stream& stream, uint64_t seed, Tensor out, int64_t first) const {
  TWOFOLD_CHECK_GE(first, 0);
  TWOFOLD_CHECK_LE(first + out.numel(), numel());
  const auto fill = [&](const Tensor& part, double value) {
    device.Launch(stream, ops::Fill{.out = part, .value = value});
  };
  const auto draw = [&](const Tensor& part, const ops::IndexMap& where) {
    device.Launch(stream, ops::RandomFill{.distribution = init_.kind == Init::kNormal ? ops::RandomFill::kNormal
                                                                                      : ops::RandomFill::kUniform,
                                          .out = part,
                                          .a = init_.a,
                                          .b = init_.b,
                                          .key = MakeKey(seed, name_),
                                          .where = where});
  };
  if (out.numel() == 0) return;
  if (init_.kind == Init::kConstant && shard_layout_.ranges.size() == 1) return fill(out, init_.a);
  if (shard_layout_.dim > 0) {
    const int64_t inner = Inner(shard_layout_);
    const ShardLayout::Range& range = shard_layout_.ranges[0];
    return draw(out, {.first = first,
                      .block = range.count * inner,
                      .stride = shard_layout_.whole[shard_layout_.dim] * inner,
                      .offset = {range.first * inner}});
  }
  ForRanges(first, out.numel(), [&](const Run& run) {
    const Tensor part = out.Flat().Slice(run.local - first, run.count);
    if (run.whole < 0) return fill(part, 0);
    if (init_.kind == Init::kConstant) return fill(part, init_.a);
    draw(part, {.first = run.whole});
  });
}

}  // namespace twofold::nn
