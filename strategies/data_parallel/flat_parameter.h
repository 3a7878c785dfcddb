// The parameters of one unit as one flat tensor: one after the other, padded at the end to a multiple of the number of
// shards, so that every rank holds as much (Zhao et al. 2023, "PyTorch FSDP", VLDB 16(12), section 3.2.1). Shard r is
// elements [r, r + 1) * shard_numel().
//
// Places only, no storage: the same ones serve parameters, gradients and whatever the optimizer keeps.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/functional/function_ref.h"
#include "core/nn/parameter.h"
#include "core/optim/optimizer.h"

namespace twofold {

class FlatParameter {
 public:
  // All of one element type; they must outlive this.
  FlatParameter(std::vector<nn::Parameter*> parameters, int64_t shards);

  const std::vector<nn::Parameter*>& parameters() const { return parameters_; }
  DType dtype() const { return parameters_[0]->dtype(); }
  int64_t numel() const { return numel_; }                          // without the padding
  int64_t shard_numel() const { return (numel_ + shards_ - 1) / shards_; }
  int64_t padded_numel() const { return shard_numel() * shards_; }
  int64_t padding() const { return padded_numel() - numel_; }

  // Of a flat tensor [padded_numel()]: one shard of it, its padding, and the place of every parameter.
  Tensor Shard(const Tensor& flat, int64_t shard) const { return flat.Slice(shard * shard_numel(), shard_numel()); }
  Tensor Padding(const Tensor& flat) const { return flat.Slice(numel_, padding()); }
  void SetData(const Tensor& flat) const;      // the parameters' data are views into it; an empty one takes them away
  void SetGradients(const Tensor& flat) const;

  // What of which parameters shard r holds: elements [first, first + count) of one, in the shard from `offset` on.
  void ForParts(int64_t shard, absl::FunctionRef<void(const nn::Parameter&, int64_t first, int64_t offset, int64_t count)> visit) const;
  std::vector<optim::SlicePart> PartsOf(int64_t shard) const;

  // Writes the parameters' initial values, zeros for padding, to elements [first, first + out.numel()) of the flat tensor.
  void Initialize(Device& device, Stream& stream, uint64_t seed, const Tensor& out, int64_t first) const;

 private:
  std::vector<nn::Parameter*> parameters_;
  int64_t shards_, numel_ = 0;
};

}  // namespace twofold
