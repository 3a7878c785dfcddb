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
    places_.push_back({.parameter = p, .offset = numel_, .count = p->numel()});
    numel_ += p->numel();
  }
}

std::vector<Tensor> FlatParameter::Paddings(const Tensor& flat) const {
  std::vector<Tensor> paddings;
  int64_t end = 0;
  const auto skip_to = [&](int64_t offset) {
    if (end < offset) paddings.push_back(flat.Slice(end, offset - end));
  };
  for (const optim::SlicePart& place : places_) skip_to(place.offset), end = place.offset + place.count;
  skip_to(padded_numel());
  return paddings;
}

void FlatParameter::SetData(const Tensor& flat) const {
  for (size_t i = 0; i < parameters_.size(); ++i)
    parameters_[i]->set_data(flat.empty() ? Tensor() : flat.Slice(places_[i].offset, parameters_[i]->shape()));
}

void FlatParameter::SetGradients(const Tensor& flat) const {
  for (size_t i = 0; i < parameters_.size(); ++i)
    parameters_[i]->set_gradient(flat.empty() ? Tensor() : flat.Slice(places_[i].offset, parameters_[i]->shape()));
}

std::vector<optim::SlicePart> FlatParameter::PartsOf(int64_t shard) const {
  const int64_t from = shard * shard_numel(), to = from + shard_numel();
  std::vector<optim::SlicePart> parts;
  for (const optim::SlicePart& place : places_) {
    const int64_t begin = std::max(from, place.offset), end = std::min(to, place.offset + place.count);
    if (begin < end)
      parts.push_back(
          {.parameter = place.parameter, .first = begin - place.offset, .offset = begin - from, .count = end - begin});
  }
  return parts;
}

void FlatParameter::Initialize(Device& device, Stream& stream, uint64_t seed, const Tensor& out, int64_t first) const {
  const int64_t last = first + out.numel();
  int64_t filled = first;
  const auto fill_to = [&](int64_t offset) {
    if (filled < offset)
      device.Launch(stream, ops::Fill{.out = out.Slice(filled - first, offset - filled), .value = 0});
  };
  for (const optim::SlicePart& place : places_) {
    const int64_t begin = std::max(first, place.offset), end = std::min(last, place.offset + place.count);
    if (begin >= end) continue;
    fill_to(begin);
    place.parameter->Initialize(device, stream, seed, out.Slice(begin - first, end - begin), begin - place.offset);
    filled = end;
  }
  fill_to(last);
}

}  // namespace twofold
