// Models whose layers are split over ranks of the in-memory fabric, against the same models on one rank.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/unit/strategies/split_models.h"

namespace twofold {
namespace tensor_parallel_test {

using namespace split_models;

// Largest difference, over the largest value there is.
void ExpectNear(const std::map<int64_t, double>& got, const std::map<int64_t, double>& want, double tolerance,
                const std::string& what) {
  ASSERT_EQ(got.size(), want.size()) << what;
  double largest = 0, difference = 0;
  for (const auto& [place, value] : want) {
    ASSERT_TRUE(got.contains(place)) << what << " lacks element " << place;
    largest = std::max(largest, std::abs(value));
    difference = std::max(difference, std::abs(value - got.at(place)));
  }
  EXPECT_LE(difference, tolerance * std::max(largest, 1e-3)) << what;
}

std::map<int64_t, double> Values(const std::map<int64_t, Outcome::Element>& elements) {
  std::map<int64_t, double> values;
  for (const auto& [place, element] : elements) values[place] = element.value;
  return values;
}

// The owned elements of all ranks are each element of the whole once; and who has a copy of one has its value.
void ExpectWhole(const std::vector<Outcome>& ranks, const Outcome& whole, double tolerance) {
  for (const auto& [name, elements] : whole.gradients) {
    std::map<int64_t, double> owned;
    for (const Outcome& rank : ranks) {
      if (!rank.gradients.contains(name)) continue;
      for (const auto& [place, element] : rank.gradients.at(name)) {
        if (!element.owned) continue;
        EXPECT_TRUE(owned.emplace(place, element.value).second) << name << " element " << place << " has two owners";
      }
    }
    ExpectNear(owned, Values(elements), tolerance, name);
    for (const Outcome& rank : ranks) {
      if (!rank.gradients.contains(name)) continue;
      for (const auto& [place, element] : rank.gradients.at(name))
        EXPECT_EQ(element.value, owned[place]) << name << " element " << place;
    }
  }
}

class TensorParallel : public ::testing::TestWithParam<std::tuple<Case, int>> {};

TEST_P(TensorParallel, DoesWhatOneRankDoes) {
  const auto& [c, ranks] = GetParam();
  const double tolerance = c.dtype == DType::kF64 ? 1e-10 : c.dtype == DType::kF32 ? 1e-5 : 4e-2;
  const Outcome one = Train(c, 1, 1)[0];
  const std::vector<Outcome> split = Train(c, ranks, ranks);
  std::map<int64_t, double> logits;
  for (const Outcome& rank : split) {
    EXPECT_NEAR(rank.loss, one.loss, tolerance * one.loss);
    EXPECT_NEAR(rank.losses, one.losses, tolerance * one.losses);
    if (c.dtype != DType::kBF16) {
      EXPECT_EQ(rank.correct, one.correct);
    }
    EXPECT_NEAR(rank.squared_norm, one.squared_norm, tolerance * one.squared_norm);
    EXPECT_EQ(rank.squared_norm, split[0].squared_norm);
    EXPECT_EQ(rank.left, one.left) << "activations left over";
    EXPECT_FALSE(rank.kept);
    EXPECT_LT(rank.peak, one.peak) << "activations kept longer than on one rank";
    logits.insert(rank.logits.begin(), rank.logits.end());
  }
  ExpectNear(logits, one.logits, tolerance, "logits");
  ExpectWhole(split, one, tolerance);
}

std::vector<Case> Cases() {
  using nn::DropoutMasks;
  return {
      {.name = "gpt"},
      {.name = "gpt_untied_f32", .tied = false, .dtype = DType::kF32},
      {.name = "gpt_in_turn", .overlap = false, .backward_overlap = false},
      {.name = "gpt_beside_backward_alone", .overlap = false},
      {.name = "gpt_later", .later = true},
      {.name = "gpt_dropout", .unfused = true, .dropout = 0.3},
      {.name = "gpt_sequence", .sequence_parallel = true},
      {.name = "gpt_sequence_f32", .tied = false, .sequence_parallel = true, .dtype = DType::kF32},
      {.name = "gpt_sequence_in_turn", .sequence_parallel = true, .overlap = false, .backward_overlap = false},
      {.name = "gpt_rings", .sequence_parallel = true, .rings = true},
      {.name = "gpt_rings_bf16", .sequence_parallel = true, .rings = true, .dtype = DType::kBF16},
      {.name = "gpt_rings_in_turn",
       .sequence_parallel = true,
       .overlap = false,
       .backward_overlap = false,
       .rings = true},
      {.name = "gpt_rings_later_recomputed",
       .sequence_parallel = true,
       .unfused = true,
       .dropout = 0.3,
       .rings = true,
       .later = true,
       .recompute = true},
      {.name = "llama_rings_kv_2",
       .llama = true,
       .kv_heads = 2,
       .bias = false,
       .sequence_parallel = true,
       .rings = true},
      {.name = "gpt_sequence_later", .sequence_parallel = true, .later = true},
      {.name = "gpt_sequence_bf16", .sequence_parallel = true, .dtype = DType::kBF16},
      {.name = "gpt_recomputed", .unfused = true, .dropout = 0.3, .recompute = true},
      {.name = "gpt_sequence_recomputed_later",
       .sequence_parallel = true,
       .unfused = true,
       .dropout = 0.3,
       .later = true,
       .recompute = true},
      {.name = "gpt_sequence_dropout", .sequence_parallel = true, .unfused = true, .dropout = 0.3},
      {.name = "gpt_sequence_dropout_stored",
       .sequence_parallel = true,
       .unfused = true,
       .dropout = 0.3,
       .masks = DropoutMasks::kStored},
      {.name = "gpt_variant", .kv_heads = 2, .variant = true, .dropout = 0},
      {.name = "gpt_variant_sequence_later", .kv_heads = 4, .variant = true, .sequence_parallel = true, .later = true},
      {.name = "llama", .llama = true, .bias = false, .tied = false},
      {.name = "llama_kv_1", .llama = true, .kv_heads = 1},
      {.name = "llama_kv_2", .llama = true, .kv_heads = 2, .tied = false},
      {.name = "llama_kv_1_sequence_later", .llama = true, .kv_heads = 1, .sequence_parallel = true, .later = true},
      {.name = "llama_kv_2_sequence",
       .llama = true,
       .kv_heads = 2,
       .bias = false,
       .sequence_parallel = true,
       .unfused = true},
  };
}

INSTANTIATE_TEST_SUITE_P(Models, TensorParallel,
                         ::testing::Combine(::testing::ValuesIn(Cases()), ::testing::Values(2, 4)),
                         [](const auto& info) {
                           return std::get<0>(info.param).name + "_" + std::to_string(std::get<1>(info.param));
                         });

// ZeRO-2 over two replicas of two (or four) ranks that share heads and split rows: sums, norms and shards together.
TEST(TensorParallel, SumsAndNormsOfShards) {
  Case c{.name = "sharded", .llama = true, .kv_heads = 1, .sequence_parallel = true, .sharded = true};
  const std::vector<Outcome> replicas = Train(c, 2, 1), split = Train(c, 4, 2);
  Outcome whole;  // two replicas without tensor parallelism, put together
  for (const Outcome& rank : replicas)
    for (const auto& [name, elements] : rank.gradients) whole.gradients[name].insert(elements.begin(), elements.end());
  ExpectWhole(split, whole, 1e-10);
  for (const Outcome& rank : split)
    EXPECT_NEAR(rank.squared_norm, replicas[0].squared_norm, 1e-10 * replicas[0].squared_norm);
}

}  // namespace tensor_parallel_test
}  // namespace twofold
