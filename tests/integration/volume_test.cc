// What every layout sends in a step, in bytes, against its closed form: Rajbhandari et al. 2020 (ZeRO), section 7; Zhao
// et al. 2023 (FSDP), section 3.2.2; with A micro-batches a step and the padding of every unit. And what is sent once,
// at the start.
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "tests/integration/run_spec.h"

namespace twofold {
namespace volume_test {

constexpr int64_t kLayers = 3, kHidden = 20, kVocab = 256, kSequence = 8, kElement = 4;
// Llama's and GPT's blocks differ; this is GPT's: two norms, four matrices with biases.
constexpr int64_t kBlock = 12 * kHidden * kHidden + 13 * kHidden;
constexpr int64_t kRoot = kVocab * kHidden + kSequence * kHidden + 2 * kHidden;  // tied head

struct Case {
  const char* name;
  int64_t ranks, group, micro_batches;  // group: ranks that share one copy
  const char* parallel;
  int64_t gathers_of_block, gathers_of_last, gathers_of_root;  // a step: of a block, but of the last one; of the root
  int64_t reductions;                                          // a step; 0: all-reduces of whole gradients
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

int64_t Padded(int64_t numel, int64_t shards) { return (numel + shards - 1) / shards * shards; }

// Bytes that a rank sends in a step, by the formulas above.
double ClosedForm(const Case& c) {
  const auto n = static_cast<double>(c.group), replicas = static_cast<double>(c.ranks / c.group);
  const auto blocks = static_cast<double>(Padded(kBlock, c.group) * kLayers * kElement),
             root = static_cast<double>(Padded(kRoot, c.group) * kElement);
  const auto times = [](int64_t count, double bytes) { return static_cast<double>(count) * bytes; };
  if (c.reductions == 0) return 2 * static_cast<double>((kBlock * kLayers + kRoot) * kElement) * (n - 1) / n;
  const double gathered =
      times(c.gathers_of_block * (kLayers - 1) + c.gathers_of_last, blocks / kLayers) + times(c.gathers_of_root, root);
  const double between = 2 * (blocks + root) / n * (replicas - 1) / replicas;
  return (gathered + times(c.reductions, blocks + root)) * (n - 1) / n + times(c.reductions, between);
}

// Payload bytes by operation and group. The loss's own all-reduce, 4 bytes a step among all ranks, is left out.
using Payloads = std::map<std::pair<std::string, std::string>, int64_t>;

Payloads PayloadsOf(const Case& c, int steps) {
  const auto records = test::RunText(StrCat(
      "model { gpt { layers: ", kLayers, " hidden: ", kHidden, " heads: 2 vocab: ", kVocab, " sequence: ", kSequence,
      " } }\n", "train { warmup_steps: 0 steps: ", steps, " micro_batch: 1 global_batch: ", c.ranks * c.micro_batches,
      " }\nparallel { dp: ", c.ranks, " ", c.parallel, " }\n", test::kInMemory));
  Payloads payloads;
  for (const report::Collective& call : records[0].collectives())
    payloads[{call.operation(), call.group()}] += call.bytes();
  payloads[{"all_reduce", "world"}] -= kElement * steps;
  return payloads;
}

Payloads Combined(Payloads a, int64_t times_a, const Payloads& b, int64_t times_b) {
  for (auto& [key, bytes] : a) bytes *= times_a;
  for (const auto& [key, bytes] : b) a[key] += times_b * bytes;
  std::erase_if(a, [](const auto& item) { return item.second == 0; });
  return a;
}

// What its calls send: 2 (n - 1) / n of its payload for an all-reduce among n ranks, (n - 1) / n for the others.
double Sent(const Case& c, const Payloads& payloads) {
  const std::map<std::string, int64_t> sizes = {
      {"world", c.ranks}, {"gather", c.group}, {"reduce", c.group}, {"replicate", c.ranks / c.group}};
  double bytes = 0;
  for (const auto& [call, payload] : payloads) {
    const auto n = static_cast<double>(sizes.at(call.second));
    bytes += static_cast<double>(payload) * (n - 1) / n * (call.first == "all_reduce" ? 2 : 1);
  }
  return bytes;
}

// So that all ranks begin alike: whole parameters are the first rank's, or their owners'; of shards, those of the first
// replica.
Payloads AtTheStart(const Case& c) {
  const int64_t padded = (Padded(kBlock, c.group) * kLayers + Padded(kRoot, c.group)) * kElement;
  const std::string_view parallel = c.parallel;
  if (c.reductions == 0) return {{{"broadcast", "world"}, (kBlock * kLayers + kRoot) * kElement}};
  if (parallel.find("ZERO_1") != parallel.npos || parallel.find("ZERO_2") != parallel.npos)
    return {{{"all_gather", "gather"}, padded}};
  if (c.ranks > c.group) return {{{"broadcast", "replicate"}, padded / c.group}};
  return {};
}

class Volume : public ::testing::TestWithParam<Case> {};

TEST_P(Volume, IsTheClosedForm) {
  const Case& c = GetParam();
  const Payloads two = PayloadsOf(c, 2), three = PayloadsOf(c, 3);
  const double step = Sent(c, Combined(three, 1, two, -1));
  EXPECT_DOUBLE_EQ(step, ClosedForm(c));
  EXPECT_GT(step, 0);
  EXPECT_EQ(Combined(two, 3, three, -2), AtTheStart(c));
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, Volume,
    ::testing::Values(  // 3 ranks divide neither the blocks nor the root
        Case{"Ddp", 3, 3, 1, "sharding: NO_SHARD", 0, 0, 0, 0},
        Case{"DdpA4", 3, 3, 4, "sharding: NO_SHARD", 0, 0, 0, 0},
        Case{"Zero1", 3, 3, 1, "sharding: ZERO_1", 1, 1, 1, 1},
        Case{"Zero1A4", 3, 3, 4, "sharding: ZERO_1", 1, 1, 1, 1},
        Case{"Zero2", 3, 3, 1, "sharding: ZERO_2", 1, 1, 1, 1},
        Case{"Zero2A4", 3, 3, 4, "sharding: ZERO_2", 1, 1, 1, 4},
        Case{"Zero2A4Once", 3, 3, 4, "sharding: ZERO_2 reduce_every_micro_batch: false", 1, 1, 1, 1},
        Case{"Zero3", 3, 3, 1, "sharding: ZERO_3", 2, 1, 1, 1},
        Case{"Zero3A4", 3, 3, 4, "sharding: ZERO_3", 8, 4, 4, 4},
        Case{"Zero3A4Once", 3, 3, 4, "sharding: ZERO_3 reduce_every_micro_batch: false", 8, 4, 4, 1},
        Case{"Zero3KeptA4", 3, 3, 4, "sharding: ZERO_3 reshard_after_forward: false", 4, 4, 4, 4},
        Case{"Zero3OtherPrefetchA4", 3, 3, 4, "sharding: ZERO_3 prefetch: 3 backward_prefetch: BACKWARD_POST", 8, 4, 4,
             4},
        Case{"HybridA4", 6, 3, 4, "sharding: HYBRID_SHARD shard_group: 3", 8, 4, 4, 4},
        Case{"HybridA4Once", 6, 3, 4, "sharding: HYBRID_SHARD shard_group: 3 reduce_every_micro_batch: false", 8, 4, 4,
             1},
        Case{"HybridWhole", 4, 4, 2, "sharding: HYBRID_SHARD shard_group: 4", 4, 2, 2, 2}),
    [](const auto& info) { return info.param.name; });

}  // namespace volume_test
}  // namespace twofold
