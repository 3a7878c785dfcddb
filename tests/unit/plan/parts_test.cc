// Layouts as text, processes, and the journal.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>
#include <cmath>

#include <filesystem>
#include <fstream>
#include <set>
#include <string>

#include "core/base/strings.h"
#include "experiments/program/plan/fewer_micro_batches.h"
#include "experiments/program/plan/journal.h"
#include "experiments/program/plan/layout.h"
#include "experiments/program/plan/pool.h"
#include "experiments/program/plan/space.h"
#include "experiments/program/spec/spec.h"
#include "tests/scratch_folder.h"

namespace twofold::plan {
namespace {

using ::testing::HasSubstr;

Layout Unusual() {
  return {.tp = 2,
          .pp = 4,
          .cp = 2,
          .ep = 2,
          .dp = 8,
          .sharding = spec::Parallel::HYBRID_SHARD,
          .shard_group = 4,
          .schedule = spec::Parallel::INTERLEAVED_ONE_F_ONE_B,
          .virtual_stages = 3,
          .micro_batch = 2,
          .recompute = 1,
          .selective = true,
          .offload = spec::Parallel::OFFLOAD_ALL,
          .sequence_parallel = true,
          .bucket_mib = 12.5,
          .order = "dp pp cp tp",
          .codec = "top_k"};
}

// Steps of which each takes so many seconds, so many more per micro-batch, per micro-batch of the step before, and per
// pair of its own.
struct Line {
  double step, own, before, pairs;
  double Of(int64_t n, int64_t after) const {
    const auto m = static_cast<double>(n);
    return step + own * m + before * static_cast<double>(after) + pairs * m * (m - 1) / 2;
  }
};

StepFigures FiguresOf(const FewerMicroBatches& of, const Line& line) {
  StepFigures all;
  for (size_t i = 0; i < kFewSteps; ++i) all[i] = line.Of(of.steps[i], i == 0 ? 0 : of.steps[i - 1]);
  return all;
}

std::vector<FewerMicroBatches> WaysOf(const std::string& parallel, int64_t micro_batches) {
  const auto spec =
      ResolveSpec(StrCat("model { preset: \"gpt2-124m\" } train { micro_batch: 1 global_batch: ", 2 * micro_batches,
                         " } parallel { dp: 2 ", parallel, " } fabric { simulated { cluster: \"dgx-h100\" } }"),
                  "job");
  EXPECT_TRUE(spec.ok()) << spec.status();
  return FewerMicroBatchesOf(*spec);
}

TEST(FewerMicroBatchesTest, ExtendsWhatIsOnALine) {
  const std::vector<FewerMicroBatches> ways = WaysOf("", 16);
  ASSERT_EQ(ways.size(), 2u);
  EXPECT_LT(ways[0].all(), ways[1].all());
  for (const FewerMicroBatches& of : ways) {
    const Line straight{.step = 1, .own = 2, .before = 0, .pairs = 0}, bent{1, 2, 0, 1e-3}, leaves{1, 2, 0.01, 0};
    EXPECT_TRUE(OnALine(of, FiguresOf(of, straight)));
    EXPECT_NEAR(Extend(of, FiguresOf(of, straight)), straight.Of(16, 16), 1e-9);
    EXPECT_FALSE(OnALine(of, FiguresOf(of, bent)));
    // What a longer step leaves to do: the first way must not miss it, and the second one has it.
    const bool first = &of == ways.data();
    EXPECT_EQ(OnALine(of, FiguresOf(of, leaves)), !first);
    if (!first) {
      EXPECT_NEAR(Extend(of, FiguresOf(of, leaves)), leaves.Of(16, 16), 1e-9);
    }
    EXPECT_NEAR(MostLate(of, static_cast<double>(of.all())), 16, 1e-9);
  }
}

TEST(FewerMicroBatchesTest, AnIntervalHasTheErrorsOfComputingAndOfLinks) {
  // Each micro-batch computes for a second, off by a tenth; a step waits 6 s for links, off by 0.4 of them.
  const auto step = [](int micro_batches) {
    return StepError{.seconds = micro_batches + 6.0, .links = 6, .error = std::hypot(0.1 * micro_batches, 0.4 * 6)};
  };
  EXPECT_NEAR(ExtendedError(step(2), step(4), step(64)), step(64).error, 1e-9);
  // One share in both steps: that of the whole one.
  const StepError one{.seconds = 1, .links = 0.5, .error = 0.2}, two{.seconds = 2, .links = 1, .error = 0.4};
  EXPECT_NEAR(ExtendedError(one, two, {.seconds = 10, .links = 5, .error = 0}), 2, 1e-9);
  // No two shares explain these: that of the longer one.
  const StepError more{.seconds = 2, .links = 0.5, .error = 0.1};
  EXPECT_NEAR(ExtendedError(one, more, {.seconds = 10, .links = 0.5, .error = 0}), 0.5, 1e-9);
}

TEST(FewerMicroBatchesTest, TheQuickestWayIsForStepsThatBeginAtOnce) {
  EXPECT_EQ(WaysOf("", 4).size(), 0u);  // no quicker than the whole step
  EXPECT_EQ(WaysOf("", 7).size(), 1u);
  EXPECT_EQ(WaysOf("", 24).size(), 2u);
  EXPECT_EQ(WaysOf("", 25).size(), 1u);
  EXPECT_EQ(WaysOf("sharding: FULL_SHARD offload: OFFLOAD_ALL", 16).size(), 1u);
  EXPECT_EQ(WaysOf("pp: 2", 24).size(), 1u);
  EXPECT_EQ(WaysOf("pp: 2 schedule: GPIPE", 24).size(), 0u);
}

TEST(LayoutTest, IsReadBackFromItsLine) {
  for (const Layout& layout : {Layout(), Unusual()}) {
    const auto read = FromLine(ToLine(layout));
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(*read, layout);
  }
  EXPECT_THAT(std::string(FromLine("1 2 3").status().message()), HasSubstr("\"1 2 3\" is not a layout"));
}

TEST(LayoutTest, SaysWhatIsNotPlain) {
  EXPECT_EQ(Describe(Layout()), "tp 1 pp 1 dp 1 mb 1");
  EXPECT_EQ(
      Describe(Unusual()),
      "tp 2 pp 4 cp 2 ep 2 dp 8 HYBRID_SHARD of 4 v 3 mb 2 recompute 1 selective OFFLOAD_ALL sp bucket 12.5 order "
      "\"dp pp cp tp\" codec top_k");
  Layout other;
  other.tp = 2, other.recompute = 1;
  EXPECT_EQ(Difference(other, Layout()), "tp 2 recompute 1 instead of tp 1");
  other.tp = 1;
  EXPECT_EQ(Difference(other, Layout()), "with recompute 1");
  EXPECT_EQ(Difference(Layout(), other), "without recompute 1");
}

TEST(LayoutTest, WritesOnlyWhatWasChosen) {
  spec::Spec spec;
  Apply(Layout(), spec);
  EXPECT_EQ(spec.ShortDebugString(), "train { micro_batch: 1 } parallel { dp: 1 tp: 1 pp: 1 }");
  spec.Clear();
  Apply(Unusual(), spec);
  EXPECT_EQ(spec.parallel().order(), "dp pp cp tp");
  EXPECT_TRUE(spec.parallel().compression().has_top_k());
  EXPECT_EQ(spec.train().activation_checkpointing().recompute(), spec::ActivationCheckpointing::SELECTIVE);
  EXPECT_FALSE(spec.train().activation_checkpointing().has_early_stop());
}

// Blocks that are recomputed whole stop early, unless the spec or a framework's profile says what is done.
TEST(LayoutTest, RecomputesWithAnEarlyStop) {
  Layout whole;
  whole.recompute = 1;
  spec::Spec own, given, other;
  given.mutable_train()->mutable_activation_checkpointing()->set_early_stop(false);
  other.set_framework(spec::MEGATRON);
  for (spec::Spec* spec : {&own, &given, &other}) Apply(whole, *spec);
  EXPECT_TRUE(own.train().activation_checkpointing().early_stop());
  EXPECT_FALSE(given.train().activation_checkpointing().early_stop());
  EXPECT_FALSE(other.train().activation_checkpointing().has_early_stop());
}

// Whether blocks are recomputed is free under a framework, too; if they are, they stop as its profile says.
TEST(SpaceTest, FrameworksMayRecomputeOrNot) {
  const auto given = GivenSpec(
      "framework: PYTORCH_COMPILED model { preset: \"gpt2-124m\" } train { global_batch: 8 micro_batch: 1 } "
      "parallel { cp: 1 tp: 1 pp: 1 sharding: NO_SHARD offload: NO_OFFLOAD } "
      "fabric { simulated { cluster: \"dgx-a100\" } }",
      "framework", "simulated");
  ASSERT_TRUE(given.ok()) << given.status();
  const Question question{.given = *given, .file = "framework", .ranks = 8, .ranks_per_node = 8, .early_stop = true};
  std::set<int64_t> recomputes;
  Enumerate(question, {}, [&](const Layout& layout, const spec::Spec& spec) {
    recomputes.insert(layout.recompute);
    EXPECT_EQ(spec.train().activation_checkpointing().early_stop(), layout.recompute > 0) << Describe(layout);
  });
  EXPECT_EQ(recomputes, (std::set<int64_t>{0, 1}));
}

TEST(PoolTest, ProcessesAnswer) {
  auto pool = Pool::Make(2, [](const std::string& task) { return StrCat(task, " by ", getpid()); });
  ASSERT_TRUE(pool.ok()) << pool.status();
  ASSERT_TRUE((*pool)->Give(7, "a").ok());
  ASSERT_TRUE((*pool)->Give(8, "b").ok());
  EXPECT_FALSE((*pool)->HasIdle());
  std::set<std::string> answers;
  for (int i = 0; i < 2;) {
    const auto answer = (*pool)->Next(10);
    ASSERT_TRUE(answer.ok()) << answer.status();
    if (!*answer) continue;
    EXPECT_THAT((*answer)->bytes, HasSubstr((*answer)->id == 7 ? "a by " : "b by "));
    answers.insert((*answer)->bytes.substr(5));
    ++i;
  }
  EXPECT_EQ(answers.size(), 2U);  // two processes
  EXPECT_FALSE(answers.contains(StrCat(getpid())));
}

TEST(PoolTest, AProcessThatEndsIsAnError) {
  auto pool = Pool::Make(1, [](const std::string&) -> std::string { _exit(3); });
  ASSERT_TRUE(pool.ok()) << pool.status();
  ASSERT_TRUE((*pool)->Give(1, "x").ok());
  auto answer = (*pool)->Next(10);
  while (answer.ok() && !*answer) answer = (*pool)->Next(10);
  EXPECT_THAT(std::string(answer.status().message()), HasSubstr("of the plan has ended"));
}

class JournalTest : public ::testing::Test {
 protected:
  static Question About(int64_t ranks) {
    Question q;
    q.file = "s", q.ranks = ranks;
    q.given.mutable_train()->set_global_batch(8);
    return q;
  }
  JournalTest() { std::filesystem::create_directories(folder_); }
  const std::string folder_ = test::ScratchFolder("plan_journal"), path_ = folder_ + "/journal.jsonl";
};

TEST_F(JournalTest, GoesOnWithoutALineThatWasCutOff) {
  Simulated fits{.layout = Unusual(), .fits = true, .seconds = 1.5, .low = 1, .high = 2};
  fits.tokens_per_second = 10, fits.mfu = 0.4, fits.bubble = 0.1, fits.exposed = 0.2, fits.bytes = 123;
  const Simulated not_fits{.layout = Layout(), .failed = true, .message = "FAILED: \"x\""};
  {
    auto journal = Journal::Open(path_, About(8));
    ASSERT_TRUE(journal.ok()) << journal.status();
    ASSERT_TRUE((*journal)->Add(fits).ok());
    ASSERT_TRUE((*journal)->Add(not_fits).ok());
  }
  std::ofstream(path_, std::ios::app) << "{\"layout\": \"1 2";
  for (int again = 0; again < 2; ++again) {
    auto journal = Journal::Open(path_, About(8));
    ASSERT_TRUE(journal.ok()) << journal.status();
    ASSERT_EQ((*journal)->read().size(), 2U);
    EXPECT_EQ((*journal)->read()[0].layout, fits.layout);
    EXPECT_EQ((*journal)->read()[0].seconds, 1.5);
    EXPECT_EQ((*journal)->read()[0].bytes, 123);
    EXPECT_FALSE((*journal)->read()[1].fits);
    EXPECT_TRUE((*journal)->read()[1].failed);
    EXPECT_EQ((*journal)->read()[1].message, not_fits.message);
  }
}

TEST_F(JournalTest, RefusesThatOfAnotherPlan) {
  ASSERT_TRUE(Journal::Open(path_, About(8)).ok());
  EXPECT_THAT(std::string(Journal::Open(path_, About(16)).status().message()),
              HasSubstr("is the journal of another plan"));
}

}  // namespace
}  // namespace twofold::plan
