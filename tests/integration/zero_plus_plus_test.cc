// ZeRO++ in whole trainings: what it sends, against closed forms; a second copy changes no loss; codes change them a
// little; the simulated fabric predicts them to the bit and to the byte; and a training that is resumed goes on as if
// it had not stopped.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "tests/integration/run_spec.h"
#include "tests/scratch_folder.h"

namespace twofold {
namespace zero_plus_plus_test {

constexpr int64_t kLayers = 3, kHidden = 20, kVocab = 256, kSequence = 8;
constexpr int64_t kBlock = 12 * kHidden * kHidden + 13 * kHidden;
constexpr int64_t kRoot = kVocab * kHidden + kSequence * kHidden + 2 * kHidden;  // tied head

struct Case {
  const char* label;
  const char* parallel;
  const char* options;  // of zero_plus_plus
  const char* train = "";
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.label; }

std::string Text(const Case& c, const std::string& options, int64_t steps, const std::string& train = "") {
  return StrCat("model { gpt { layers: ", kLayers, " hidden: ", kHidden, " heads: 2 vocab: ", kVocab,
                " sequence: ", kSequence, " } }\ntrain { warmup_steps: 0 steps: ", steps,
                " micro_batch: 1 global_batch: 8 ", c.train, " ", train, " }\nparallel { sharding: FULL_SHARD ",
                c.parallel, options.empty() ? "" : StrCat(" zero_plus_plus { ", options, " }"), " }\n");
}
std::vector<double> LossesOf(const Case& c, const std::string& options, int64_t steps, const std::string& train = "") {
  return test::Losses(test::RunText(Text(c, options, steps, train) + test::kInMemory)[0]);
}

// ---- Bytes of a step: dp 4, two micro-batches a step ----

constexpr int64_t kRanks = 4, kNear = 2, kMicroBatches = 2;
int64_t ShardOf(int64_t numel) { return (numel + kRanks - 1) / kRanks; }
int64_t Coded(int64_t numel, int64_t bits) { return (numel * bits + 7) / 8 + 4 * ((numel + 255) / 256); }

// Payload bytes by group. What is sent in the third step: the first two are the same, but for the start.
std::map<std::string, int64_t> Payloads(const std::string& options) {
  std::map<std::string, int64_t> payloads;
  for (const int64_t steps : {2, 3}) {
    const auto records = test::RunText(Text({"", "dp: 4"}, options, steps) + test::kInMemory);
    for (const report::Collective& call : records[0].collectives())
      payloads[call.group()] += (steps == 3 ? 1 : -1) * call.bytes();
  }
  payloads.erase("world");
  return payloads;
}

// The sum over all units of their shards' bytes, times how often a shard is sent in a step.
template <class Bytes>
int64_t Sum(Bytes bytes, int64_t blocks, int64_t last, int64_t root) {
  return bytes(ShardOf(kBlock)) * (blocks * (kLayers - 1) + last) + bytes(ShardOf(kRoot)) * root;
}
int64_t Plain(int64_t shard) { return 4 * kRanks * shard; }

TEST(ZeroPlusPlusBytes, AreTheClosedForms) {
  const int64_t a = kMicroBatches;
  const int64_t gathered = Sum(Plain, 2 * a, a, a), reduced = Sum(Plain, a, a, a);
  using Map = std::map<std::string, int64_t>;
  EXPECT_EQ(Payloads(""), (Map{{"gather", gathered}, {"reduce", reduced}}));
  EXPECT_EQ(Payloads("secondary_shard: 2"), (Map{{"gather", Sum(Plain, 1, 1, 1)},
                                                 {"gather_near", Sum(Plain, 2 * a - 1, a - 1, a - 1)},
                                                 {"reduce", reduced}}));
  const auto codes = [](int64_t shard) { return kRanks * Coded(shard, 8); };
  EXPECT_EQ(Payloads("quantized_weights: true"), (Map{{"gather", Sum(codes, 2 * a, a, a)}, {"reduce", reduced}}));
  const auto near = [](int64_t shard) { return kRanks * Coded(shard, 4); };
  const auto far = [](int64_t shard) { return kRanks / kNear * Coded(shard, 4); };
  EXPECT_EQ(Payloads("quantized_gradients: true"), (Map{{"gather", gathered}, {"reduce", Sum(near, a, a, a)}}));
  EXPECT_EQ(Payloads("quantized_weights: true secondary_shard: 2 quantized_gradients: true"),
            (Map{{"gather", Sum(codes, 1, 1, 1)},
                 {"gather_near", Sum(Plain, 2 * a - 1, a - 1, a - 1)},
                 {"reduce_near", Sum(near, a, a, a)},
                 {"reduce_far", Sum(far, a, a, a)}}));
}

// ---- Losses, memory, checkpoints ----

class ZeroPlusPlus : public ::testing::TestWithParam<Case> {};

TEST_P(ZeroPlusPlus, IsPredictedToTheBitAndToTheByte) {
  const Case& c = GetParam();
  test::ExpectAsPredicted(test::RunText(Text(c, c.options, 4) + test::kInMemory),
                          test::RunText(Text(c, c.options, 4) + test::Simulated("REAL")));
}

TEST_P(ZeroPlusPlus, LearnsAsZero3Does) {
  const Case& c = GetParam();
  const std::vector<double> plain = LossesOf(c, "", 8), losses = LossesOf(c, c.options, 8);
  ASSERT_EQ(losses.size(), plain.size());
  if (std::string_view(c.options).find("quantized") == std::string_view::npos) {
    EXPECT_EQ(losses, plain);
    return;
  }
  EXPECT_NE(losses, plain);
  for (size_t i = 0; i < plain.size(); ++i) EXPECT_NEAR(losses[i], plain[i], 0.02 * plain[i]) << "step " << i;
}

TEST_P(ZeroPlusPlus, IsResumedToTheBit) {
  const Case& c = GetParam();
  const std::vector<double> all = LossesOf(c, c.options, 5);
  for (const char* kind : {"SHARDED", "FULL"}) {
    const std::string folder = test::ScratchFolder(StrCat("zero_plus_plus_", c.label, kind));
    LossesOf(c, c.options, 2, StrCat("checkpoint { path: \"", folder, "\" kind: ", kind, " }"));
    EXPECT_EQ(LossesOf(c, c.options, 5, StrCat("resume: \"", folder, "\"")),
              std::vector<double>(all.begin() + 2, all.end()))
        << kind;
  }
}

constexpr char kAll[] = "quantized_weights: true secondary_shard: 2 quantized_gradients: true";
INSTANTIATE_TEST_SUITE_P(
    Layouts, ZeroPlusPlus,
    ::testing::Values(
        Case{"Secondary", "dp: 4", "secondary_shard: 2", "validation { every_steps: 2 samples: 8 }"},
        Case{"Weights", "dp: 4", "quantized_weights: true", "precision { parameter: BF16 gradient: F32 }"},
        Case{"Gradients", "dp: 4 prefetch: 2", "quantized_gradients: true", "clip_norm: 1"},
        Case{"All", "dp: 4", kAll, "precision { parameter: BF16 gradient: F32 }"},
        Case{"Recomputed", "dp: 4", "secondary_shard: 2", "activation_checkpointing {}"},
        Case{"TensorSequence", "dp: 4 tp: 2 sequence_parallel: true", kAll},
        Case{"Pipeline", "dp: 4 pp: 2", "secondary_shard: 2"}, Case{"Context", "dp: 2 cp: 2", kAll},
        Case{"Islands", "dp: 8 islands: 2", kAll, "report_loss_every: 1 local_update { diloco { every_steps: 2 } }"},
        Case{"Offloaded", "dp: 2 offload: OFFLOAD_ALL", "quantized_weights: true quantized_gradients: true"}),
    [](const auto& info) { return info.param.label; });

}  // namespace zero_plus_plus_test
}  // namespace twofold
