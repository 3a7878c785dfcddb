// Sharded data parallelism holds the promises in every combination with what else changes memory: it trains like one process,
// a simulated run with data gives the same bits, and one without, like `twofold memory`, predicts memory to the byte.
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>

#include "tests/integration/replayed.h"

namespace twofold {
namespace sharding_test {

constexpr int kSamples = 48;  // of the global batch, whatever the ranks and micro-batches

struct Model {
  const char* name;
  const char* text;
};
// Unfused attention, so that selective recomputation has something to recompute.
constexpr Model kModels[] = {
    {"Gpt", "model { gpt { layers: 3 hidden: 16 heads: 2 sequence: 8 } attention: UNFUSED }\n"},
    {"Llama", "model { llama { layers: 3 hidden: 16 heads: 4 kv_heads: 2 ffn: 24 sequence: 8 } attention: UNFUSED }\n"}};

struct Case {
  const char* sharding;
  int ranks;
  Model model;
  bool bf16;
  const char* recompute;  // "": none
  int accumulation;
  const char* options = "";  // further fields of parallel
  const char* label = "";
};

std::string Name(const Case& c) {
  return StrCat(c.model.name, "_", c.sharding, c.label, "_", c.ranks, "Ranks_", c.bf16 ? "Bf16" : "F32", "_",
                *c.recompute == 0 ? "Kept" : c.recompute, "_", c.accumulation, "Parts");
}
void PrintTo(const Case& c, std::ostream* out) { *out << Name(c); }

std::string Text(const Case& c) {
  const std::string recompute =
      *c.recompute == 0 ? "" : StrCat("activation_checkpointing { recompute: ", c.recompute, " } ");
  const std::string group = std::string_view(c.sharding) == "HYBRID_SHARD" ? "shard_group: 2 " : "";
  return StrCat(c.model.text, "train { steps: 30 micro_batch: ", kSamples / (c.ranks * c.accumulation), " global_batch: ", kSamples,
                " clip_norm: 1 optimizer { adamw { lr: 1e-3 weight_decay: 0.1 } } precision { parameter: ",
                c.bf16 ? "BF16 gradient: F32 reduce: BF16" : "F32", " } ", recompute, "}\nparallel { dp: ", c.ranks, " sharding: ",
                c.sharding, " ", group, c.options, " }\n");
}

std::vector<Case> All() {
  std::vector<Case> all;
  for (const Model& model : kModels)
    for (const char* sharding : {"NO_SHARD", "ZERO_1", "ZERO_2", "ZERO_3", "HYBRID_SHARD"})
      for (const bool bf16 : {false, true})
        for (const char* recompute : {"", "FULL", "SELECTIVE"})
          for (const int accumulation : {1, 4})
            for (const int ranks : {1, 2, 3, 4}) {
              if (std::string_view(sharding) == "HYBRID_SHARD" && ranks != 4) continue;
              all.push_back({sharding, ranks, model, bf16, recompute, accumulation});
            }
  return all;
}

// Every 11th: a number that divides none of the above, so that every pair of choices comes up.
std::vector<Case> Sample() {
  const std::vector<Case> all = All();
  std::vector<Case> sample;
  for (size_t i = 5; i < all.size(); i += 11) sample.push_back(all[i]);
  return sample;
}

// What else a layout can be told.
std::vector<Case> Options() {
  const auto with = [](const char* sharding, const char* label, const char* options, bool bf16 = false) {
    return Case{sharding, 4, kModels[0], bf16, "", 4, options, label};
  };
  return {with("ZERO_3", "Shallow", "prefetch: 0 backward_prefetch: BACKWARD_NONE"),
          with("ZERO_3", "Deep", "prefetch: 3"),
          with("ZERO_3", "Limited", "prefetch: 3 prefetch_limit_mib: 0.02"),
          with("ZERO_3", "Post", "backward_prefetch: BACKWARD_POST"),
          with("ZERO_3", "Kept", "reshard_after_forward: false"),
          with("ZERO_3", "ReduceOnce", "reduce_every_micro_batch: false", true),
          with("ZERO_2", "ReduceOnce", "reduce_every_micro_batch: false"),
          with("NO_SHARD", "ReduceEvery", "reduce_every_micro_batch: true bucket_mib: 0.01"),
          with("HYBRID_SHARD", "ReduceOnce", "reduce_every_micro_batch: false", true),
          with("ZERO_3", "NoOverlap", "overlap: false"),
          with("ZERO_1", "NoOverlap", "overlap: false"),
          with("HYBRID_SHARD", "NoOverlap", "overlap: false"),
          with("ZERO_3", "OneUnit", "wrap { min_parameters: 1000000 }"),
          with("ZERO_3", "SmallUnits", "wrap { min_parameters: 500 }"),
          with("ZERO_2", "ByHand", "wrap { paths { path: \"blocks.2\" path: \"blocks.0.mlp\" } }"),
          with("ZERO_3", "Nested", "wrap { paths { path: \"blocks.1\" path: \"blocks.1.mlp\" path: \"blocks.1.attention.qkv\" } }", true)};
}

// Losses of one process with the whole batch at once.
const std::vector<double>& OneProcess(const Case& c) {
  static std::map<std::string, std::vector<double>> known;
  const std::string text = Text({.sharding = "NO_SHARD", .ranks = 1, .model = c.model, .bf16 = c.bf16, .recompute = "", .accumulation = 1});
  auto [it, is_new] = known.try_emplace(text);
  if (is_new) it->second = testing::Losses(testing::RunText(text + testing::kInMemory)[0]);
  return it->second;
}

class Sharding : public ::testing::TestWithParam<Case> {};

TEST_P(Sharding, KeepsThePromises) {
  const std::string text = Text(GetParam());
  const auto in_memory = testing::RunText(text + testing::kInMemory);
  ASSERT_FALSE(in_memory.empty());
  const std::vector<double> losses = testing::Losses(in_memory[0]);

  // Trains like one process: f32 to 1e-4 over 30 steps; bf16 parameters, activations and messages to 2 %.
  const std::vector<double>& alone = OneProcess(GetParam());
  ASSERT_EQ(losses.size(), 30u);
  ASSERT_EQ(alone.size(), 30u);
  for (size_t i = 0; i < losses.size(); ++i) {
    EXPECT_NEAR(losses[i], alone[i], (GetParam().bf16 ? 2e-2 : 1e-4) * alone[i]) << "step " << i;
  }
  EXPECT_LT(losses.back(), 0.9 * losses.front()) << "it learns";

  // The simulated fabric with data: the same bits. Without: the same bytes.
  const auto real = testing::RunText(text + testing::Simulated("REAL"));
  const auto symbolic = testing::RunText(text + testing::Simulated("SYMBOLIC"));
  ASSERT_EQ(real.size(), in_memory.size());
  ASSERT_EQ(symbolic.size(), in_memory.size());
  for (size_t r = 0; r < in_memory.size(); ++r) {
    EXPECT_EQ(testing::Losses(real[r]), losses) << "rank " << r;
    testing::ExpectEqual(symbolic[r].memory(), in_memory[r].memory(), "SYMBOLIC");
    testing::ExpectEqual(real[r].memory(), in_memory[r].memory(), "REAL");
  }
  testing::ExpectReplayed(text + testing::kInMemory, in_memory);
}

const auto kName = [](const auto& info) { return Name(info.param); };
INSTANTIATE_TEST_SUITE_P(Sample, Sharding, ::testing::ValuesIn(Sample()), kName);
INSTANTIATE_TEST_SUITE_P(Options, Sharding, ::testing::ValuesIn(Options()), kName);
INSTANTIATE_TEST_SUITE_P(Full, Sharding, ::testing::ValuesIn(All()), kName);

}  // namespace
}  // namespace twofold
