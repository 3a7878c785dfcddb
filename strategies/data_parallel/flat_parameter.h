// The parameters of one unit as one flat tensor. They are concatenated and padded at the end to a multiple of the
// number of shards, so that all shards have the same size (Zhao et al. 2023, "PyTorch FSDP", VLDB 16(12), section
// 3.2.1). Shard r is elements [r, r + 1) * shard_numel().
//
// This class computes offsets only and owns no storage. The same offsets serve parameters, gradients and optimizer
// state.
#pragma once

#include <cstdint>
#include <vector>

#include "core/nn/parameter.h"
#include "core/optim/optimizer.h"

namespace twofold {

class FlatParameter {
 public:
  // All parameters must have the same element type. They must outlive this object.
  FlatParameter(std::vector<nn::Parameter*> parameters, int64_t shards);

  const std::vector<nn::Parameter*>& parameters() const { return parameters_; }
  DType dtype() const { return parameters_[0]->dtype(); }
  int64_t numel() const { return numel_; }  // without the padding
  int64_t shard_numel() const { return (numel_ + shards_ - 1) / shards_; }
  int64_t padded_numel() const { return shard_numel() * shards_; }
  int64_t padding() const { return padded_numel() - numel_; }

  // Views into a flat tensor [padded_numel()]: one shard of it, and the stretches of padding, of which none is empty.
  Tensor Shard(const Tensor& flat, int64_t shard) const { return flat.Slice(shard * shard_numel(), shard_numel()); }
  std::vector<Tensor> Paddings(const Tensor& flat) const;
  // Make the parameters' data or gradients views into `flat`. An empty `flat` resets them to empty tensors.
  void SetData(const Tensor& flat) const;
  void SetGradients(const Tensor& flat) const;

  // Where the parameters are, in the order of their offsets. Everything between and after them is padding.
  const std::vector<optim::SlicePart>& places() const { return places_; }
  std::vector<optim::SlicePart> PartsOf(int64_t shard) const;  // the parts of parameters that a shard holds

  // Writes elements [first, first + out.numel()) of the flat tensor to `out`: initial values of the parameters, zeros
  // for padding.
  void Initialize(Device& device, Stream& stream, uint64_t seed, const Tensor& out, int64_t first) const;

 private:
  std::vector<nn::Parameter*> parameters_;
  std::vector<optim::SlicePart> places_;  // of parameters_, in the same order
  int64_t shards_, numel_ = 0;
};

}  // namespace twofold
