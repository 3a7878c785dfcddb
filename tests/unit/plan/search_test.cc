// A small space, simulated whole: the search finds the same layout, and no bound is above what is simulated.
#include "experiments/program/plan/search.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "core/base/format.h"
#include "core/base/strings.h"
#include "experiments/program/plan/fewer_micro_batches.h"
#include "experiments/program/plan/journal.h"
#include "experiments/program/plan/layouts_csv.h"
#include "experiments/program/plan/table.h"
#include "experiments/program/predict_here.h"
#include "experiments/program/spec/spec.h"
#include "experiments/program/training_data.h"

namespace twofold::plan {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

struct Job {
  Question question;
  std::optional<TrainingData> data;
  std::unique_ptr<Bounds> bounds;
  std::unique_ptr<Worker> worker;
  std::unique_ptr<Pool> pool;
};

std::unique_ptr<Job> MakeJob(const std::string& text, int64_t ranks, int processes = 2) {
  auto job = std::make_unique<Job>();
  auto given = GivenSpec(text, "job", "simulated");
  EXPECT_TRUE(given.ok()) << given.status();
  job->question = {.given = *given, .file = "job", .ranks = ranks, .ranks_per_node = 8};
  std::optional<spec::Spec> any;
  (void)Enumerate(job->question, {}, [&any](const Layout&, const spec::Spec& spec) {
    if (!any) any = spec;
  });
  EXPECT_TRUE(any.has_value());
  auto data = LoadTrainingData(*any, "job");
  EXPECT_TRUE(data.ok()) << data.status();
  job->data = *std::move(data);
  auto bounds = Bounds::Make(*any, job->data->samples());
  EXPECT_TRUE(bounds.ok()) << bounds.status();
  job->bounds = *std::move(bounds);
  job->worker = std::make_unique<Worker>(job->question, *job->bounds, PredictSteps);
  auto pool = Pool::Make(processes, [worker = job->worker.get()](const std::string& task) { return worker->Do(task); });
  EXPECT_TRUE(pool.ok()) << pool.status();
  job->pool = *std::move(pool);
  return job;
}

Plan Find(Job& job, const SearchOptions& options) {
  auto plan = Search(job.question, job.bounds->device_memory(), *job.pool, nullptr, options);
  EXPECT_TRUE(plan.ok()) << plan.status();
  return *std::move(plan);
}

// What an exhaustive plan knew of its layouts before it simulated them is on the right side.
void CheckForetold(const Plan& all) {
  for (const Simulated& s : all.ranked) {
    ASSERT_TRUE(s.foretold.has_value());
    const Foretold& f = *s.foretold;
    EXPECT_LE(f.quick, f.path * (1 + 1e-12)) << Describe(s.layout);
    EXPECT_LE(f.path, s.seconds * (1 + 1e-9)) << Describe(s.layout);
    EXPECT_LE(f.tight, s.seconds * (1 + 1e-9)) << Describe(s.layout);
    EXPECT_LE(f.bytes, s.bytes) << Describe(s.layout);
    EXPECT_GT(f.bytes, 0) << Describe(s.layout);
    EXPECT_FALSE(f.too_large) << Describe(s.layout);
  }
}

// Narrow enough to be simulated whole in seconds; wide enough that layouts of every kind are in it.
constexpr char kGpt[] =
    "model { gpt { layers: 4 hidden: 256 heads: 4 vocab: 1024 sequence: 256 } }\n"
    "train { global_batch: 8 micro_batch: 1 clip_norm: 1 precision { parameter: BF16 reduce: F32 } }\n"
    "parallel { cp: 1 bucket_mib: 25 order: \"pp dp cp tp\" }\n"
    "fabric { simulated { cluster: \"dgx-h100\" } }\n";

TEST(SearchTest, FindsWhatSimulatingEverythingFinds) {
  const auto job = MakeJob(kGpt, 4);
  const Plan all = Find(*job, {.gap = 0, .exhaustive = true});
  ASSERT_EQ(static_cast<int64_t>(all.ranked.size()), all.space.legal);
  ASSERT_GT(all.ranked.size(), 60U);
  CheckForetold(all);
  for (const Simulated& s : all.ranked) {
    // A bound of nothing proves nothing.
    EXPECT_GT(std::max(s.foretold->tight, s.foretold->path), 0.5 * s.seconds) << Describe(s.layout);
  }
  const Plan best = Find(*job, {.gap = 0, .top = 1});
  EXPECT_TRUE(best.proven);
  EXPECT_EQ(best.open, 0);
  EXPECT_EQ(best.ranked[0].layout, all.ranked[0].layout)
      << Describe(best.ranked[0].layout) << " not " << Describe(all.ranked[0].layout);
  EXPECT_EQ(best.ranked[0].seconds, all.ranked[0].seconds);
  EXPECT_LT(best.ranked.size() * 3, all.ranked.size());
  EXPECT_EQ(best.space.legal, best.screened_out + best.slower + static_cast<int64_t>(best.ranked.size()));
}

// Where bounds are easily too high: GPipe begins its backward passes with the last micro-batch, what a stage keeps once
// does not grow with its blocks, and gathers come before the message that their action waits for.
TEST(SearchTest, BoundsHoldInPipelines) {
  const std::string train = "clip_norm: 1 precision { parameter: BF16 reduce: F32 } } parallel { ";
  const std::string cluster = "} fabric { simulated { cluster: \"dgx-h100\" } }";
  const std::pair<std::string, int64_t> jobs[] = {
      {StrCat("model { gpt { layers: 8 hidden: 1024 heads: 16 vocab: 1024 sequence: 512 } } train { global_batch: 32 "
              "micro_batch: 1 activation_checkpointing { every: 0 } ",
              train, "pp: 8 dp: 2 tp: 1 sharding: SHARD_GRAD_OP schedule: GPIPE order: \"dp pp cp tp\" ", cluster),
       16},
      {StrCat("model { llama { layers: 8 hidden: 1024 heads: 16 kv_heads: 8 ffn: 2816 vocab: 4096 sequence: 1024 } } "
              "train { global_batch: 16 micro_batch: 1 ",
              train, "tp: 4 pp: 2 dp: 1 schedule: GPIPE ", cluster),
       8},
      {StrCat("model { llama { layers: 8 hidden: 2048 heads: 16 kv_heads: 4 ffn: 5632 vocab: 32000 sequence: 2048 } } "
              "train { global_batch: 16 micro_batch: 1 activation_checkpointing { every: 0 } ",
              train, "tp: 4 pp: 2 cp: 2 dp: 1 sharding: SHARD_OPTIMIZER schedule: GPIPE offload: NO_OFFLOAD ", cluster),
       16},
      {StrCat("model { gpt { layers: 4 hidden: 512 heads: 8 vocab: 50257 sequence: 512 } } train { global_batch: 8 "
              "micro_batch: 2 ",
              train, "tp: 1 pp: 4 dp: 2 sharding: FULL_SHARD schedule: ONE_F_ONE_B ", cluster),
       8}};
  for (const auto& [text, ranks] : jobs) {
    const Plan all = Find(*MakeJob(text, ranks), {.gap = 0, .exhaustive = true});
    EXPECT_FALSE(all.ranked.empty()) << text;
    CheckForetold(all);
  }
}

// One bound is asked about many layouts. Under MEGATRON, messages along tp are copies by copy engines, whatever tp is.
TEST(SearchTest, BoundsHoldForRingsOfEveryLength) {
  const Plan all =
      Find(*MakeJob("framework: MEGATRON model { llama { layers: 2 hidden: 4096 heads: 32 kv_heads: 8 ffn: "
                    "14336 vocab: 8192 sequence: 4096 } } train { global_batch: 8 micro_batch: 1 precision "
                    "{ parameter: BF16 } activation_checkpointing { every: 0 } } parallel { pp: 1 cp: 1 "
                    "sharding: NO_SHARD sequence_parallel: true tp_overlap: true bucket_mib: 25 } fabric { "
                    "simulated { cluster: \"dgx-h100\" noise: OFF } }",
                    8),
           {.gap = 0, .exhaustive = true});
  std::set<int64_t> lengths;
  for (const Simulated& s : all.ranked) lengths.insert(s.layout.tp);
  EXPECT_EQ(lengths, (std::set<int64_t>{2, 4, 8}));
  CheckForetold(all);
}

// The seconds that a bound says of the one layout of a job, and those that a simulation does.
std::pair<double, double> BoundAndSimulated(const std::string& text, int64_t ranks) {
  const Plan all = Find(*MakeJob(text, ranks, 1), {.gap = 0, .exhaustive = true});
  CheckForetold(all);
  EXPECT_EQ(all.ranked.size(), 1u) << text;
  if (all.ranked.size() != 1 || !all.ranked[0].foretold) return {0, 0};
  return {std::max(all.ranked[0].foretold->path, all.ranked[0].foretold->tight), all.ranked[0].seconds};
}

// Layers so wide that devices, and not the host, have most to do.
std::string WideLlama(const std::string& parallel, bool noise) {
  return StrCat(
      "model { llama { layers: 8 hidden: 8192 heads: 64 kv_heads: 8 ffn: 28672 vocab: 4096 sequence: 8192 } } train { "
      "global_batch: 16 micro_batch: 1 clip_norm: 1 precision { parameter: BF16 reduce: F32 } "
      "activation_checkpointing { every: 0 } } memory { assume_fits: true } parallel { ep: 1 schedule: ONE_F_ONE_B "
      "offload: NO_OFFLOAD bucket_mib: 25 order: \"pp dp cp tp\" ",
      parallel, " } fabric { simulated { cluster: \"dgx-h100\" noise: ", noise ? "ON" : "OFF", " } }");
}

// Ranks wait for the slowest of many devices. Bounds have most of that, and no more.
TEST(SearchTest, BoundsHaveWaitsForSlowDevices) {
  for (const auto& [parallel, ranks, share] :
       {std::tuple("tp: 1 pp: 1 cp: 1 dp: 16 sharding: SHARD_OPTIMIZER sequence_parallel: false", 16, 0.95),
        std::tuple("tp: 8 pp: 1 cp: 1 dp: 2 sharding: NO_SHARD sequence_parallel: true", 16, 0.45),
        std::tuple("tp: 8 pp: 1 cp: 1 dp: 1 sharding: NO_SHARD sequence_parallel: false", 8, 0.8),
        std::tuple("tp: 4 pp: 4 cp: 1 dp: 4 sharding: NO_SHARD sequence_parallel: true", 64, 0.45)}) {
    const auto [bound, simulated] = BoundAndSimulated(WideLlama(parallel, true), ranks);
    const auto [bound_off, simulated_off] = BoundAndSimulated(WideLlama(parallel, false), ranks);
    EXPECT_GT(simulated, 1.005 * simulated_off) << parallel;
    EXPECT_GT(bound - bound_off, share * (simulated - simulated_off)) << parallel;
    EXPECT_LE(bound - bound_off, 1.001 * (simulated - simulated_off)) << parallel;
  }
}

// Along cp, the rank with the slower parts of the causal mask holds up the others. A backward pass of which gradients
// are not summed yet takes as long as its operations and its collectives along tp.
TEST(SearchTest, BoundsAreCloseWherePipelinesHaveRings) {
  const auto [bound, simulated] = BoundAndSimulated(
      WideLlama("tp: 8 pp: 2 cp: 2 dp: 2 sharding: SHARD_OPTIMIZER sequence_parallel: true", false), 64);
  EXPECT_GT(bound, 0.987 * simulated);
}

// A bound is found stage by stage, and no further than it is asked for.
TEST(SearchTest, ABoundEndsWhereItIsEnough) {
  const auto job = MakeJob(
      "model { gpt { layers: 4 hidden: 512 heads: 8 vocab: 50257 sequence: 512 } } train { global_batch: 8 "
      "micro_batch: 2 precision { parameter: BF16 reduce: F32 } } parallel { tp: 1 pp: 4 dp: 2 sharding: FULL_SHARD "
      "schedule: ONE_F_ONE_B } fabric { simulated { cluster: \"dgx-h100\" } }",
      8);
  int64_t ended = 0;
  (void)Enumerate(job->question, {}, [&](const Layout& layout, const spec::Spec&) {
    const auto bound = [&](double enough) {
      return Worker::BoundAnswerFrom(job->worker->Do(Worker::BoundTask(layout, enough)));
    };
    const Worker::BoundAnswer quick = bound(0), all = bound(1e9);
    EXPECT_FALSE(quick.tight);
    const double enough = quick.seconds * (1 + 1e-6);
    const Worker::BoundAnswer sooner = bound(enough);
    EXPECT_LE(sooner.seconds, all.seconds) << Describe(layout);
    EXPECT_GE(sooner.seconds, std::min(enough, all.seconds)) << Describe(layout);
    ended += sooner.seconds < all.seconds;
  });
  EXPECT_GT(ended, 0);
}

// Whatever a rank's sharded blocks and messages need of its link adds up, though each comes on a stream of its own.
TEST(SearchTest, WhatCrossesALinkBoundsAStep) {
  constexpr int64_t kHidden = 512, kKv = 256, kFfn = 1536, kLayers = 4, kStages = 2, kMicroBatches = 8, kReplicas = 2;
  constexpr int64_t kTokens = 128, kBf16 = 2, kF32 = 4;
  constexpr double kStarLink = 50e9;  // bytes per second
  const auto job = MakeJob(
      StrCat(
          "model { llama { layers: ", kLayers, " hidden: ", kHidden, " heads: 8 kv_heads: 4 ffn: ", kFfn,
          " vocab: 1024 sequence: ", kTokens, " } }\ntrain { global_batch: ", kMicroBatches * kReplicas,
          " micro_batch: 1 precision { parameter: BF16 reduce: F32 } activation_checkpointing { every: 0 } }\n"
          "parallel { pp: ",
          kStages, " dp: ", kReplicas,
          " tp: 1 cp: 1 sharding: FULL_SHARD schedule: ONE_F_ONE_B offload: NO_OFFLOAD bucket_mib: 25 order: \"pp dp "
          "cp tp\" }\nfabric { simulated { cluster: \"star-h100\" network { background: 0.99 } } }\n"),
      kStages * kReplicas);
  const Plan all = Find(*job, {.gap = 0, .exhaustive = true});
  ASSERT_FALSE(all.ranked.empty());
  CheckForetold(all);
  const int64_t block = 2 * kHidden * kHidden + 2 * kHidden * kKv + 3 * kHidden * kFfn + 2 * kHidden;
  const int64_t stage = block * kLayers / kStages;
  // A rank sends its half of what is gathered for each forward and backward pass, half of the gradients, and the
  // activations; all to others, over its one link.
  const int64_t sent = kMicroBatches * (stage * (2 * kBf16 + kF32) / 2 + kTokens * kHidden * kBf16);
  const double seconds = static_cast<double>(sent) / (kStarLink * 0.01);
  for (const Simulated& s : all.ranked) {
    EXPECT_GE(s.foretold->tight, seconds) << Describe(s.layout);
    EXPECT_LT(s.foretold->path, 0.9 * seconds) << Describe(s.layout);  // it was of no use to know less
  }
}

// Many micro-batches are extended from fewer where a gap is allowed: to kExtensionError, with the same memory.
std::string ManyMicroBatches(int64_t global_batch, const std::string& parallel) {
  return StrCat(
      "model { llama { layers: 4 hidden: 512 heads: 8 kv_heads: 4 ffn: 1024 vocab: 2048 sequence: 512 } }\n"
      "train { global_batch: ",
      global_batch,
      " micro_batch: 1 clip_norm: 1 precision { parameter: BF16 reduce: F32 } "
      "activation_checkpointing { every: 0 } }\n"
      "parallel { cp: 1 bucket_mib: 25 order: \"pp dp cp tp\" offload: NO_OFFLOAD ",
      parallel, "}\nfabric { simulated { cluster: \"dgx-h100\" } }\n");
}

// Ranks of a class that end communications at different times are folded where a gap is allowed, to kExtensionError,
// and every place says so.
TEST(SearchTest, RanksThatAreNotQuiteAlikeAreFoldedWhereAGapIsAllowed) {
  const auto job = MakeJob(
      "model { llama { layers: 2 hidden: 256 heads: 8 kv_heads: 8 ffn: 512 vocab: 256 sequence: 16384 } }\n"
      "train { global_batch: 256 micro_batch: 8 precision { parameter: BF16 } activation_checkpointing { every: 0 } }\n"
      "parallel { tp: 4 pp: 1 cp: 1 dp: 8 sharding: NO_SHARD offload: NO_OFFLOAD sequence_parallel: false bucket_mib: "
      "25 "
      "order: \"pp dp cp tp\" }\nfabric { simulated { cluster: \"dgx-h100\" routing: \"ecmp\" } }\n",
      32);
  const Plan all = Find(*job, {.gap = 0, .exhaustive = true}), near = Find(*job, {.gap = 0.01});
  ASSERT_FALSE(all.ranked.empty());
  ASSERT_FALSE(near.ranked.empty());
  const Simulated &exact = all.ranked[0], &folded = near.ranked[0];
  EXPECT_EQ(exact.Off(), 0);
  EXPECT_GT(folded.folding_adds, 0);
  EXPECT_LE(folded.folding_adds, kExtensionError);
  EXPECT_NEAR(folded.seconds, exact.seconds, folded.folding_adds * folded.seconds);
  const Shown shown{.ranks = 32, .options = {.gap = 0.01}};
  EXPECT_THAT(PlanText(near, shown),
              AllOf(HasSubstr("≈: simulated with one rank for several that are not quite alike, off by about"),
                    HasSubstr("with one rank for several that are not quite alike (to ")));
  EXPECT_THAT(PlanText(all, shown), Not(HasSubstr("≈")));
  // A journal keeps for which gaps it is good enough: another plan with a gap takes it, one without simulates it again.
  const std::string path = testing::TempDir() + "folded.journal.jsonl";
  std::filesystem::remove(path);
  for (const double gap : {0.01, 0.01, 0.0}) {
    auto journal = Journal::Open(path, job->question);
    ASSERT_TRUE(journal.ok()) << journal.status();
    const auto plan = Search(job->question, job->bounds->device_memory(), *job->pool, journal->get(), {.gap = gap});
    ASSERT_TRUE(plan.ok()) << plan.status();
    EXPECT_EQ(plan->ranked[0].folding_adds > 0, gap > 0);
    EXPECT_EQ(plan->costs.simulated > 0, gap == 0 || (*journal)->read().empty());
  }
}

// So are ranks that differ in the gradient norm alone, on many ranks, too, of which some may be late anyway.
TEST(SearchTest, OfManyRanksThoseThatDifferInTheNormAreFoldedWhereAGapIsAllowed) {
  const auto best = [](const std::string& clip) {
    const auto job = MakeJob(
        StrCat(
            "model { llama { layers: 4 hidden: 2048 heads: 16 kv_heads: 16 ffn: 5632 vocab: 1024 sequence: 4096 } }\n"
            "train { global_batch: 1024 micro_batch: 1 ",
            clip,
            " precision { parameter: BF16 reduce: F32 } activation_checkpointing { every: 0 } }\n"
            "parallel { tp: 2 pp: 1 cp: 1 dp: 1024 sharding: NO_SHARD offload: NO_OFFLOAD sequence_parallel: false "
            "bucket_mib: 25 order: \"pp dp cp tp\" }\nfabric { simulated { cluster: \"dgx-h100-16k\" } }\n"),
        2048);
    const Plan near = Find(*job, {.gap = 0.01});
    EXPECT_FALSE(near.ranked.empty());
    return near.ranked.empty() ? Simulated() : near.ranked[0];
  };
  const Simulated clipped = best("clip_norm: 1"), whole = best("");
  EXPECT_GT(clipped.folding_adds, whole.folding_adds);  // the norm's part
  EXPECT_LE(clipped.folding_adds, kExtensionError);
  EXPECT_TRUE(clipped.for_gap);
}

// Returns how many of the legal layouts are extended.
int64_t CheckExtended(Job& job, const Plan& all) {
  int64_t extended = 0;
  for (const Simulated& whole : all.ranked) {
    EXPECT_FALSE(whole.extended);
    const auto s = SimulatedFrom(job.worker->Do(Worker::ExtendTask(whole.layout)));
    EXPECT_TRUE(s.ok() && s->fits) << Describe(whole.layout);
    if (!s.ok()) continue;
    extended += s->extended;
    for (double Simulated::*figure : {&Simulated::seconds, &Simulated::tokens_per_second, &Simulated::mfu})
      EXPECT_NEAR((*s).*figure, whole.*figure, kExtensionError * whole.*figure) << Describe(whole.layout);
    for (double Simulated::*end : {&Simulated::low, &Simulated::high})
      EXPECT_NEAR((*s).*end, whole.*end, 0.01 * whole.*end) << Describe(whole.layout);
    EXPECT_NEAR(s->exposed, whole.exposed, 1e-3 * whole.seconds) << Describe(whole.layout);
    // A share of the time of the actions, which is a little less than the step's.
    EXPECT_NEAR(s->bubble, whole.bubble, 5e-3) << Describe(whole.layout);
    EXPECT_EQ(whole.bubble > 0, whole.layout.pp > 1) << Describe(whole.layout);
    EXPECT_EQ(s->bytes, whole.bytes) << Describe(whole.layout);
  }
  return extended;
}

TEST(SearchTest, ManyMicroBatchesAreExtendedFromFewerWithoutAPipeline) {
  for (const int64_t global_batch : {160, 48}) {
    const auto job = MakeJob(ManyMicroBatches(global_batch, "pp: 1 tp: 2 dp: 2 "), 4);
    const Plan all = Find(*job, {.gap = 0, .exhaustive = true});
    EXPECT_GE(CheckExtended(*job, all), 1) << global_batch;
  }
}

TEST(SearchTest, ManyMicroBatchesAreExtendedFromFewer) {
  const auto few = MakeJob(ManyMicroBatches(48, "pp: 2 "), 4);
  EXPECT_GE(CheckExtended(*few, Find(*few, {.gap = 0, .exhaustive = true})), 3);
  const auto job = MakeJob(ManyMicroBatches(160, "pp: 2 "), 4);
  const Plan all = Find(*job, {.gap = 0, .exhaustive = true});
  ASSERT_GT(all.ranked.size(), 20U);
  EXPECT_GE(CheckExtended(*job, all), 3);  // of 24: the ranks of the others still drift apart
  const SearchOptions options{.gap = 0.01};
  const Plan plan =
      Find(*MakeJob(ManyMicroBatches(160, "pp: 2 tp: 1 schedule: ONE_F_ONE_B sharding: FULL_SHARD "), 4), options);
  ASSERT_FALSE(plan.ranked.empty());
  EXPECT_TRUE(plan.proven);
  EXPECT_TRUE(plan.ranked[0].extended);
  EXPECT_THAT(ProofOf(plan, options), HasSubstr("with fewer micro-batches (to 0.1 %)"));
  // Every place that shows such a time marks it, and no other.
  const Shown shown{.ranks = 4, .options = options};
  EXPECT_THAT(PlanText(plan, shown), HasSubstr(StrCat("≈ ", SecondsText(plan.ranked[0].seconds))));
  EXPECT_THAT(PlanText(plan, shown),
              HasSubstr("≈: extended from steps of fewer micro-batches, off by about 0.1 % at most"));
  EXPECT_THAT(PlanText(all, shown), Not(HasSubstr("≈")));
  EXPECT_EQ(PlanJson(plan, shown).at("layouts")[0].at("extended"), true);
  EXPECT_EQ(PlanJson(all, shown).at("layouts")[0].at("extended"), false);
  EXPECT_THAT(LayoutsCsv(plan), HasSubstr(",true,0.0\n"));
  EXPECT_THAT(LayoutsCsv(all), AllOf(HasSubstr(",false,0.0\n"), Not(HasSubstr(",true,0.0\n"))));
}

// When half of the budget is over, a layout is simulated before its bounds are better, and then there is one to name.
TEST(SearchTest, ABudgetDoesNotEndWithoutALayout) {
  const auto job = MakeJob(kGpt, 4, 1);
  bool begun = false, found = false;
  SearchOptions options{.budget = 100};
  options.progress = [&](const std::string& doing) { found |= doing.find("best so far") != doing.npos; };
  options.clock = [&] { return !std::exchange(begun, true) ? 0.0 : found ? 101.0 : 51.0; };
  const Plan plan = Find(*job, options);
  EXPECT_EQ(plan.ranked.size(), 1U);
  EXPECT_EQ(plan.bounded, 0);
  EXPECT_FALSE(plan.proven);
}

TEST(SearchTest, AGapEndsItSooner) {
  const auto job = MakeJob(kGpt, 4);
  const SearchOptions options{.gap = 0.2};
  const Plan plan = Find(*job, options);
  EXPECT_TRUE(plan.proven);
  EXPECT_GE(plan.least, plan.ranked[0].seconds * 0.8);
  EXPECT_THAT(ProofOf(plan, options), HasSubstr("by more than 20.0 %"));
  EXPECT_THAT(PlanText(plan, {.device = job->bounds->device_memory(), .ranks = 4, .options = options}),
              HasSubstr("Proven: no layout can take less than"));
}

TEST(SearchTest, ThePlainestOfThoseThatAreNotToldApartComesFirst) {
  const Simulated offloads{.layout = {.dp = 4, .micro_batch = 2, .offload = spec::Parallel::OFFLOAD_OPTIMIZER},
                           .fits = true,
                           .seconds = 10,
                           .extended = true};
  const Simulated recomputes{.layout = {.dp = 4, .recompute = 1}, .fits = true, .seconds = 10.001, .extended = true};
  const Simulated plain{.layout = {.dp = 4}, .fits = true, .seconds = 10.002, .extended = true};
  const Simulated slow{.layout = {.dp = 2}, .fits = true, .seconds = 10.1, .extended = true};
  Plan plan{.ranked = {offloads, recomputes, plain, slow}};
  PutPlainestFirst(plan.ranked);
  ASSERT_EQ(plan.ranked.size(), 4U);
  EXPECT_EQ(plan.ranked[0].layout, plain.layout);
  EXPECT_EQ(plan.ranked[1].layout, offloads.layout);  // the others stay in order
  EXPECT_EQ(plan.ranked[2].layout, recomputes.layout);
  EXPECT_THAT(
      PlanText(plan, {.ranks = 4}),
      HasSubstr("2.00 ms more a step (to 20.0 ms), too little to tell them apart: the plainer one comes first"));

  // Nothing is approximate: the fastest one is.
  std::vector<Simulated> exact = {offloads, plain};
  for (Simulated& s : exact) s.extended = false;
  PutPlainestFirst(exact);
  EXPECT_EQ(exact[0].layout, offloads.layout);
  // It takes longer than simulations may be off.
  std::vector<Simulated> apart = {offloads, slow};
  PutPlainestFirst(apart);
  EXPECT_EQ(apart[0].layout, offloads.layout);
  std::vector<Simulated> none;
  PutPlainestFirst(none);
  EXPECT_TRUE(none.empty());
}

TEST(SearchTest, SaysWhatDoesNotFit) {
  std::string text = StrCat(kGpt, "memory { budget_mib: 80 }\n");
  text.replace(text.find("cp: 1"), 5, "cp: 1 tp: 1");
  const auto job = MakeJob(text, 2);
  const SearchOptions options{.gap = 0, .top = 1};
  const Plan plan = Find(*job, options);
  EXPECT_GT(plan.screened_out + static_cast<int64_t>(plan.too_large.size()), 0);
  for (const Simulated& s : plan.ranked) EXPECT_LE(s.bytes, int64_t{80} << 20) << Describe(s.layout);
  // Of all layouts, those that fit are in memory, and the best of them was not left out.
  const Plan all = Find(*job, {.gap = 0, .exhaustive = true});
  ASSERT_FALSE(all.ranked.empty());
  EXPECT_TRUE(all.failed.empty());
  EXPECT_GT(all.too_large.size(), 0U);
  EXPECT_GE(static_cast<int64_t>(all.too_large.size()), plan.screened_out);
  EXPECT_EQ(plan.ranked[0].layout, all.ranked[0].layout);
  CheckForetold(all);
}

TEST(SearchTest, CountsRefusalsByReason) {
  const auto job = MakeJob(kGpt, 4);
  Space space;
  for (int part : {0, 1, 2})
    Add(Enumerate(job->question, {.index = part, .of = 3}, [](const Layout&, const spec::Spec&) {}), space);
  int64_t whole = 0;
  const Space at_once = Enumerate(job->question, {}, [&](const Layout&, const spec::Spec& spec) {
    EXPECT_TRUE(Validate(spec, "job").ok());
    ++whole;
  });
  EXPECT_EQ(space.legal, whole);
  EXPECT_EQ(space.combinations, at_once.combinations);
  EXPECT_EQ(space.refused.size(), at_once.refused.size());
  int64_t refused = 0;
  for (const auto& [reason, refusal] : space.refused) {
    EXPECT_THAT(reason, HasSubstr(": ")) << reason;
    EXPECT_THAT(refusal.example, HasSubstr("job: "));
    refused += refusal.count;
  }
  EXPECT_EQ(space.legal + refused, space.combinations);
}

}  // namespace
}  // namespace twofold::plan
