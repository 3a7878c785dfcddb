#include "core/data/distributed_sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>

namespace twofold {
namespace distributed_sampler_test {

using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

DistributedSampler Sampler(const SamplerOptions& options) {
  absl::StatusOr<DistributedSampler> sampler = DistributedSampler::Make(options);
  EXPECT_TRUE(sampler.ok()) << sampler.status();
  return *sampler;
}

// All batches of an epoch, one after the other.
std::vector<int64_t> Epoch(DistributedSampler& sampler) {
  std::vector<int64_t> all;
  for (int64_t b = 0; b < sampler.batches_per_epoch(); ++b) {
    const std::vector<int64_t> batch = sampler.Batch(b);
    all.insert(all.end(), batch.begin(), batch.end());
  }
  return all;
}

TEST(DistributedSampler, RanksTakeTurnsInOrderWithoutShuffling) {
  DistributedSampler rank1 = Sampler({.dataset_size = 12, .replicas = 3, .rank = 1, .block = 6, .shuffle = false});
  EXPECT_EQ(rank1.batches_per_epoch(), 2);
  EXPECT_EQ(rank1.samples_per_batch(), 2);
  EXPECT_THAT(rank1.Batch(0), ElementsAre(1, 4));
  EXPECT_THAT(rank1.Batch(1), ElementsAre(7, 10));
}

TEST(DistributedSampler, EveryRankCountGivesTheSameGlobalBatches) {
  for (bool shuffle : {false, true}) {
    for (bool drop_last : {false, true}) {
      SamplerOptions options{.dataset_size = 101, .block = 24, .shuffle = shuffle, .seed = 9, .drop_last = drop_last};
      DistributedSampler one = Sampler(options);
      for (int64_t replicas : {1, 2, 3, 4, 6, 8, 12, 24}) {
        for (int64_t b = 0; b < one.batches_per_epoch(); ++b) {
          std::vector<int64_t> together(24);
          for (int64_t r = 0; r < replicas; ++r) {
            options.replicas = replicas, options.rank = r;
            const std::vector<int64_t> mine = Sampler(options).Batch(b);
            ASSERT_EQ(static_cast<int64_t>(mine.size()), 24 / replicas);
            for (size_t i = 0; i < mine.size(); ++i) together[i * replicas + r] = mine[i];
          }
          EXPECT_EQ(together, one.Batch(b)) << replicas << " replicas, batch " << b;
        }
      }
    }
  }
}

TEST(DistributedSampler, RanksAreDisjointAndCoverEverything) {
  std::vector<int64_t> all;
  for (int64_t rank = 0; rank < 4; ++rank) {
    DistributedSampler sampler = Sampler({.dataset_size = 96, .replicas = 4, .rank = rank, .block = 8});
    const std::vector<int64_t> mine = Epoch(sampler);
    all.insert(all.end(), mine.begin(), mine.end());
  }
  std::sort(all.begin(), all.end());
  std::vector<int64_t> expected(96);
  std::iota(expected.begin(), expected.end(), 0);
  EXPECT_EQ(all, expected);
}

TEST(DistributedSampler, PadsTheLastBatchFromTheFront) {
  DistributedSampler sampler = Sampler({.dataset_size = 10, .block = 4});
  EXPECT_EQ(sampler.batches_per_epoch(), 3);
  const std::vector<int64_t> all = Epoch(sampler);
  ASSERT_EQ(all.size(), 12u);
  EXPECT_EQ(std::set<int64_t>(all.begin(), all.begin() + 10).size(), 10u);
  EXPECT_EQ(all[10], all[0]);
  EXPECT_EQ(all[11], all[1]);
}

TEST(DistributedSampler, PadsADatasetSmallerThanABatchMoreThanOnce) {
  DistributedSampler sampler = Sampler({.dataset_size = 3, .block = 8, .shuffle = false});
  EXPECT_EQ(sampler.batches_per_epoch(), 1);
  EXPECT_THAT(sampler.Batch(0), ElementsAre(0, 1, 2, 0, 1, 2, 0, 1));
}

TEST(DistributedSampler, DropsTheLastBatchWhenAsked) {
  DistributedSampler sampler = Sampler({.dataset_size = 10, .block = 4, .drop_last = true});
  EXPECT_EQ(sampler.batches_per_epoch(), 2);
  const std::vector<int64_t> all = Epoch(sampler);
  EXPECT_EQ(std::set<int64_t>(all.begin(), all.end()).size(), 8u);
}

TEST(DistributedSampler, ReshufflesEveryEpochReproducibly) {
  const SamplerOptions options{.dataset_size = 50, .block = 10, .seed = 5};
  DistributedSampler sampler = Sampler(options);
  const std::vector<int64_t> first = Epoch(sampler);
  sampler.SetEpoch(1);
  const std::vector<int64_t> second = Epoch(sampler);
  EXPECT_NE(first, second);
  sampler.SetEpoch(0);
  EXPECT_EQ(Epoch(sampler), first);
  DistributedSampler other = Sampler(options);
  other.SetEpoch(1);
  EXPECT_EQ(Epoch(other), second);
  SamplerOptions seeded = options;
  seeded.seed = 6;
  DistributedSampler another = Sampler(seeded);
  EXPECT_NE(Epoch(another), first);
}

// The order is part of what a seed means: a change here changes every published loss. (Computed apart, in
// Python, from Philox's and Fisher-Yates' definitions.)
TEST(DistributedSampler, TheOrderOfASeedIsFixed) {
  DistributedSampler sampler = Sampler({.dataset_size = 8, .block = 8, .seed = 1});
  EXPECT_THAT(sampler.Batch(0), ElementsAre(5, 1, 3, 7, 2, 4, 0, 6));
}

TEST(DistributedSampler, StepsRunThroughTheEpochs) {
  DistributedSampler by_step = Sampler({.dataset_size = 10, .block = 4});
  DistributedSampler by_epoch = Sampler({.dataset_size = 10, .block = 4});
  for (int64_t step : {0, 1, 2, 3, 4, 5, 6, 100, 2}) {
    by_epoch.SetEpoch(step / 3);
    EXPECT_EQ(by_step.BatchAt(step), by_epoch.Batch(step % 3)) << step;
    EXPECT_EQ(by_step.epoch(), step / 3);
  }
}

TEST(DistributedSampler, WithoutSetEpochEveryEpochIsTheFirst) {
  SamplerOptions options{.dataset_size = 40, .replicas = 2, .rank = 1, .block = 8};
  DistributedSampler right = Sampler(options);
  options.set_epoch = false;
  DistributedSampler wrong = Sampler(options), continued = Sampler(options);
  std::set<int64_t> seen, seen_right;
  for (int64_t step = 0; step < 20; ++step) {
    const std::vector<int64_t> batch = wrong.BatchAt(step);
    EXPECT_EQ(batch, right.Batch(step % 5)) << step;  // of epoch 0
    EXPECT_EQ(batch, continued.BatchAfter(8 * step)) << step;
    seen.insert(batch.begin(), batch.end());
  }
  for (int64_t step = 0; step < 20; ++step) {
    const std::vector<int64_t> batch = right.BatchAt(step);
    seen_right.insert(batch.begin(), batch.end());
  }
  EXPECT_EQ(seen.size(), 20U);  // half of the samples, whatever the number of epochs
  EXPECT_GT(seen_right.size(), 30U);
}

TEST(DistributedSampler, EveryPlaceIsEquallyLikely) {
  constexpr int kEpochs = 6000, kSize = 6;
  DistributedSampler sampler = Sampler({.dataset_size = kSize, .block = kSize});
  int at[kSize][kSize] = {};
  for (int e = 0; e < kEpochs; ++e) {
    sampler.SetEpoch(e);
    const std::vector<int64_t> order = sampler.Batch(0);
    for (int i = 0; i < kSize; ++i) ++at[i][order[i]];
  }
  for (const auto& row : at) EXPECT_THAT(row, Each(::testing::AllOf(::testing::Gt(850), ::testing::Lt(1150))));
}

TEST(DistributedSampler, RefusesWhatCannotBe) {
  const auto message = [](SamplerOptions options) {
    return std::string(DistributedSampler::Make(options).status().message());
  };
  EXPECT_THAT(message({.dataset_size = 0}), HasSubstr("samples (got 0)"));
  EXPECT_THAT(message({.dataset_size = 9, .replicas = 0}),
              HasSubstr("the number of replicas must be at least 1 (got 0)"));
  EXPECT_THAT(message({.dataset_size = 9, .replicas = 2, .rank = 2, .block = 2}),
              HasSubstr("the rank must be 0 to 1 (got 2)"));
  EXPECT_THAT(message({.dataset_size = 9, .replicas = 2, .block = 3}), HasSubstr("multiple of the 2 replicas"));
  EXPECT_THAT(message({.dataset_size = 3, .block = 4, .drop_last = true}), HasSubstr("no batch is left"));
}

}  // namespace distributed_sampler_test
}  // namespace twofold
