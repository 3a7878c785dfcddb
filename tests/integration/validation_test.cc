// Validation: every sample once, whatever the number of ranks; and all ranks stop together.
#include "strategies/validation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "core/base/errors.h"
#include "tests/integration/run_spec.h"

namespace twofold {
namespace validation_test {

using test::kInMemory;
using test::kTinyGpt;
using test::kTinyMlp;
using test::RunText;
using test::Simulated;
using ::testing::Contains;
using ::testing::HasSubstr;

TEST(Patience, RunsOutAfterSoManyInVain) {
  Patience patience(2, 0);
  EXPECT_FALSE(patience.RunsOut(3));
  EXPECT_FALSE(patience.RunsOut(3));  // not better
  EXPECT_FALSE(patience.RunsOut(2.9));
  EXPECT_FALSE(patience.RunsOut(5));
  EXPECT_TRUE(patience.RunsOut(2.95));
}

TEST(Patience, WantsMoreThanMinDelta) {
  Patience patience(1, 0.5);
  EXPECT_FALSE(patience.RunsOut(3));
  EXPECT_FALSE(patience.RunsOut(2.4));
  EXPECT_TRUE(patience.RunsOut(1.9));
}

TEST(Patience, TakesNoNumberForNoProgress) {
  Patience patience(2, 0), never(0, 0);
  EXPECT_FALSE(patience.RunsOut(std::nan("")));
  EXPECT_FALSE(patience.RunsOut(1));
  EXPECT_FALSE(patience.RunsOut(std::nan("")));
  EXPECT_TRUE(patience.RunsOut(std::numeric_limits<double>::infinity()));
  for (int i = 0; i < 10; ++i) EXPECT_FALSE(never.RunsOut(1));
}

// Weights that stay as they began: what is validated is the same model on any number of ranks.
std::string Still(int ranks, int samples, int batch, int steps = 2, const std::string& more = "") {
  return StrCat("data { ", "DATA", " }\ntrain { steps: ", steps, " global_batch: 12 micro_batch: ", 12 / ranks,
                " optimizer { sgd { lr: 1e-30 } } validation { every_steps: 1 samples: ", samples, " batch: ", batch,
                " ", more, " } }\nparallel { dp: ", ranks, " }\n");
}
std::string With(const char* model, std::string text) {
  return model + text.replace(text.find("DATA"), 4, model == kTinyGpt ? "text { }" : "synthetic { samples: 100 }");
}

class OfAnyRanks : public ::testing::TestWithParam<const char*> {};

// F32 sums in another order: 1e-6. The reference takes one sample a pass, on one rank.
TEST_P(OfAnyRanks, IsTheMeanOverEverySampleOnce) {
  for (const int samples : {1, 7, 13, 24}) {
    const report::Validation want = RunText(With(GetParam(), Still(1, samples, 1)) + kInMemory)[0].validations(0);
    for (const int ranks : {1, 2, 3, 4}) {
      for (const int batch : {1, 4, 5}) {
        SCOPED_TRACE(StrCat(samples, " samples on ", ranks, " ranks, ", batch, " a pass"));
        const auto records = RunText(With(GetParam(), Still(ranks, samples, batch)) + kInMemory);
        for (const report::RankRecord& record : records) {
          ASSERT_EQ(record.validations_size(), 2);
          EXPECT_NEAR(record.validations(0).loss(), want.loss(), 1e-6 * want.loss());
          if (GetParam() == kTinyMlp) {
            EXPECT_NEAR(record.validations(0).accuracy(), want.accuracy(), 1e-12);
          }
          if (GetParam() == kTinyGpt) {
            EXPECT_NEAR(record.validations(0).perplexity(), std::exp(want.loss()), 1e-3);
          }
          EXPECT_EQ(record.validations(0).loss(), records[0].validations(0).loss()) << "ranks differ";
        }
      }
    }
  }
}

// Promise 3 and promise 2, with validation in between and sizes that nothing divides.
TEST_P(OfAnyRanks, IsPredictedToTheBitAndToTheByte) {
  for (const int ranks : {1, 2, 3, 4}) {
    const std::string text = With(
        GetParam(), StrCat("data { DATA }\ntrain { steps: 7 global_batch: 12 micro_batch: ", 12 / ranks,
                           " validation { every_steps: 3 samples: 13 batch: 5 } }\nparallel { dp: ", ranks, " }\n"));
    const auto measured = RunText(text + kInMemory), real = RunText(text + Simulated("REAL")),
               symbolic = RunText(text + Simulated("SYMBOLIC"));
    for (size_t r = 0; r < measured.size(); ++r) {
      ASSERT_EQ(measured[r].validations_size(), 3);  // after 3, 6 and 7
      for (int v = 0; v < 3; ++v) {
        EXPECT_EQ(measured[r].validations(v).step(), std::min(3 * (v + 1), 7));
        EXPECT_EQ(measured[r].validations(v).loss(), real[r].validations(v).loss());
        EXPECT_DOUBLE_EQ(symbolic[r].validations(v).loss(), std::log(GetParam() == kTinyMlp ? 5.0 : 256.0));
        EXPECT_GT(symbolic[r].validations(v).seconds(), 0);
      }
      EXPECT_NE(measured[r].validations(0).loss(), measured[r].validations(2).loss());
      EXPECT_EQ(measured[r].memory().peak_bytes(), symbolic[r].memory().peak_bytes());
      EXPECT_EQ(measured[r].memory().reserved_bytes(), symbolic[r].memory().reserved_bytes());
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Models, OfAnyRanks, ::testing::Values(kTinyGpt, kTinyMlp),
                         [](const auto& info) { return info.param == kTinyGpt ? "Gpt" : "Mlp"; });

// Step times are those of training alone.
TEST(ValidationTime, IsInNoStep) {
  const std::string text = With(kTinyMlp, Still(2, 60, 2, 4));
  std::string without = text;
  const size_t from = without.find("validation {");
  without.replace(from, without.find('}', from) + 1 - from, "");
  const auto with = RunText(text + Simulated("SYMBOLIC"));
  without.replace(without.find("samples: 100"), 12, "samples: 40");  // what is left to train on
  const auto plain = RunText(without + Simulated("SYMBOLIC"));
  ASSERT_EQ(with[0].steps_size(), plain[0].steps_size());
  for (int i = 0; i < plain[0].steps_size(); ++i)
    EXPECT_NEAR(with[0].steps(i).seconds(), plain[0].steps(i).seconds(), 1e-12);
  ASSERT_EQ(with[0].kernels_size(), plain[0].kernels_size());
  for (int i = 0; i < plain[0].kernels_size(); ++i) EXPECT_EQ(with[0].kernels(i).count(), plain[0].kernels(i).count());
}

TEST(ValidationModel, IsNotTraining) {
  const std::string text =
      With("model { mlp { inputs: 8 hidden: [24, 16] classes: 5 dropout: 0.9 } }\n", Still(2, 13, 4));
  const auto dropout = RunText(text + kInMemory), none = RunText(With(kTinyMlp, Still(2, 13, 4)) + kInMemory);
  EXPECT_EQ(dropout[0].validations(0).loss(), none[0].validations(0).loss());
  EXPECT_NE(dropout[0].steps(0).loss(), none[0].steps(0).loss());
}

TEST(EarlyStopping, IsAtTheSameStepOnAllRanks) {
  for (const int ranks : {1, 2, 3, 4}) {
    const auto records = RunText(With(kTinyMlp, Still(ranks, 13, 4, 50, "patience: 3")) + kInMemory);
    for (const report::RankRecord& record : records) {  // the first is the best
      EXPECT_EQ(record.steps_size(), 4) << "rank " << record.rank() << " of " << ranks;
      EXPECT_TRUE(record.stopped_early());
    }
    const auto simulated = RunText(With(kTinyMlp, Still(ranks, 13, 4, 50, "patience: 3")) + Simulated("REAL"));
    EXPECT_EQ(simulated[0].steps_size(), 4);
    EXPECT_EQ(RunText(With(kTinyMlp, Still(ranks, 13, 4, 50, "patience: 3")) + Simulated("SYMBOLIC"))[0].steps_size(),
              50);
  }
}

TEST(EarlyStopping, IsReported) {
  spec::Spec spec = test::Resolve(With(kTinyMlp, Still(2, 13, 4, 50, "patience: 3")) + kInMemory);
  const RunResult result = test::RunResolved(spec);
  const report::Report r = Assemble(spec, {.fabric = "in_memory", .world_size = 2, .training_samples = 87}, result,
                                    *ReadRecords(spec, result));
  EXPECT_TRUE(r.stopped_early());
  EXPECT_EQ(r.best().step(), 1);
  EXPECT_EQ(r.last().step(), 4);
  EXPECT_EQ(r.validations_size(), 4);
  EXPECT_DOUBLE_EQ(r.epochs(), 4 * 12 / 87.0);
  EXPECT_THAT(r.notes(), Contains(HasSubstr("stopped early, after 4 of 50 steps: 3 validations in a row")));
}

// A model that has blown up has no loss that is better, and stops on all ranks.
TEST(EarlyStopping, IsWhereLossesAreNoNumbers) {
  for (const int ranks : {1, 3}) {
    std::string text = With(kTinyMlp, Still(ranks, 13, 4, 50, "patience: 3"));
    text.replace(text.find("1e-30"), 5, "1e30");
    spec::Spec spec = test::Resolve(text + kInMemory);
    const RunResult result = test::RunResolved(spec);
    ASSERT_TRUE(result.status.ok()) << result.status;
    const auto records = test::RecordsOf(spec, result);
    EXPECT_FALSE(std::isfinite(records[0].validations(2).loss()));
    for (const report::RankRecord& record : records) {
      EXPECT_TRUE(record.stopped_early());
      EXPECT_LE(record.steps_size(), 4);
      EXPECT_EQ(record.steps_size(), records[0].steps_size());
      EXPECT_EQ(record.validations_size(), record.steps_size());
    }
  }
}

TEST(EarlyStopping, LeavesALearningModelAlone) {
  const std::string text =
      StrCat(kTinyMlp, "train { epochs: 2 global_batch: 32 micro_batch: 16 optimizer { sgd { lr: 0.3 } } ",
             "validation { patience: 1 } }\ndata { synthetic { samples: 1000 } }\nparallel { dp: 2 }\n", kInMemory);
  const auto records = RunText(text);
  EXPECT_EQ(records[0].steps_size(), 2 * 29);  // 900 samples
  ASSERT_EQ(records[0].validations_size(), 2);
  EXPECT_FALSE(records[0].stopped_early());
  EXPECT_LT(records[0].validations(1).loss(), records[0].validations(0).loss());
  EXPECT_GT(records[0].validations(1).accuracy(), 0.3);
}

// What was done before a validation that fails is kept.
TEST(Validation, KeepsWhatWasDoneBeforeAFailure) {
  class Failing : public Dataset {
   public:
    int64_t size() const override { return 20; }
    SampleType input() const override { return {Shape{8}, DType::kF32}; }
    SampleType target() const override { return {Shape{}, DType::kU8}; }
    void Read(int64_t, std::span<std::byte>, std::span<std::byte>) const override {
      throw TimedOut(0, "the data ran dry");
    }
    std::string Describe() const override { return "fails"; }
  };
  spec::Spec spec = test::Resolve(With(kTinyMlp, Still(1, 13, 4, 10)) + kInMemory);
  auto data = LoadTrainingData(spec, "test.textproto");
  ASSERT_TRUE(data.ok());
  spec.mutable_train()->mutable_validation()->set_every_steps(3);
  const Failing failing;
  const RunResult result = (*MakeFabric(spec))->Run(1, [&](RankContext& ctx) {
    return TrainRank(ctx, TrainingOptionsOf(spec), {*data->training, &failing});
  });
  EXPECT_EQ(FailureKind(result.status), RankFailure::Kind::kTimedOut);
  const std::vector<report::RankRecord> records = test::RecordsOf(spec, result);
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0].steps_size(), 3);
  EXPECT_EQ(records[0].validations_size(), 0);
}

// Nor does a validation go on to its end once the run is interrupted.
TEST(Validation, IsLeftBetweenPassesWhenInterrupted) {
  class Interrupting : public Dataset {
   public:
    int64_t size() const override { return 20; }
    SampleType input() const override { return {Shape{8}, DType::kF32}; }
    SampleType target() const override { return {Shape{}, DType::kU8}; }
    void Read(int64_t, std::span<std::byte> input, std::span<std::byte> target) const override {
      if (reads++ == 0) raise(SIGINT);  // handled before it returns
      std::fill(input.begin(), input.end(), std::byte{0});
      target[0] = std::byte{1};
    }
    std::string Describe() const override { return "interrupts"; }
    mutable int reads = 0;
  };
  struct sigaction heeds {
  }, before{};
  heeds.sa_handler = SIG_DFL;  // as from a shell; one that starts a job in the background has it ignore the signal
  sigaction(SIGINT, &heeds, &before);
  spec::Spec spec = test::Resolve(With(kTinyMlp, Still(1, 13, 4, 10)) + kInMemory);
  auto data = LoadTrainingData(spec, "test.textproto");
  ASSERT_TRUE(data.ok());
  spec.mutable_train()->mutable_validation()->set_every_steps(3);
  const Interrupting interrupting;
  const RunResult result = (*MakeFabric(spec))->Run(1, [&](RankContext& ctx) {
    return TrainRank(ctx, TrainingOptionsOf(spec), {*data->training, &interrupting});
  });
  sigaction(SIGINT, &before, nullptr);
  EXPECT_EQ(FailureKind(result.status), RankFailure::Kind::kInterrupted) << result.status;
  EXPECT_EQ(interrupting.reads, 4) << "not one pass";
  const std::vector<report::RankRecord> records = test::RecordsOf(spec, result);
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0].steps_size(), 3);
  EXPECT_EQ(records[0].validations_size(), 0);
}

}  // namespace validation_test
}  // namespace twofold
