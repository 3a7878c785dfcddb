// What a rank sees of the data with DistributedSampler::SetEpoch, and without it (docs/lab.md, step 3).
#include <cstdio>
#include <set>
#include <vector>

#include "core/data/distributed_sampler.h"

namespace {

constexpr int kEpochs = 8, kShown = 3;
constexpr twofold::SamplerOptions kOptions = {.dataset_size = 2048, .replicas = 4, .rank = 0, .block = 64, .seed = 1};

void Show(bool set_epoch) {
  twofold::SamplerOptions options = kOptions;
  options.set_epoch = set_epoch;
  twofold::DistributedSampler sampler = *twofold::DistributedSampler::Make(options);
  std::set<int64_t> seen;
  std::set<std::vector<int64_t>> batches;
  std::printf("%s set_epoch\n", set_epoch ? "with" : "without");
  for (int epoch = 0; epoch < kEpochs; ++epoch) {
    for (int64_t b = 0; b < sampler.batches_per_epoch(); ++b) {
      const std::vector<int64_t> batch = sampler.BatchAt(epoch * sampler.batches_per_epoch() + b);
      seen.insert(batch.begin(), batch.end());
      batches.insert(batch);
      if (b > 0 || epoch >= kShown) continue;
      std::printf("  epoch %d, first batch of rank 0:", epoch);
      for (int i = 0; i < 6; ++i) std::printf(" %4d", static_cast<int>(batch[static_cast<size_t>(i)]));
      std::printf(" ...\n");
    }
  }
  std::printf("  in %d epochs rank 0 saw %zu of %d samples; of its %d batches %zu were different\n", kEpochs,
              seen.size(), static_cast<int>(options.dataset_size),
              static_cast<int>(kEpochs * sampler.batches_per_epoch()), batches.size());
}

}  // namespace

int main() {
  Show(true);
  Show(false);
}
