#include "core/data/distributed_sampler.h"

#include <numeric>
#include <utility>

#include "core/base/check.h"
#include "core/base/philox.h"
#include "core/base/status.h"

namespace twofold {

absl::StatusOr<DistributedSampler> DistributedSampler::Make(const SamplerOptions& o) {
  const auto refuse = [](const auto&... parts) { return InvalidArgument("sampler: ", parts...); };
  if (o.dataset_size < 1 || o.dataset_size > int64_t{UINT32_MAX})
    return refuse("the dataset must have 1 to ", UINT32_MAX, " samples (got ", o.dataset_size, ")");
  if (o.replicas < 1) return refuse("the number of replicas must be at least 1 (got ", o.replicas, ")");
  if (o.rank < 0 || o.rank >= o.replicas)
    return refuse("the rank must be 0 to ", o.replicas - 1, " (got ", o.rank, ")");
  if (o.block < 1 || o.block % o.replicas != 0)
    return refuse("the global batch must be a multiple of the ", o.replicas, " replicas (got ", o.block, ")");
  if (o.drop_last && o.dataset_size < o.block)
    return refuse("no batch is left when the last, incomplete one is dropped: the dataset has ", o.dataset_size,
                  " samples, but a global batch takes ", o.block, "; use a smaller batch, more data, or pad");
  return DistributedSampler(o);
}

DistributedSampler::DistributedSampler(const SamplerOptions& options) : options_(options) {
  const int64_t whole = options.dataset_size / options.block;
  batches_ = options.drop_last || options.dataset_size % options.block == 0 ? whole : whole + 1;
}

// Fisher-Yates from the end. Each draw scales 64 random bits to [0, i], which is uniform to within i / 2^64.
void DistributedSampler::Permute() {
  if (permuted_epoch_ == epoch_) return;
  permutation_.resize(static_cast<size_t>(options_.dataset_size));
  std::iota(permutation_.begin(), permutation_.end(), 0u);
  const uint64_t stream = StableHash("distributed sampler") + static_cast<uint64_t>(epoch_);
  const PhiloxKey key = MakeKey(options_.seed, stream);
  for (uint64_t i = permutation_.size() - 1; i > 0; --i) {
    const auto lanes = Philox(key, i);
    const uint64_t bits = uint64_t{lanes[0]} << 32 | lanes[1];
    const auto j = static_cast<uint64_t>((static_cast<unsigned __int128>(bits) * (i + 1)) >> 64);
    std::swap(permutation_[i], permutation_[j]);
  }
  permuted_epoch_ = epoch_;
}

std::vector<int64_t> DistributedSampler::Batch(int64_t b) {
  TWOFOLD_CHECK_GE(b, 0);
  TWOFOLD_CHECK_LT(b, batches_);
  if (options_.shuffle) Permute();
  std::vector<int64_t> indices;
  indices.reserve(static_cast<size_t>(samples_per_batch()));
  for (int64_t i = options_.rank; i < options_.block; i += options_.replicas) {
    const int64_t position = (b * options_.block + i) % options_.dataset_size;  // padding starts over from the front
    indices.push_back(options_.shuffle ? permutation_[static_cast<size_t>(position)] : position);
  }
  return indices;
}

std::vector<int64_t> DistributedSampler::BatchAt(int64_t step) {
  TWOFOLD_CHECK_GE(step, 0);
  SetEpoch(options_.set_epoch ? step / batches_ : 0);
  return Batch(step % batches_);
}

std::vector<int64_t> DistributedSampler::BatchAfter(int64_t samples) {
  TWOFOLD_CHECK_GE(samples, 0);
  std::vector<int64_t> indices;
  for (int64_t i = options_.rank; i < options_.block; i += options_.replicas) {
    SetEpoch(options_.set_epoch ? (samples + i) / options_.dataset_size : 0);
    if (options_.shuffle) Permute();
    const int64_t position = (samples + i) % options_.dataset_size;
    indices.push_back(options_.shuffle ? permutation_[static_cast<size_t>(position)] : position);
  }
  return indices;
}

}  // namespace twofold
