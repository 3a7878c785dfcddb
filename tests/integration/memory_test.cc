// Promise 2 where promises_test.cc has no row for it: what a replay of single ranks predicts of long runs, on other
// devices and with validations between steps, and where memory runs out.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <tuple>
#include <utility>

#include "core/base/errors.h"
#include "tests/integration/replayed.h"

namespace twofold {
namespace memory_test {

using test::ExpectReplayed;
using test::Replayed;
using test::TinyModel;

// Reduced after every micro-batch in a type that rounds: sums of means lie beside gradients from the second micro-batch
// on.
class SumsApart : public ::testing::TestWithParam<std::tuple<TinyModel, int, int>> {};

TEST_P(SumsApart, AreAsReplayed) {
  const auto [model, ranks, accumulation] = GetParam();
  const std::string text =
      StrCat(model.model, "train { steps: 3 micro_batch: 2 global_batch: ", 2 * ranks * accumulation,
             " clip_norm: 1 precision { gradient: F32 reduce: BF16 } }\nparallel { dp: ", ranks, " bucket_mib: 0.01 ");
  const auto once = test::RunText(StrCat(text, "}\n", test::kInMemory));
  const std::string often = StrCat(text, "reduce_every_micro_batch: true }\n");
  const auto measured = test::RunText(often + test::kInMemory);
  test::ExpectPromised(often, measured);
  const auto peak = [](const report::RankRecord& record, std::string_view category) {
    for (const report::Category& c : record.memory().categories()) {
      if (c.name() == category) return c.peak_bytes();
    }
    return int64_t{-1};
  };
  const bool apart = ranks > 1 && accumulation > 1;
  EXPECT_EQ(peak(measured[0], "gradients"), (apart ? 2 : 1) * peak(once[0], "gradients"));
}
INSTANTIATE_TEST_SUITE_P(Models, SumsApart,
                         ::testing::Combine(::testing::Values(test::kTinyModels[0], test::kTinyCnns[0]),
                                            ::testing::Values(1, 3), ::testing::Values(1, 3)),
                         [](const auto& info) {
                           return StrCat(std::get<0>(info.param).name, std::get<1>(info.param), "Ranks",
                                         std::get<2>(info.param), "Parts");
                         });

// Under ZERO_1 gradients are summed while backward goes on. Where they are copied to another type for that, the copies
// of a unit go before those of the unit after the next one come: they never are as many as the gradients.
TEST(CopiesForSums, DoNotPileUpUnderZero1) {
  const auto peak = [](const char* precision, std::string_view category) -> int64_t {
    const auto records =
        test::RunText(StrCat("model { gpt { layers: 12 hidden: 64 heads: 4 vocab: 256 sequence: 16 } }\n",
                             "train { steps: 3 micro_batch: 2 global_batch: 8 precision { ", precision, " } }\n",
                             "parallel { dp: 2 sharding: ZERO_1 }\n", test::kInMemory));
    for (const report::Category& c : records[0].memory().categories()) {
      if (c.name() == category) return c.peak_bytes();
    }
    return -1;
  };
  constexpr char kCopied[] = "gradient: F32 reduce: BF16", kInPlace[] = "gradient: F32 reduce: F32";
  const int64_t gradients = peak(kCopied, "gradients");
  EXPECT_GT(peak(kCopied, "communication"), 0);
  EXPECT_LT(peak(kCopied, "communication"), gradients / 2 * 4 / 12);  // of at most four blocks, in half the bytes
  EXPECT_LT(peak(kInPlace, "communication"), gradients / 12);
}

// Runs of many steps, with validations between them, and on other devices: against the simulated run alone.
struct LongRun {
  const char* name;
  std::string text;
  const char* fabric;
};
void PrintTo(const LongRun& run, std::ostream* out) { *out << run.name; }
class ReplayedMemory : public ::testing::TestWithParam<LongRun> {};

TEST_P(ReplayedMemory, IsThatOfTheSimulatedRun) {
  const std::string text = GetParam().text + GetParam().fabric;
  ExpectReplayed(text, test::RunText(text));
}

constexpr char kGpu[] = "fabric { simulated { cluster: \"star-a100\" } }\n", kCpu[] = "fabric { simulated {} }\n";
const std::string kSmallGpt = "model { gpt { layers: 3 hidden: 64 heads: 4 sequence: 48 dropout: 0.1 } }\n";

INSTANTIATE_TEST_SUITE_P(
    Runs, ReplayedMemory,
    ::testing::Values(
        LongRun{"OneStep", StrCat(test::kTinyGpt, "train { steps: 1 }\n"), kGpu},
        LongRun{"ManySteps", StrCat(kSmallGpt, "train { steps: 60 micro_batch: 3 clip_norm: 1 }\nparallel { dp: 3 }\n"),
                kGpu},
        LongRun{
            "Validated",
            StrCat(
                kSmallGpt,
                "train { steps: 50 micro_batch: 2 validation { every_steps: 7 batch: 11 samples: 30 patience: 3 } }\n",
                "parallel { dp: 4 }\n"),
            kCpu},
        LongRun{
            "ValidatedOften",
            StrCat(kSmallGpt, "train { steps: 9 global_batch: 8 validation { every_steps: 1 batch: 5 samples: 21 } }\n",
                   "parallel { dp: 2 }\n"),
            kGpu},
        LongRun{"ValidatedOnce",
                StrCat(test::kTinyMlp, "train { steps: 12 validation { every_steps: 100 batch: 64 samples: 100 } }\n"),
                kCpu},
        LongRun{"Sgd",
                StrCat(test::kTinyCnns[1].model,
                       "train { steps: 5 micro_batch: 4 optimizer { sgd { momentum: 0.9 } } }\nparallel { dp: 4 }\n"),
                kCpu},
        LongRun{"Threads",
                StrCat(test::kTinyLlama, "train { steps: 6 micro_batch: 4 threads_per_rank: 3 }\nparallel { dp: 2 }\n"),
                kCpu},
        LongRun{
            "Narrow",
            StrCat(kSmallGpt,
                   "train { steps: 6 micro_batch: 4 precision { parameter: BF16 reduce: F32 } }\nparallel { dp: 2 }\n"),
            kGpu},
        LongRun{"Zero3",
                StrCat(kSmallGpt, "train { steps: 30 micro_batch: 4 validation { every_steps: 4 samples: 9 } }\n",
                       "parallel { dp: 8 sharding: ZERO_3 prefetch: 2 }\n"),
                kGpu},
        LongRun{"Zero2Validated",
                StrCat(kSmallGpt, "train { steps: 30 global_batch: 16 validation { every_steps: 7 samples: 9 } }\n",
                       "parallel { dp: 4 sharding: ZERO_2 }\n"),
                kGpu},
        LongRun{"Offloaded",
                StrCat(kSmallGpt, "train { steps: 12 validation { every_steps: 5 samples: 9 } }\n",
                       "parallel { dp: 4 sharding: ZERO_3 offload: OFFLOAD_ALL }\n"),
                kGpu},
        LongRun{
            "OptimizerOffloaded",
            StrCat(
                kSmallGpt,
                "train { steps: 12 clip_norm: 1 }\nparallel { dp: 2 sharding: ZERO_1 offload: OFFLOAD_OPTIMIZER }\n"),
            kGpu},
        LongRun{"Saved",
                StrCat(kSmallGpt,
                       "train { steps: 23 checkpoint { path: \"nowhere\" every_steps: 4 } validation { every_steps: 5 "
                       "samples: 9 } }\n",
                       "parallel { dp: 3 sharding: ZERO_3 }\n"),
                kGpu},
        LongRun{
            "SavedWhole",
            StrCat(kSmallGpt,
                   "train { steps: 9 checkpoint { path: \"nowhere\" every_steps: 4 kind: FULL asynchronous: true } }\n",
                   "parallel { dp: 4 sharding: ZERO_2 }\n"),
            kGpu},
        LongRun{"Recomputed",
                StrCat(kSmallGpt, "train { steps: 12 micro_batch: 4 activation_checkpointing { every: 2 } }\n",
                       "parallel { dp: 4 sharding: ZERO_3 }\n"),
                kGpu},
        LongRun{
            "Selective",
            StrCat(
                "model { gpt { layers: 3 hidden: 64 heads: 4 sequence: 48 attention_dropout: 0.1 } attention: UNFUSED "
                "dropout_masks: STORED }\ntrain { steps: 12 micro_batch: 4 activation_checkpointing { recompute: "
                "SELECTIVE } "
                "validation { every_steps: 5 samples: 9 } }\nparallel { dp: 4 sharding: ZERO_1 }\n"),
            kGpu},
        LongRun{"Hybrid",
                StrCat(kSmallGpt, "train { steps: 30 }\nparallel { dp: 8 sharding: HYBRID_SHARD shard_group: 2 }\n"),
                kGpu},
        LongRun{
            "Emulated",
            StrCat(kSmallGpt,
                   "train { steps: 4 }\nparallel { dp: 2 }\ndevice: EMULATED\nemulated { cluster: \"star-h100\" }\n"),
            kCpu}),
    [](const auto& run) { return std::string(run.param.name); });

TEST(Replaying, LeavesOutStepsThatRepeat) {
  const std::string text = StrCat(
      kSmallGpt, "train { steps: 100000 validation { every_steps: 10 samples: 4 } }\nparallel { dp: 2 }\n", kGpu);
  const MemoryPrediction prediction = Replayed(text);
  EXPECT_LE(prediction.kinds[0].steps, 20);
  EXPECT_EQ(prediction.kinds[0].ranks, (std::vector<int>{0, 1}));
}

TEST(Replaying, OfTheLargestModelOnThousandsOfRanksTakesNoTime) {
  const std::string text =
      StrCat("model { preset: \"gpt3-175b\" }\nparallel { dp: 4096 }\ntrain { precision { parameter: BF16 } }\n", kGpu);
  const MemoryPrediction prediction = Replayed(text, /*bounded=*/false);
  EXPECT_GT(prediction.largest().record.memory().peak_bytes(), int64_t{2} << 40);
  EXPECT_FALSE(Replayed(text).status().ok());
  const std::string sharded = StrCat("model { preset: \"gpt3-175b\" }\nparallel { dp: 4096 sharding: ZERO_3 }\n",
                                     "train { precision { parameter: BF16 } activation_checkpointing {} }\n", kGpu);
  EXPECT_TRUE(Replayed(sharded).status().ok());
}

// ---- Budgets ----
// The rank that runs out first is chance where ranks are threads: all do, at the same allocation.
std::string WithoutRank(std::string message) {
  const size_t at = message.find("rank "), end = message.find(':', at);
  return at == std::string::npos || end == std::string::npos ? message : message.erase(at, end - at);
}

std::string WhyMemoryRanOut(const std::string& text) {
  spec::Spec spec = test::Resolve(text);
  const RunResult result = test::RunResolved(spec);
  EXPECT_EQ(OutcomeOf(result.status), report::OUT_OF_MEMORY) << result.status.message();
  return std::string(result.status.message());
}

// A rank runs out while calls of its groups are in flight: what is queued for it is dropped with it.
TEST(BudgetOfAHybrid, EndsWithTheRankThatRanOut) {
  EXPECT_THAT(
      WhyMemoryRanOut("model { gpt { layers: 4 hidden: 256 heads: 4 vocab: 1024 sequence: 256 } }\n"
                      "train { steps: 2 warmup_steps: 1 micro_batch: 1 global_batch: 8 clip_norm: 1 "
                      "precision { parameter: BF16 reduce: F32 } }\nparallel { tp: 2 }\nmemory { budget_mib: 80 }\n"
                      "fabric { simulated { cluster: \"dgx-h100\" } }\n"),
      ::testing::StartsWith("rank 0: out of memory: asked for "));
}

class Budget : public ::testing::TestWithParam<std::tuple<test::TinyModel, int, double>> {};

TEST_P(Budget, RunsOutAtTheSameAllocationEverywhere) {
  const auto [model, ranks, share] = GetParam();
  const std::string text = StrCat(model.model, "train { steps: 3 micro_batch: 256 }\nparallel { dp: ", ranks, " }\n");
  const double needed =
      static_cast<double>(Replayed(text + test::kInMemory).largest().record.memory().reserved_bytes()) / (1 << 20);
  const auto with_budget = [&](double mib) { return StrCat(text, "memory { budget_mib: ", mib, " }\n"); };
  ExpectReplayed(with_budget(needed) + test::kInMemory, test::RunText(with_budget(needed) + test::kInMemory));
  const std::string less = with_budget(share * needed - 0.01);
  const MemoryPrediction replayed = Replayed(less + test::kInMemory);
  const std::string message(replayed.status().message());
  EXPECT_EQ(FailureKind(replayed.status()), RankFailure::Kind::kOutOfMemory);
  EXPECT_THAT(message, ::testing::StartsWith("rank 0: out of memory: asked for "));
  EXPECT_NE(message.ends_with(" with 0 live and 0 reserved"),
            message.find(" reserved (bytes by category: ") != std::string::npos)
      << message;
  EXPECT_EQ(WhyMemoryRanOut(less + test::Simulated("SYMBOLIC")), message);
  EXPECT_EQ(WithoutRank(WhyMemoryRanOut(less + test::Simulated("REAL"))), WithoutRank(message));
  const std::string measured = WhyMemoryRanOut(less + test::kInMemory);
  EXPECT_EQ(WithoutRank(measured), WithoutRank(message));
  EXPECT_TRUE(ranks > 1 || measured == message) << measured;
}

std::string BudgetName(const ::testing::TestParamInfo<Budget::ParamType>& info) {
  const auto [model, ranks, share] = info.param;
  return StrCat(model.name, ranks, share < 1 ? "Half" : "JustBelow");
}
INSTANTIATE_TEST_SUITE_P(Models, Budget,
                         ::testing::Combine(::testing::ValuesIn(test::kTinyModels), ::testing::Values(1, 2),
                                            ::testing::Values(1, 0.5)),
                         BudgetName);

TEST(BudgetOfADevice, IfSimulatedIsTheLesserOfBoth) {
  const auto limit = [](std::string_view budget) {
    return Replayed(StrCat(test::kTinyMlp, budget, kGpu)).rules.device;
  };
  EXPECT_EQ(limit(""), Bytes(84'986'036'224));
  EXPECT_EQ(limit("memory { budget_mib: 1024 }\n"), GiB(1));
  EXPECT_EQ(limit("memory { budget_mib: 100000 }\n"), Bytes(84'986'036'224));
  EXPECT_EQ(limit("memory { budget_mib: 1e-9 }\n"), Bytes(1));
}

}  // namespace memory_test
}  // namespace twofold
