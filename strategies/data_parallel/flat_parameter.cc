#include "strategies/data_parallel/flat_parameter.h"

#include <algorithm>
#include <utility>

#include "core/base/check.h"

namespace twofold {

FlatParameter::FlatParameter(std::vector<nn::Parameter*> parameters, int64_t shards)
    : parameters_(std::move(parameters)), shards_(shards) {
  TWOFOLD_CHECK(!parameters_.empty(), "a unit holds parameters");
  TWOFOLD_CHECK_GE(shards, 1);
  for (const nn::Parameter* p : parameters_) {
    TWOFOLD_CHECK(p->dtype() == dtype(), p->name() + " has another type than the parameters before it");
    numel_ += p->numel();
  }
}

void FlatParameter::SetData(const Tensor& flat) const {
  int64_t offset = 0;
  for (nn::Parameter* p : parameters_) {
    p->set_data(flat.empty() ? Tensor() : flat.Slice(offset, p->shape()));
    offset += p->numel();
  }
}

void FlatParameter::SetGradients(const Tensor& flat) const {
  int64_t offset = 0;
  for (nn::Parameter* p : parameters_) {
    p->set_gradient(flat.empty() ? Tensor() : flat.Slice(offset, p->shape()));
    offset += p->numel();
  }
}

std::vector<optim::SlicePart> FlatParameter::PartsOf(int64_t shard) const {
  const int64_t from = shard * shard_numel(), to = from + shard_numel();
  std::vector<optim::SlicePart> parts;
  int64_t place = 0;
  for (const nn::Parameter* p : parameters_) {
    const int64_t begin = std::max(from, place), end = std::min(to, place + p->numel());
    if (begin < end)
      parts.push_back({.parameter = p, .first = begin - place, .offset = begin - from, .count = end - begin});
    place += p->numel();
  }
  return parts;
}

void FlatParameter::Initialize(Device& device, Stream& stream, uint64_t seed, const Tensor& out, int64_t first) const {
  int64_t place = 0;
  for (const nn::Parameter* p : parameters_) {
    const int64_t begin = std::max(first, place), end = std::min(first + out.numel(), place + p->numel());
    if (begin < end) p->Initialize(device, stream, seed, out.Slice(begin - first, end - begin), begin - place);
    place += p->numel();
  }
  const int64_t filled = std::clamp<int64_t>(numel_ - first, 0, out.numel());
  if (filled < out.numel())
    device.Launch(stream, ops::Fill{.out = out.Slice(filled, out.numel() - filled), .value = 0});
}

}  // namespace twofold
