// What ranks that share layers send one another, against the counts of the papers.
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <string>
#include <utility>

#include "tests/unit/strategies/split_models.h"

namespace twofold {
namespace tensor_parallel_traffic_test {

using namespace split_models;

using Traffic = std::pair<int64_t, int64_t>;  // count and bytes

// Of one layer of a model, along tp: what a model with one more sends more. Bytes are those of the whole tensor, of
// which an all-reduce on a ring sends 2 (n - 1) / n, an all-gather and a reduce-scatter (n - 1) / n.
std::map<std::string, Traffic> OfALayer(Case c, int ranks) {
  std::map<std::string, Traffic> traffic;
  for (const int64_t sign : {-1, 1}) {
    c.layers = sign < 0 ? 1 : 2;
    const auto trained = Train(c, ranks, ranks);
    for (const auto& [key, sent] : trained[0].messages) {
      traffic[key.second].first += sign * sent.first;
      traffic[key.second].second += sign * sent.second;
    }
  }
  std::erase_if(traffic, [](const auto& kind) { return kind.second == Traffic(0, 0); });
  return traffic;
}

constexpr int64_t kActivation = kBatch * kTokens * kHidden * 8;  // b s h, in f64

// Shoeybi et al. 2019, section 3: "two all-reduces in the forward path and two in the backward path" of a layer, of b s
// h each.
TEST(TensorParallel, SumsFourActivationsALayer) {
  for (const bool llama : {false, true}) {
    const auto traffic = OfALayer({.name = "", .llama = llama}, 4);
    EXPECT_EQ(traffic, (std::map<std::string, Traffic>{{"all_reduce", {4, 4 * kActivation}}})) << llama;
  }
}

// Korthikanti et al. 2022, section 4.2.2: "four all-gathers and four reduce-scatters in a single forward and backward
// pass", which is as much as four all-reduces; and two more all-gathers, of the inputs of either column-parallel layer,
// which were not kept.
TEST(TensorParallel, GathersAndScattersAsMuchUnderSequenceParallelism) {
  const auto traffic = OfALayer({.name = "", .sequence_parallel = true}, 2);
  EXPECT_EQ(traffic, (std::map<std::string, Traffic>{{"all_gather", {6, 6 * kActivation}},
                                                     {"reduce_scatter", {4, 4 * kActivation}}}));
}

// Around the ring, in n - 1 messages of 1 / n each: the gathers before both column-parallel products of the forward
// pass and before both row-parallel ones of the backward pass, and the sums of the forward pass. The other collectives
// are hidden behind products that do not depend on them.
TEST(TensorParallel, PassesPartsAroundTheRing) {
  for (const int n : {2, 4}) {
    const auto traffic = OfALayer({.name = "", .sequence_parallel = true, .rings = true}, n);
    EXPECT_EQ(traffic, (std::map<std::string, Traffic>{{"all_gather", {2, 2 * kActivation}},
                                                       {"batch", {6 * (n - 1), 6 * (n - 1) * kActivation / n}},
                                                       {"reduce_scatter", {2, 2 * kActivation}}}));
  }
}

// A block that is recomputed sends its forward pass's once more: two all-reduces, or two all-gathers and two
// reduce-scatters.
TEST(TensorParallel, SendsForwardsMessagesAgainWhereItIsRecomputed) {
  EXPECT_EQ(OfALayer({.name = "", .recompute = true}, 2),
            (std::map<std::string, Traffic>{{"all_reduce", {6, 6 * kActivation}}}));
  EXPECT_EQ(
      OfALayer({.name = "", .sequence_parallel = true, .recompute = true}, 2),
      (std::map<std::string, Traffic>{{"all_gather", {8, 8 * kActivation}}, {"reduce_scatter", {6, 6 * kActivation}}}));
}

// Embedding, head and loss: the embedding's sum and the head's input gradient; a row's largest logit, and its two sums
// (three times: the loss, the losses of rows, and what is right, which takes a third sum).
TEST(TensorParallel, SumsThreeNumbersARowForTheLoss) {
  Case c{.name = ""};
  c.layers = 0;
  const Outcome rank = Train(c, 2, 2)[0];
  const int64_t row = kBatch * kTokens * 8;
  const std::map<std::pair<std::string, std::string>, Traffic> want = {
      {{rank.messages.begin()->first.first, "all_reduce"}, {2 + 6, 2 * kActivation + (3 + 3 + 4) * row}}};
  EXPECT_EQ(rank.messages, want);
}

}  // namespace tensor_parallel_traffic_test
}  // namespace twofold
