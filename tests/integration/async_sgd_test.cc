// Asynchronous SGD in whole trainings: a bound of 0 is synchronous training, bounds are kept, a slow worker holds
// nobody up, and memory is predicted to the byte.
#include <gtest/gtest.h>

#include <numeric>
#include <string>
#include <vector>

#include "experiments/program/async_sgd.h"
#include "strategies/async_sgd/gossip.h"
#include "tests/integration/replayed.h"
#include "tests/integration/run_spec.h"

namespace twofold {
namespace async_sgd_integration_test {

constexpr char kTraining[] = " micro_batch: 1 global_batch: 8 optimizer { adamw { lr: 0.003 weight_decay: 0.1 } } ";

std::string Text(const std::string& model, const std::string& async, int64_t steps = 6,
                 const std::string& train = kTraining) {
  return StrCat(model, "train { steps: ", steps, train, async.empty() ? "" : StrCat("async_sgd { ", async, " }"),
                " }\nparallel { dp: 4 }\n");
}

// A CPU cluster on which rank `rank` computes `factor` times as long.
std::string WithStraggler(int rank, double factor, std::string_view data = "REAL") {
  return StrCat(
      "fabric { simulated { cluster: \"this-machine\" profile: \"tests/integration/tiny.profile.textproto\" "
      "stragglers { rank: ",
      rank, " factor: ", factor, " } data: ", data, " } timeout_s: 30 }\n");
}

std::vector<int64_t> Staleness(const std::vector<report::RankRecord>& records) {
  const auto& counts = records.at(0).gradients_by_staleness();
  return {counts.begin(), counts.end()};
}
int64_t Sum(const std::vector<int64_t>& counts) { return std::accumulate(counts.begin(), counts.end(), int64_t{0}); }

double SecondsOf(const report::RankRecord& record, int steps) {
  double sum = 0;
  for (int i = 0; i < steps; ++i) sum += record.steps(i).seconds();
  return sum;
}

double MeanLoss(const std::vector<report::RankRecord>& records, int first, int last) {
  double sum = 0;
  for (const report::RankRecord& record : records) {
    for (int i = first; i < last; ++i) sum += record.steps(i).loss();
  }
  return sum / static_cast<double>(records.size()) / (last - first);
}

struct Synchronous {
  const char *label, *model, *async, *train = kTraining;
};
void PrintTo(const Synchronous& c, std::ostream* out) { *out << c.label; }
constexpr Synchronous kSynchronous[] = {
    {"Gpt", test::kTinyGpt, "staleness: 0"},
    {"GptDropout", test::kTinyVariants[0].model, "staleness: 0"},
    {"TwoServers", test::kTinyLlama, "staleness: 0 servers: 2"},
    {"Aware", test::kTinyMlp, "staleness: 0 staleness_aware: true",
     " global_batch: 4 optimizer { sgd { lr: 0.1 momentum: 0.9 } } "},
    {"Schedule", test::kTinyMlp, "staleness: 0 servers: 3",
     " global_batch: 8 schedule { cosine {} warmup_steps: 2 } precision { parameter: F64 } "},
};

class WithoutStaleness : public ::testing::TestWithParam<Synchronous> {};
INSTANTIATE_TEST_SUITE_P(AsyncSgd, WithoutStaleness, ::testing::ValuesIn(kSynchronous),
                         [](const auto& info) { return std::string(info.param.label); });

TEST_P(WithoutStaleness, IsSynchronousTrainingToTheBit) {
  const Synchronous& c = GetParam();
  const std::vector<double> expected =
      test::Losses(test::RunText(Text(c.model, "", 6, c.train) + test::kInMemory).at(0));
  ASSERT_EQ(expected.size(), 6u);
  for (const std::string& fabric : {std::string(test::kInMemory), test::Simulated("REAL"), WithStraggler(4, 3)}) {
    const auto records = test::RunText(Text(c.model, c.async, 6, c.train) + fabric);
    ASSERT_FALSE(records.empty());
    EXPECT_EQ(test::Losses(records[0]), expected) << fabric;
    EXPECT_EQ(Staleness(records), std::vector<int64_t>{24}) << fabric;
  }
}

TEST(AsyncSgd, ClippingWithoutStalenessDiffersByRounding) {
  const std::string train = StrCat(kTraining, "clip_norm: 0.5 ");
  const std::vector<double> expected =
      test::Losses(test::RunText(Text(test::kTinyGpt, "", 6, train) + test::kInMemory).at(0));
  for (const char* servers : {"servers: 1", "servers: 2"}) {
    const auto records =
        test::RunText(Text(test::kTinyGpt, StrCat("staleness: 0 ", servers), 6, train) + test::kInMemory);
    ASSERT_FALSE(records.empty());
    const std::vector<double> losses = test::Losses(records[0]);
    for (size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(losses[i], expected[i], 1e-5) << servers << ", step " << i;
  }
}

TEST(AsyncSgd, HalfPrecisionWithoutStalenessDiffersByRounding) {
  const std::string train = StrCat(kTraining, "precision { parameter: F16 loss_scale { fixed: 256 } } ");
  const std::vector<double> expected =
      test::Losses(test::RunText(Text(test::kTinyGpt, "", 6, train) + test::kInMemory).at(0));
  const std::vector<double> losses =
      test::Losses(test::RunText(Text(test::kTinyGpt, "staleness: 0 servers: 2", 6, train) + test::kInMemory).at(0));
  ASSERT_EQ(losses.size(), expected.size());
  for (size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(losses[i], expected[i], 2e-3) << "step " << i;
}

TEST(AsyncSgd, MemoryIsPredictedToTheByte) {
  for (const char* async : {"servers: 1", "servers: 3 staleness: 1", "servers: 2 staleness: -1"}) {
    const std::string text = Text(test::kTinyGpt, StrCat("staleness_aware: true ", async));
    const auto measured = test::RunText(text + test::kInMemory), real = test::RunText(text + test::Simulated("REAL")),
               symbolic = test::RunText(text + test::Simulated("SYMBOLIC"));
    ASSERT_EQ(real.size(), measured.size());
    ASSERT_EQ(symbolic.size(), measured.size());
    for (size_t r = 0; r < measured.size(); ++r) {
      test::ExpectEqual(real[r].memory(), measured[r].memory(), "REAL");
      test::ExpectEqual(symbolic[r].memory(), measured[r].memory(), "SYMBOLIC");
    }
    test::ExpectReplayed(text + test::kInMemory, measured);
  }
}

// On a straggler of factor 10, whose gradients are due before it has computed them.
TEST(AsyncSgd, NoGradientIsOlderThanTheBound) {
  for (const int64_t bound : {1, 2, 4}) {
    for (const std::string& fabric : {WithStraggler(4, 10), WithStraggler(5, 10, "SYMBOLIC")}) {
      const auto records = test::RunText(
          Text(test::kTinyMlp, StrCat("servers: 2 staleness: ", bound), 20, " global_batch: 8 ") + fabric);
      const std::vector<int64_t> counts = Staleness(records);
      EXPECT_EQ(static_cast<int64_t>(counts.size()), bound + 1) << "the bound is reached, and not exceeded";
      EXPECT_EQ(Sum(counts), 80) << "every update takes as many gradients as there are workers";
      int computed = 0;
      for (size_t r = 2; r < records.size(); ++r) computed += records[r].steps_size();
      EXPECT_EQ(computed, 80) << "no gradient is computed in vain";
      EXPECT_EQ(test::Losses(records[0]).size(), 20u);
    }
  }
  const auto unbounded =
      test::RunText(Text(test::kTinyMlp, "staleness: -1", 20, " global_batch: 8 ") + WithStraggler(4, 10));
  EXPECT_GT(Staleness(unbounded).size(), 5u);
}

// One of four workers is three times as slow. Synchronous training waits for it: three times as long. Here the others
// go on: (3 + 1/3) / 4 of an update in the time of a gradient.
TEST(AsyncSgd, AStragglerHoldsNobodyUp) {
  const std::string train = " global_batch: 8 micro_batch: 2 ";
  const std::string model = "model { gpt { layers: 4 hidden: 64 heads: 4 sequence: 64 } }\n";
  const auto synchronous = test::RunText(Text(model, "", 40, train) + WithStraggler(3, 3, "SYMBOLIC"));
  const auto asynchronous = test::RunText(Text(model, "staleness: 4", 40, train) + WithStraggler(4, 3, "SYMBOLIC"));
  const int slow = asynchronous.at(4).steps_size(), fast = asynchronous.at(1).steps_size();
  EXPECT_LT(slow, fast / 2);
  EXPECT_LT(SecondsOf(asynchronous[0], 40), 0.6 * SecondsOf(synchronous.at(0), 40));
}

TEST(AsyncSgd, AnOldGradientCountsLessIfAskedFor) {
  const std::string fabric = WithStraggler(4, 6);
  const auto plain = test::RunText(Text(test::kTinyMlp, "staleness: 4", 12) + fabric),
             aware = test::RunText(Text(test::kTinyMlp, "staleness_aware: true", 12) + fabric);
  ASSERT_GT(Staleness(plain).size(), 2u) << "some are two updates old";
  EXPECT_EQ(Staleness(plain), Staleness(aware));
  EXPECT_NE(test::Losses(plain.at(0)), test::Losses(aware.at(0)));
}

TEST(AsyncSgd, ASimulationIsTheSameEveryTime) {
  const std::string text = Text(test::kTinyGpt, "servers: 2", 10) + WithStraggler(4, 2.5);
  const auto first = test::RunText(text), second = test::RunText(text);
  EXPECT_EQ(test::Losses(first.at(0)), test::Losses(second.at(0)));
  EXPECT_EQ(Staleness(first), Staleness(second));
  EXPECT_EQ(SecondsOf(first[0], 10), SecondsOf(second[0], 10));
}

TEST(AsyncSgd, TrainsOnThreadsOfDifferentSpeeds) {
  const auto records =
      test::RunText(Text(test::kTinyMlp, "staleness: 4", 60, " global_batch: 32 optimizer { adamw { lr: 0.01 } } ") +
                    "fabric { in_memory { stragglers { rank: 4 factor: 20 } } timeout_s: 30 }\n");
  ASSERT_EQ(records.size(), 5u);
  EXPECT_LE(Staleness(records).size(), 5u);
  EXPECT_EQ(Sum(Staleness(records)), 240);
  EXPECT_LT(MeanLoss({records[0]}, 50, 60), 0.9 * MeanLoss({records[0]}, 0, 10));
}

absl::StatusOr<RankRecords> RecordsOfRun(spec::Spec& spec) {
  const RunResult result = test::RunResolved(spec);
  if (!result.status.ok()) return result.status;
  return ReadRecords(spec, result);
}

TEST(AsyncSgd, TheReportCountsStalenessAndWaiting) {
  spec::Spec spec = test::Resolve(Text(test::kTinyMlp, "staleness: 2", 12, " global_batch: 8 ") + WithStraggler(4, 10));
  const absl::StatusOr<RankRecords> records = RecordsOfRun(spec);
  ASSERT_TRUE(records.ok()) << records.status();
  report::Report report;
  AddAsyncSgd(spec, *records, report);
  const report::AsyncSgd& async = report.async_sgd();
  EXPECT_EQ(async.max_staleness(), 2);
  EXPECT_GT(async.mean_staleness(), 0.1);
  ASSERT_EQ(async.workers_size(), 4);
  int64_t gradients = 0;
  for (int w = 0; w < 4; ++w) {
    const report::AsyncWorker& worker = async.workers(w);
    EXPECT_EQ(worker.rank(), w + 1);
    EXPECT_GE(worker.max_waiting_seconds(), worker.waiting_p90_seconds());
    EXPECT_GE(worker.waiting_p90_seconds(), worker.median_waiting_seconds());
    EXPECT_GT(worker.median_gradient_seconds(), worker.median_waiting_seconds());
    gradients += worker.gradients();
  }
  EXPECT_EQ(gradients, 48);
  EXPECT_GT(async.workers(0).waiting_share(), async.workers(3).waiting_share()) << "the slow one is waited for";
}

// ---- Gossip ----

std::string GossipText(int workers, const std::string& train = "steps: 20") {
  return StrCat(test::kTinyMlp, "train { micro_batch: 2 ", train,
                " async_sgd { mode: GOSSIP } }\nparallel { dp: ", workers, " }\n");
}

// Pairs of workers meet at their own times; none waits for ever, whoever is slow.
TEST(Gossip, EveryWorkerDoesItsSteps) {
  for (const int workers : {2, 3, 5}) {
    for (int slow = 0; slow < workers; ++slow) {
      SCOPED_TRACE(StrCat(workers, " workers, rank ", slow, " is slow"));
      const auto records = test::RunText(GossipText(workers) + WithStraggler(slow, 7, "SYMBOLIC"));
      ASSERT_EQ(records.size(), static_cast<size_t>(workers));
      int64_t exchanges = 0;
      for (int r = 0; r < workers; ++r) {
        EXPECT_EQ(records[static_cast<size_t>(r)].steps_size(), 20);
        const auto& counts = records[static_cast<size_t>(r)].gradients_by_staleness();
        if (r < workers / 2) {
          EXPECT_EQ(counts.Get(1), 20) << "an active worker meets one other a step";
        }
        for (int s = 0; s < counts.size(); ++s) exchanges += s * counts.Get(s);
      }
      EXPECT_LE(exchanges, 2 * 20 * (workers / 2))
          << "each has two sides; passive workers answer some after their steps";
    }
  }
}

TEST(Gossip, MemoryIsPredictedToTheByte) {
  const std::string text = GossipText(4);
  const auto measured = test::RunText(text + test::kInMemory),
             symbolic = test::RunText(text + test::Simulated("SYMBOLIC"));
  ASSERT_EQ(symbolic.size(), measured.size());
  for (size_t r = 0; r < measured.size(); ++r)
    test::ExpectEqual(symbolic[r].memory(), measured[r].memory(), "SYMBOLIC");
  test::ExpectReplayed(text + test::kInMemory, measured);
}

TEST(Gossip, LearnsAndIsTheSameEveryTimeInASimulation) {
  const std::string text = GossipText(4, "steps: 80 global_batch: 32 optimizer { adamw { lr: 0.01 } } clip_norm: 1") +
                           test::Simulated("REAL");
  const auto first = test::RunText(text), second = test::RunText(text);
  for (size_t r = 0; r < first.size(); ++r) EXPECT_EQ(test::Losses(first[r]), test::Losses(second.at(r)));
  EXPECT_LT(MeanLoss(first, 70, 80), 0.9 * MeanLoss(first, 0, 10));
  EXPECT_NE(test::Losses(first[0]), test::Losses(first[3])) << "each on its own part of the data";
}

// The report's losses are means over the workers.
TEST(Gossip, TheReportHasTheMeansOfLosses) {
  spec::Spec spec = test::Resolve(GossipText(4) + test::Simulated("REAL"));
  const absl::StatusOr<RankRecords> records = RecordsOfRun(spec);
  ASSERT_TRUE(records.ok()) << records.status();
  report::Report report;
  *report.mutable_steps() = records->lead().steps();
  AddAsyncSgd(spec, *records, report);
  double sum = 0;
  for (const report::RankRecord& record : records->kept()) sum += record.steps(7).loss();
  EXPECT_DOUBLE_EQ(report.steps(7).loss(), sum / 4);
  EXPECT_EQ(report.async_sgd().workers_size(), 4);
  EXPECT_EQ(
      Sum({report.async_sgd().gradients_by_staleness().begin(), report.async_sgd().gradients_by_staleness().end()}),
      80);
}

TEST(Gossip, DrawsPartnersEvenly) {
  std::vector<int> drawn(3);
  for (int64_t step = 0; step < 3000; ++step) ++drawn[static_cast<size_t>(GossipPartner(5, 1, step, 3))];
  for (const int count : drawn) EXPECT_NEAR(count, 1000, 100);
  int equal = 0;
  for (int64_t step = 0; step < 3000; ++step) equal += GossipPartner(5, 0, step, 3) == GossipPartner(5, 1, step, 3);
  EXPECT_NEAR(equal, 1000, 100) << "workers draw apart";
}

}  // namespace async_sgd_integration_test
}  // namespace twofold
