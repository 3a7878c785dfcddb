// Training on several ranks against training in one process.
#include "strategies/trainer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cmath>
#include <filesystem>
#include <string>
#include <tuple>

#include "core/base/errors.h"
#include "strategies/data_parallel/ddp.h"
#include "strategies/from_spec.h"
#include "tests/integration/run_spec.h"
#include "tests/scratch_folder.h"

namespace twofold {
namespace trainer_test {

using test::kInMemory;
using test::kTinyGpt;
using test::kTinyMlp;
using test::Losses;
using test::RunText;
using ::testing::ElementsAre;

constexpr int kGlobalBatch = 12;  // a multiple of 1, 2, 3 and 4

std::string TrainText(int ranks, int micro_batch, int steps, const std::string& more = "") {
  return StrCat("train { steps: ", steps, " global_batch: ", kGlobalBatch, " micro_batch: ", micro_batch, " seed: 3 ",
                more, " }\nparallel { dp: ", ranks, " bucket_mib: 0.002 }\n", kInMemory);
}

void ExpectNear(const std::vector<double>& a, const std::vector<double>& b, double relative) {
  ASSERT_EQ(a.size(), b.size());
  for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(a[i], b[i], relative * std::abs(b[i])) << "step " << i;
}

class RanksAgainstOne : public ::testing::TestWithParam<std::tuple<int, test::TinyModel>> {};

// F32: sums over ranks are taken in another order than sums over a batch, so bits differ; 1e-4 relative over
// 50 steps.
TEST_P(RanksAgainstOne, TrainAlike) {
  const auto [ranks, model] = GetParam();
  const auto one = Losses(RunText(model.model + TrainText(1, kGlobalBatch, 50))[0]);
  const auto records = RunText(model.model + TrainText(ranks, kGlobalBatch / ranks, 50));
  ExpectNear(Losses(records[0]), one, 1e-4);
  for (const auto& record : records) EXPECT_EQ(Losses(record), Losses(records[0])) << "rank " << record.rank();
  EXPECT_LT(one.back(), one.front()) << "nothing was learned";
}

TEST_P(RanksAgainstOne, AccumulateAlike) {
  const auto [ranks, model] = GetParam();
  const auto whole = Losses(RunText(model.model + TrainText(ranks, kGlobalBatch / ranks, 10))[0]);
  const auto parts = Losses(RunText(model.model + TrainText(ranks, 1, 10))[0]);  // 12 / ranks micro-batches
  ExpectNear(parts, whole, 1e-4);
}

INSTANTIATE_TEST_SUITE_P(Models, RanksAgainstOne,
                         ::testing::Combine(::testing::Values(1, 2, 3, 4), ::testing::ValuesIn(test::kTinyModels)),
                         [](const auto& info) {
                           return StrCat(std::get<1>(info.param).name, std::get<0>(info.param));
                         });

class CnnAgainstOne : public ::testing::TestWithParam<int> {};

std::string CnnText(bool sync) {
  return StrCat("model { cnn { height: 8 width: 8 widths: [6, 8] blocks: [1, 1] classes: 5 sync_batch_norm: ",
                sync ? "true" : "false", " } }\ndata { synthetic { samples: 96 } }\n");
}
constexpr char kF64[] = "precision { parameter: F64 } optimizer { sgd { lr: 0.05 momentum: 0.9 } }";

// Statistics over all ranks are those of one process with all their samples. F64, 20 steps: 1e-9 relative.
TEST_P(CnnAgainstOne, SynchronisedRanksTrainAlike) {
  const int ranks = GetParam();
  for (const int parts : {1, 2}) {
    if (kGlobalBatch / parts % ranks != 0) continue;
    const auto one = Losses(RunText(CnnText(true) + TrainText(1, kGlobalBatch / parts, 20, kF64))[0]);
    const auto records = RunText(CnnText(true) + TrainText(ranks, kGlobalBatch / parts / ranks, 20, kF64));
    ExpectNear(Losses(records[0]), one, 1e-9);
    EXPECT_EQ(Losses(records[1]), Losses(records[0]));
    EXPECT_LT(one.back(), one.front()) << "nothing was learned";
    // With statistics of their own, ranks learn something else: far more than the tolerance.
    const auto alone = Losses(RunText(CnnText(false) + TrainText(ranks, kGlobalBatch / parts / ranks, 20, kF64))[0]);
    EXPECT_GT(std::abs(alone[1] - one[1]), 1e-6 * one[1]);
  }
}

// Each rank with statistics of its own is one process that takes the same micro-batches one after the other.
TEST_P(CnnAgainstOne, UnsynchronisedRanksTrainLikeMicroBatches) {
  const int ranks = GetParam();
  const auto one = Losses(RunText(CnnText(false) + TrainText(1, 1, 20, kF64))[0]);
  const auto records = RunText(CnnText(false) + TrainText(ranks, 1, 20, kF64));
  ExpectNear(Losses(records[0]), one, 1e-9);
  EXPECT_LT(one.back(), one.front()) << "nothing was learned";
}

INSTANTIATE_TEST_SUITE_P(Ranks, CnnAgainstOne, ::testing::Values(2, 3, 4));

// Their messages overtake the gradient buckets, which are on the replicas' own group.
TEST(SynchronisedStatistics, DoNotWaitForGradientBuckets) {
  const report::RankRecord record =
      RunText(CnnText(true) +
              "train { steps: 2 micro_batch: 6 global_batch: 12 warmup_steps: 0 }\nparallel { dp: 2 "
              "bucket_mib: 0.002 }\nfabric { simulated { link_gbps: 0.01 latency_us: 50 } }\n")[0];
  const auto within = [](const report::Span& bucket) {
    return [&bucket](const report::Span& s) {
      return s.stream() == "communication batch norm" && s.start() > bucket.start() && s.end() < bucket.end();
    };
  };
  bool overtakes = false;
  for (const report::Span& span : record.spans()) {
    overtakes = overtakes || (span.stream() == "communication world" && span.name() == "all_reduce" &&
                              std::any_of(record.spans().begin(), record.spans().end(), within(span)));
  }
  EXPECT_TRUE(overtakes);
}

// A replica's first loss is that of its part of the batch under the initial parameters: near ln(classes),
// untrained.
TEST(Trainer, StartsNearTheLossOfGuessing) {
  const auto losses = Losses(RunText(kTinyGpt + TrainText(2, 3, 1))[0]);
  ASSERT_EQ(losses.size(), 1u);
  EXPECT_NEAR(losses[0], std::log(256.0), 0.05);
}

TEST(Trainer, ClipsByTheNormOverAllRanks) {
  const std::string clip = "clip_norm: 0.05 optimizer { sgd { lr: 0.5 } }";
  const auto one = Losses(RunText(kTinyMlp + TrainText(1, kGlobalBatch, 20, clip))[0]);
  const auto three = Losses(RunText(kTinyMlp + TrainText(3, 4, 20, clip))[0]);
  const auto unclipped = Losses(RunText(kTinyMlp + TrainText(3, 4, 20, "optimizer { sgd { lr: 0.5 } }"))[0]);
  ExpectNear(three, one, 1e-4);
  EXPECT_GT(std::abs(unclipped.back() - three.back()), 1e-3);
}

TEST(Trainer, FollowsTheSchedule) {
  const std::string still =
      "optimizer { sgd { lr: 0.5 } } schedule { linear { decay_steps: 1 } }";  // rate 0 after step 0
  const auto losses = Losses(RunText(StrCat(kTinyMlp, "data { synthetic { samples: 12 } }\n",
                                            TrainText(1, kGlobalBatch, 4, still + " shuffle: false")))[0]);
  EXPECT_NE(losses[0], losses[1]);
  EXPECT_EQ(losses[1], losses[2]);
  EXPECT_EQ(losses[1], losses[3]);
}

TEST(Trainer, DrawsOtherDropoutMasksOnEveryRank) {
  // Without dropout, two ranks of the same samples would agree; with it, splitting the batch changes the
  // masks.
  const std::string model = "model { mlp { inputs: 8 hidden: [64] classes: 5 dropout: 0.5 } }\n";
  const auto one = Losses(RunText(model + TrainText(1, kGlobalBatch, 2))[0]);
  const auto two = Losses(RunText(model + TrainText(2, kGlobalBatch / 2, 2))[0]);
  EXPECT_NE(one, two);
  EXPECT_EQ(two, Losses(RunText(model + TrainText(2, kGlobalBatch / 2, 2))[0]));
}

TEST(Trainer, TrainsInNarrowTypes) {
  for (const char* precision :
       {"precision { parameter: BF16 reduce: F32 }", "precision { parameter: BF16 }", "precision { parameter: F64 }"}) {
    const auto losses =
        Losses(RunText(kTinyMlp + TrainText(2, 3, 30, StrCat(precision, " optimizer { sgd { lr: 0.3 } }")))[0]);
    EXPECT_LT(losses.back(), losses.front()) << precision;
  }
}

// 2 (N - 1) / N bytes on the wire for each byte of payload; the payload itself is what the report states.
TEST(Trainer, CommunicatesWhatTheClosedFormSays) {
  constexpr int kSteps = 3;
  for (const int micro_batch : {1, 4}) {  // accumulation does not change it
    const std::string text = kTinyGpt + TrainText(3, micro_batch, kSteps);
    const report::RankRecord record = RunText(text)[0];
    const spec::Spec spec = test::Resolve(text);
    std::vector<Bytes> sizes;
    const std::unique_ptr<nn::Module> model = MakeModel(*ModelOf(spec.model()), DType::kF32);
    for (const nn::Parameter* p : model->Parameters()) sizes.push_back(Bytes(4 * p->numel()));
    const auto buckets =
        static_cast<int64_t>(AssignBuckets(sizes, std::vector<nn::GroupTag>(sizes.size()), MiB(1),
                                           Bytes(static_cast<int64_t>(spec.parallel().bucket_mib() * 1048576)))
                                 .size());
    ASSERT_GT(buckets, 2);
    bool reduced = false, broadcast = false;
    for (const report::Collective& c : record.collectives()) {
      if (c.operation() == "all_reduce") {
        reduced = true;
        EXPECT_EQ(c.count(), kSteps * (buckets + 1));  // and one for the loss
        EXPECT_EQ(c.bytes(), kSteps * (4 * record.parameters() + 4));
      } else if (c.operation() == "broadcast") {
        broadcast = true;
        EXPECT_EQ(c.bytes(), 4 * record.parameters());
      }
    }
    EXPECT_TRUE(reduced && broadcast);
  }
}

TEST(Trainer, RecordsTheTimeLineOfTheLastSteps) {
  const auto records = RunText(kTinyMlp + TrainText(2, 3, 4) + "trace { last_steps: 2 }\n");
  for (const report::RankRecord& record : records) {
    EXPECT_GT(record.samples_size(), 10);
    ASSERT_GT(record.spans_size(), 0);
    for (const report::Span& span : record.spans()) {
      EXPECT_GE(span.start(), 0) << span.name();
      EXPECT_LE(span.start(), span.end()) << span.name();
    }
    EXPECT_GT(record.kernels_size(), 0);
    const double traced = record.steps(2).seconds() + record.steps(3).seconds();
    double kernels = 0;
    for (const report::KernelTotal& kernel : record.kernels()) kernels += 2 * kernel.seconds();
    EXPECT_LE(kernels, traced) << "the kernels of two steps take longer than the steps";
  }
}

// Steps whose loss was read, counted from 1.
std::vector<int64_t> StepsWithLoss(const report::RankRecord& record) {
  std::vector<int64_t> steps;
  for (int i = 0; i < record.steps_size(); ++i) {
    if (record.steps(i).has_loss()) steps.push_back(record.first_step() + i + 1);
  }
  return steps;
}

// On threads, and on simulated GPUs, whose host is ahead of them.
TEST(ReportedLosses, AreThoseOfARunThatReadsAll) {
  const auto run = [](const std::string& more, const std::string& fabric) {
    return RunText(StrCat(kTinyGpt, "train { steps: 11 micro_batch: 3 global_batch: 12 warmup_steps: 3 ", more,
                          " }\nparallel { dp: 2 }\n", fabric));
  };
  for (const std::string& fabric :
       {std::string(kInMemory), std::string("fabric { simulated { cluster: \"star-a100\" data: REAL } }\n")}) {
    const std::string validation = "validation { every_steps: 5 samples: 8 }";
    const auto all = run(validation, fabric), some = run(validation + " report_loss_every: 4", fabric);
    for (size_t r = 0; r < 2; ++r) {
      ASSERT_EQ(some[r].steps_size(), 11);
      EXPECT_EQ(StepsWithLoss(all[r]).size(), 11u);
      EXPECT_THAT(StepsWithLoss(some[r]), ElementsAre(4, 5, 8, 10, 11));
      for (const int64_t step : StepsWithLoss(some[r])) {
        const int i = static_cast<int>(step - 1);
        EXPECT_EQ(some[r].steps(i).loss(), all[r].steps(i).loss()) << "step " << step;
      }
      for (int v = 0; v < 3; ++v) EXPECT_EQ(some[r].validations(v).loss(), all[r].validations(v).loss());
      EXPECT_EQ(some[r].memory().peak_bytes(), all[r].memory().peak_bytes());
    }
  }
}

TEST(ReportedLosses, AreCountedFromTheFirstStepOfTheTraining) {
  const std::string folder = test::ScratchFolder("reported_losses");
  const auto run = [&](int steps, const std::string& more) {
    return RunText(StrCat(kTinyMlp, "train { steps: ", steps, " micro_batch: 6 global_batch: 12 report_loss_every: 4 ",
                          more, " }\nparallel { dp: 2 }\n", kInMemory))[0];
  };
  EXPECT_THAT(StepsWithLoss(run(7, StrCat("checkpoint { every_steps: 3 path: \"", folder, "\" }"))),
              ElementsAre(3, 4, 6, 7));
  EXPECT_THAT(StepsWithLoss(run(14, StrCat("resume: \"", folder, "\""))), ElementsAre(8, 12, 14));
  std::filesystem::remove_all(folder);
}

TEST(Trainer, RecordsNoTimeLineUnlessAsked) {
  const auto records = RunText(kTinyMlp + TrainText(2, 3, 3) + "trace { enabled: false }\n");
  EXPECT_EQ(records[0].spans_size(), 0);
  EXPECT_EQ(records[0].samples_size(), 0);
}

// Samples without end, until it has had enough.
class FailingDataset : public Dataset {
 public:
  int64_t size() const override { return 1000; }
  SampleType input() const override { return {Shape{8}, DType::kF32}; }
  SampleType target() const override { return {Shape{}, DType::kU8}; }
  void Read(int64_t, std::span<std::byte> input, std::span<std::byte> target) const override {
    if (++reads_ > 3 * kGlobalBatch) throw TimedOut(0, "the data ran dry");
    std::fill(input.begin(), input.end(), std::byte{0});
    std::fill(target.begin(), target.end(), std::byte{1});
  }
  std::string Describe() const override { return "fails"; }

 private:
  mutable std::atomic<int> reads_ = 0;
};

TEST(Trainer, KeepsTheStepsDoneBeforeAFailure) {
  const spec::Spec spec = test::Resolve(kTinyMlp + TrainText(1, kGlobalBatch, 10));
  const FailingDataset data;
  auto fabric = MakeFabric(spec);
  ASSERT_TRUE(fabric.ok());
  const RunResult result =
      (*fabric)->Run(1, [&](RankContext& ctx) { return TrainRank(ctx, TrainingOptionsOf(spec), data); });
  EXPECT_EQ(FailureKind(result.status), RankFailure::Kind::kTimedOut) << result.status.message();
  const std::vector<report::RankRecord> records = test::RecordsOf(spec, result);
  ASSERT_EQ(records.size(), 1u);
  EXPECT_EQ(records[0].steps_size(), 3);
  EXPECT_GT(records[0].memory().peak_bytes(), 0);
}

}  // namespace trainer_test
}  // namespace twofold
