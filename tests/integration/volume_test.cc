// What every layout sends in a step, in bytes, against its closed form: Rajbhandari et al. 2020 (ZeRO), section 7; Zhao et al.
// 2023 (FSDP), section 3.2.2; with A micro-batches a step and the padding of every unit.
#include <gtest/gtest.h>

#include <map>
#include <string>

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
  int64_t gathers_of_block, gathers_of_root, reductions;  // a step; reductions 0: all-reduces of whole gradients
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

int64_t Padded(int64_t numel, int64_t shards) { return (numel + shards - 1) / shards * shards; }

// Bytes that a rank sends in a step, by the formulas above.
double ClosedForm(const Case& c) {
  const auto n = static_cast<double>(c.group), replicas = static_cast<double>(c.ranks / c.group);
  const auto block = static_cast<double>(Padded(kBlock, c.group) * kLayers * kElement),
             root = static_cast<double>(Padded(kRoot, c.group) * kElement);
  const auto times = [](int64_t count, double bytes) { return static_cast<double>(count) * bytes; };
  if (c.reductions == 0) return 2 * static_cast<double>((kBlock * kLayers + kRoot) * kElement) * (n - 1) / n;
  const double gathered = times(c.gathers_of_block, block) + times(c.gathers_of_root, root);
  const double between = 2 * (block + root) / n * (replicas - 1) / replicas;
  return (gathered + times(c.reductions, block + root)) * (n - 1) / n + times(c.reductions, between);
}

// Of the calls of one run, the same by what each of them sends: 2 (n - 1) / n of its payload for an all-reduce among n ranks,
// (n - 1) / n for the others. The loss's own all-reduce, 4 bytes a step among all ranks, is left out.
double Counted(const Case& c, int steps) {
  const auto records = testing::RunText(StrCat(
      "model { gpt { layers: ", kLayers, " hidden: ", kHidden, " heads: 2 vocab: ", kVocab, " sequence: ", kSequence, " } }\n",
      "train { warmup_steps: 0 steps: ", steps, " micro_batch: 1 global_batch: ", c.ranks * c.micro_batches, " }\nparallel { dp: ", c.ranks, " ",
      c.parallel, " }\n", testing::kInMemory));
  double bytes = 0;
  for (const report::Collective& call : records[0].collectives()) {
    if (call.operation() == "broadcast" || call.operation() == "barrier") continue;
    const std::map<std::string, int64_t> sizes = {
        {"world", c.ranks}, {"gather", c.group}, {"reduce", c.group}, {"replicate", c.ranks / c.group}};
    const auto n = static_cast<double>(sizes.at(call.group()));
    int64_t payload = call.bytes();
    if (call.group() == "world") payload -= kElement * steps;
    bytes += static_cast<double>(payload) * (n - 1) / n * (call.operation() == "all_reduce" ? 2 : 1);
  }
  return bytes;
}

class Volume : public ::testing::TestWithParam<Case> {};

TEST_P(Volume, IsTheClosedForm) {
  const Case& c = GetParam();
  const double step = Counted(c, 3) - Counted(c, 2);
  EXPECT_DOUBLE_EQ(step, ClosedForm(c));
  EXPECT_GT(step, 0);
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, Volume,
    ::testing::Values(  // 3 ranks divide neither the blocks nor the root
        Case{"Ddp", 3, 3, 1, "sharding: NO_SHARD", 0, 0, 0}, Case{"DdpA4", 3, 3, 4, "sharding: NO_SHARD", 0, 0, 0},
        Case{"Zero1", 3, 3, 1, "sharding: ZERO_1", 1, 1, 1}, Case{"Zero1A4", 3, 3, 4, "sharding: ZERO_1", 1, 1, 1},
        Case{"Zero2", 3, 3, 1, "sharding: ZERO_2", 1, 1, 1}, Case{"Zero2A4", 3, 3, 4, "sharding: ZERO_2", 1, 1, 4},
        Case{"Zero2A4Once", 3, 3, 4, "sharding: ZERO_2 reduce_every_micro_batch: false", 1, 1, 1},
        Case{"Zero3", 3, 3, 1, "sharding: ZERO_3", 2, 1, 1}, Case{"Zero3A4", 3, 3, 4, "sharding: ZERO_3", 8, 4, 4},
        Case{"Zero3A4Once", 3, 3, 4, "sharding: ZERO_3 reduce_every_micro_batch: false", 8, 4, 1},
        Case{"Zero3KeptA4", 3, 3, 4, "sharding: ZERO_3 reshard_after_forward: false", 4, 4, 4},
        Case{"Zero3OtherPrefetchA4", 3, 3, 4, "sharding: ZERO_3 prefetch: 3 backward_prefetch: BACKWARD_POST", 8, 4, 4},
        Case{"HybridA4", 6, 3, 4, "sharding: HYBRID_SHARD shard_group: 3", 8, 4, 4},
        Case{"HybridA4Once", 6, 3, 4, "sharding: HYBRID_SHARD shard_group: 3 reduce_every_micro_batch: false", 8, 4, 1},
        Case{"HybridWhole", 4, 4, 2, "sharding: HYBRID_SHARD shard_group: 4", 4, 2, 2}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace twofold
