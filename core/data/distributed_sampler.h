// Which samples each rank sees, and in which order.
//
// The semantics are those of PyTorch's DistributedSampler: every epoch is a permutation of the dataset (if shuffled, a
// new one per epoch, made from seed and epoch only), ranks take disjoint parts of it in turn, and an incomplete last
// batch is either dropped or padded by starting over from the front of the permutation.
//
// One thing is specified more strictly: batch b of an epoch is positions [b * block, (b + 1) * block) of the
// permutation for any number of replicas, and rank r takes the positions in it that are congruent to r modulo replicas,
// in order. The sequence of global batches therefore does not depend on the mesh, and any layout can be compared with
// one process.
#pragma once

#include <cstdint>
#include <vector>

#include "absl/status/statusor.h"

namespace twofold {

struct SamplerOptions {
  int64_t dataset_size = 0;  // samples, 1 to 2^32 - 1
  int64_t replicas = 1;      // data-parallel ranks
  int64_t rank = 0;          // this replica's
  int64_t block = 1;         // samples in a global batch; a multiple of replicas
  bool shuffle = true;
  uint64_t seed = 1;
  // False, to show what it is for: BatchAt and BatchAfter stay in epoch 0, so that every epoch has the first one's
  // order, as if PyTorch's DistributedSampler.set_epoch were not called.
  bool set_epoch = true;
  bool drop_last = false;  // drop the last batch when it is not full, instead of padding it
};

// Belongs to one rank and its thread. Holds the epoch's permutation: 4 bytes per sample if shuffled, else nothing.
class DistributedSampler {
 public:
  // Refuses options outside the ranges above, and a dataset that has no batch left after drop_last.
  static absl::StatusOr<DistributedSampler> Make(const SamplerOptions& options);

  int64_t batches_per_epoch() const { return batches_; }
  int64_t samples_per_batch() const { return options_.block / options_.replicas; }  // of this rank

  // Chooses the epoch (from 0) that Batch draws from; a new sampler is at epoch 0.
  void SetEpoch(int64_t epoch) { epoch_ = epoch; }
  int64_t epoch() const { return epoch_; }

  // This rank's samples_per_batch() dataset indices of batch b. REQUIRES: 0 <= b < batches_per_epoch().
  std::vector<int64_t> Batch(int64_t b);

  // The batch of a training step (from 0): moves to epoch step / batches_per_epoch() and returns the batch of that step
  // in it.
  std::vector<int64_t> BatchAt(int64_t step);
  // This rank's share of the batch that follows `samples` samples, if epochs follow one another without gaps or
  // padding. So batches of different sizes can follow one another, and every epoch has every sample once.
  std::vector<int64_t> BatchAfter(int64_t samples);

 private:
  explicit DistributedSampler(const SamplerOptions& options);
  void Permute();

  SamplerOptions options_;
  int64_t batches_ = 0;
  int64_t epoch_ = 0;
  int64_t permuted_epoch_ = -1;  // the epoch that permutation_ belongs to
  std::vector<uint32_t> permutation_;
};

}  // namespace twofold
