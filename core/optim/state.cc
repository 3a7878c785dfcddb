#include "core/optim/state.h"

#include <algorithm>
#include <memory>
#include <vector>

namespace twofold::optim {

Slice PartOf(const Slice& slice, int64_t first, int64_t count) {
  Slice part{
      .name = slice.name, .data = slice.data.Slice(first, count), .gradient = slice.gradient.Slice(first, count)};
  for (const SlicePart& p : slice.parts) {
    const int64_t begin = std::max(p.offset, first), end = std::min(p.offset + p.count, first + count);
    if (begin < end) part.parts.push_back({p.parameter, p.first + begin - p.offset, begin - first, end - begin});
  }
  return part;
}

Tensor NewMoment(nn::Context& ctx, const Slice& slice) {
  Tensor moment =
      ctx.device.NewTensor(slice.data.shape(), ops::AccumulationType(slice.data.dtype()), Category::kOptimizerState);
  if (moment.numel() > 0) ctx.Launch(ops::Fill{.out = moment, .value = 0});
  return moment;
}

Tensor NewMaster(nn::Context& ctx, const Slice& slice) {
  const DType wide = ops::AccumulationType(slice.data.dtype());
  if (slice.data.dtype() == wide) return Tensor();
  Tensor master = ctx.device.NewTensor(slice.data.shape(), wide, Category::kOptimizerState);
  if (master.numel() > 0) ctx.Launch(ops::Cast{.in = slice.data, .out = master});
  return master;
}

Decay DecayOf(const Slice& slice, double rate) {
  std::vector<ops::ElementRange> undecayed;
  bool any = false, extends = false;  // a part decays; the previous part is the end of the last range
  for (const SlicePart& part : slice.parts) {
    if (part.count == 0) continue;
    const nn::Role role = part.parameter->role();
    const bool decays = role == nn::Role::kMatrix || role == nn::Role::kEmbedding;
    if (!decays) {
      if (!extends) undecayed.push_back({part.offset, part.offset});
      undecayed.back().end = part.offset + part.count;
    }
    extends = !decays;
    any = any || decays;
  }
  if (rate == 0 || (!any && !undecayed.empty())) return {};
  if (undecayed.empty()) return {rate, nullptr};
  return {rate, std::make_shared<const std::vector<ops::ElementRange>>(std::move(undecayed))};
}

ops::RoundingKeys RoundingKeysOf(const Slice& slice, int64_t first, int64_t count, uint64_t seed) {
  if (slice.data.dtype() == ops::AccumulationType(slice.data.dtype()) || count == 0) return nullptr;
  const auto key = [seed](const std::string& parameter) {
    return MakeKey(seed, "stochastic rounding of " + parameter);
  };
  std::vector<ops::RoundingKeyRange> draws;
  for (const SlicePart& part : slice.parts) {
    const int64_t begin = std::max(part.offset - first, int64_t{0});
    if (part.offset + part.count <= first || part.offset >= first + count || part.count == 0) continue;
    draws.push_back({draws.empty() ? 0 : begin, key(part.parameter->name()), part.first + first - part.offset});
  }
  if (draws.empty()) draws.push_back({0, key(slice.name), first});
  return std::make_shared<const std::vector<ops::RoundingKeyRange>>(std::move(draws));
}

}  // namespace twofold::optim
