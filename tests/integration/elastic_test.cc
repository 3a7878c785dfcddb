// Elastic training: ranks are lost and come while the run trains. Held against runs that were given the same members
// from checkpoints, and against runs that nothing happened to.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/match.h"
#include "backends/in_memory/fabric.h"
#include "tests/integration/run_spec.h"
#include "tests/scratch_folder.h"
#include "tests/seed.h"

namespace twofold {
namespace elastic_test {

using test::Losses;
using test::RecordsOf;
using test::Resolve;
using test::RunResolved;
using test::RunText;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kModel[] = "model { gpt { layers: 2 hidden: 16 heads: 2 vocab: 256 sequence: 8 dropout: 0.1 } }\n";
constexpr char kSimulated[] = "fabric { simulated { cluster: \"star-a100\" data: REAL } }\n";

struct Layout {
  const char* name;
  const char* parallel;
  const char* elastic;
  int few = 5;  // replicas that train when three of eight ranks are lost
};
void PrintTo(const Layout& l, std::ostream* out) { *out << l.name; }
constexpr Layout kLayouts[] = {{"Ddp", "bucket_mib: 0.002", ""},
                               {"Zero1", "sharding: ZERO_1", "shard_copies: 1"},
                               {"Zero2", "sharding: ZERO_2", "shard_copies: 1"},
                               {"Zero3", "sharding: ZERO_3", "shard_copies: 1"},
                               {"Hybrid", "sharding: HYBRID_SHARD shard_group: 2", "", 4}};

std::string Text(int dp, const std::string& train, const std::string& parallel, const std::string& fabric,
                 const std::string& model = kModel) {
  const auto unless = [&train](const char* field, int value) {
    return absl::StrContains(train, StrCat(" ", field)) ? std::string() : StrCat(field, " ", value, " ");
  };
  return StrCat(model, "train { ", unless("steps:", 9), unless("global_batch:", 40),
                "warmup_steps: 0 micro_batch: 1 seed: 3 ", train, " }\nparallel { dp: ", dp, " ", parallel, " }\n",
                fabric);
}

// The record that speaks for the run; the test fails if the run does.
report::RankRecord Lead(spec::Spec spec) {
  if (spec.model().kind_case() == spec::Model::KIND_NOT_SET) return {};  // it could not be resolved
  const RunResult result = RunResolved(spec);
  EXPECT_TRUE(result.status.ok()) << result.status;
  const absl::StatusOr<RankRecords> records = ReadRecords(spec, result);
  EXPECT_TRUE(records.ok()) << records.status();
  return records.ok() && !records->empty() ? records->lead() : report::RankRecord();
}
report::RankRecord Lead(const std::string& text) { return Lead(Resolve(text)); }

std::vector<int64_t> Sizes(const report::RankRecord& record) {
  std::vector<int64_t> sizes;
  for (const report::Generation& g : record.generations()) sizes.push_back(g.dp());
  return sizes;
}

// ---- 8, then 5, then 8 ranks ----

using Case = std::tuple<Layout, const char*>;
class Elastic : public ::testing::TestWithParam<Case> {};

// Ranks 1, 4 and 6 are not neighbours: a copy of each shard is left.
TEST_P(Elastic, HasTheLossesOfARunThatWasGivenTheSameMembersFromCheckpoints) {
  const auto [layout, fabric] = GetParam();
  const std::string folder = test::ScratchFolder(::testing::UnitTest::GetInstance()->current_test_info()->name());
  std::filesystem::create_directories(folder);
  const auto saving = [&](int step) {
    return StrCat("checkpoint { path: \"", folder, "\" every_steps: 3 keep_last: 0 } ",
                  step > 0 ? StrCat("resume: \"", folder, "/00000", step / 3, "-step-", step, "\"") : "");
  };
  const auto upto = [&](int dp, int from, int steps) {
    return Losses(Lead(Text(dp, StrCat(saving(from), " steps: ", steps), layout.parallel, fabric)));
  };
  std::vector<double> expected = upto(8, 0, 3);
  for (const auto& [dp, from] : {std::pair(layout.few, 3), std::pair(8, 6)}) {
    const std::vector<double> more = upto(dp, from, from + 3);
    expected.insert(expected.end(), more.begin(), more.end());
  }
  const report::RankRecord record =
      Lead(Text(8,
                StrCat("elastic { min_dp: 2 ", layout.elastic,
                       " events { step: 3 lose: [1, 4, 6] } events { step: 6 join: 3 } }"),
                layout.parallel, fabric));
  EXPECT_EQ(Losses(record), expected);
  EXPECT_THAT(Sizes(record), ElementsAre(8, layout.few, 8));
  ASSERT_EQ(record.generations_size(), 3);
  EXPECT_THAT(record.generations(1).members(), ElementsAre(0, 2, 3, 5, 7));
  EXPECT_THAT(record.generations(2).members(), ElementsAre(0, 2, 3, 5, 7, 8, 9, 10));
  for (const int g : {1, 2}) {
    EXPECT_EQ(record.generations(g).from(), "peers") << "no checkpoint is read";
    EXPECT_EQ(record.generations(g).first_step(), 3 * g);
  }
}

std::string CaseName(const ::testing::TestParamInfo<Case>& info) {
  return StrCat(std::get<0>(info.param).name,
                std::string(std::get<1>(info.param)) == kSimulated ? "Simulated" : "InMemory");
}
INSTANTIATE_TEST_SUITE_P(Layouts, Elastic,
                         ::testing::Combine(::testing::ValuesIn(kLayouts),
                                            ::testing::Values(test::kInMemory, kSimulated)),
                         CaseName);

// ---- Rules ----

std::vector<double> Undisturbed(int dp) { return Losses(Lead(Text(dp, "", "", test::kInMemory))); }

TEST(ElasticRules, SpareReplicasTakeTheLostOnesPlacesAtOnce) {
  const report::RankRecord record =
      Lead(Text(4, "elastic { spare_replicas: 1 events { step: 4 lose: [2] } }", "", test::kInMemory));
  EXPECT_THAT(Sizes(record), ElementsAre(4, 4));
  EXPECT_EQ(Losses(record), Undisturbed(4)) << "the sums have as many terms as before";
}

TEST(ElasticRules, AReplicaIsTheUnitOfLoss) {
  const std::string model = "model { gpt { layers: 2 hidden: 16 heads: 2 vocab: 256 sequence: 8 } }\n";
  const report::RankRecord record =
      Lead(Text(4, "elastic { events { step: 4 lose: [3] } } global_batch: 12", "tp: 2 pp: 1", test::kInMemory, model));
  EXPECT_THAT(Sizes(record), ElementsAre(4, 3)) << "seven ranks are left; six of them train";
  const std::vector<double> whole = Losses(Lead(Text(4, " global_batch: 12", "tp: 2", test::kInMemory, model)));
  const std::vector<double> losses = Losses(record);
  ASSERT_EQ(losses.size(), whole.size());
  for (size_t i = 0; i < whole.size(); ++i) EXPECT_NEAR(losses[i], whole[i], 1e-5);
}

TEST(ElasticRules, WithoutCopiesTheLastCheckpointIsLoaded) {
  const std::string folder = test::ScratchFolder("elastic_checkpoint");
  std::filesystem::create_directories(folder);
  const std::string saving = StrCat("checkpoint { path: \"", folder, "\" every_steps: 2 } ");
  const report::RankRecord record = Lead(Text(4, saving + " global_batch: 12 elastic { events { step: 5 lose: [3] } }",
                                              "sharding: ZERO_1", test::kInMemory));
  ASSERT_EQ(record.generations_size(), 2);
  EXPECT_EQ(record.generations(1).from(), "checkpoint");
  EXPECT_EQ(record.generations(1).first_step(), 4);
  EXPECT_EQ(record.generations(1).lost_steps(), 1);
  EXPECT_EQ(record.steps_size(), 9);
}

// A copy of a shard is a copy of what was loaded, not of the values that the training began with.
TEST(ElasticRules, CopiesOfShardsAreThoseOfTheCheckpoint) {
  const std::string folder = test::ScratchFolder("elastic_copies");
  std::filesystem::create_directories(folder);
  const auto saving = [&](int from) {
    return StrCat("checkpoint { path: \"", folder, "\" every_steps: 3 keep_last: 0 } ",
                  from > 0 ? StrCat("resume: \"", folder, "/00000", from / 3, "-step-", from, "\"") : "");
  };
  const auto train = [&](int dp, int from, const std::string& elastic) {
    return Losses(
        Lead(Text(dp, StrCat(" global_batch: 12 ", saving(from), elastic), "sharding: ZERO_1", test::kInMemory)));
  };
  train(4, 0, "");
  std::vector<double> expected = train(4, 3, " steps: 6");
  for (const double loss : train(3, 6, "")) expected.push_back(loss);
  EXPECT_EQ(train(4, 3, " elastic { shard_copies: 1 events { step: 6 lose: [2] } }"), expected);
}

TEST(ElasticRules, KeepLocalScalesTheBatchAndUsesEverySampleOfAnEpochOnce) {
  spec::Spec spec =
      Resolve(Text(3, " global_batch: 30 elastic { max_dp: 4 batch: KEEP_LOCAL events { step: 3 join: 1 } }", "",
                   test::kInMemory, "model { mlp { inputs: 4 hidden: 8 classes: 2 } }\n") +
              "data { synthetic { samples: 330 } }");
  auto data = LoadTrainingData(spec, "test.textproto");
  ASSERT_TRUE(data.ok());
  // Counts which samples are read.
  class Counting : public Dataset {
   public:
    explicit Counting(const Dataset& of) : of_(of), reads(static_cast<size_t>(of.size())) {}
    int64_t size() const override { return of_.size(); }
    std::string Describe() const override { return of_.Describe(); }
    SampleType input() const override { return of_.input(); }
    SampleType target() const override { return of_.target(); }
    void Read(int64_t index, std::span<std::byte> input, std::span<std::byte> target) const override {
      ++reads[static_cast<size_t>(index)];
      of_.Read(index, input, target);
    }

   private:
    const Dataset& of_;

   public:
    mutable std::vector<std::atomic<int>> reads;
  };
  const Counting counting(*data->training);
  const TrainingOptions options = TrainingOptionsFor(spec);
  const auto fabric = MakeFabric(spec);
  const RunResult result = (*fabric)->Run(3, [&](RankContext& ctx) { return TrainRank(ctx, options, {counting}); });
  ASSERT_TRUE(result.status.ok()) << result.status;
  // 3 steps of 30 and 6 of 40: an epoch has 330 samples.
  for (size_t i = 0; i < counting.reads.size(); ++i) EXPECT_EQ(counting.reads[i], 1) << "sample " << i;
}

TEST(ElasticRules, FewerThanMinDpEndTheRun) {
  spec::Spec spec = Resolve(Text(4, "elastic { min_dp: 3 events { step: 4 lose: [1, 2] } }", "", test::kInMemory));
  const RunResult result = RunResolved(spec);
  EXPECT_FALSE(result.status.ok());
  EXPECT_THAT(std::string(result.status.message()), HasSubstr("lost, as train.elastic.events says"));
}

// A dynamic loss scale that a lost step has changed is set back, too: the losses are those of an undisturbed run.
TEST(ElasticRules, ALostStepLeavesNoTraceInTheLossScale) {
  const std::string scale = " precision { parameter: F16 loss_scale { dynamic { initial: 4 growth_interval: 2 } } } ";
  const report::RankRecord record =
      Lead(Text(4, scale + "elastic { spare_replicas: 1 events { step: 4 lose: [2] } }", "", test::kInMemory, kModel));
  EXPECT_THAT(Sizes(record), ElementsAre(4, 4));
  EXPECT_EQ(Losses(record), Losses(Lead(Text(4, scale, "", test::kInMemory, kModel))));
}

// ---- Gradient compression ----

struct Codec {
  const char *name, *codec, *optimizer;
};
void PrintTo(const Codec& c, std::ostream* out) { *out << c.name; }
constexpr char kSgd[] = " optimizer { sgd { lr: 0.1 } } ";
constexpr Codec kCodecs[] = {{"Quantize", "quantize { bits: 4 }", ""},
                             {"TopK", "top_k { density: 0.02 }", kSgd},
                             {"RandomK", "random_k { density: 0.05 }", kSgd},
                             {"OneBit", "one_bit {}", kSgd},
                             {"PowerSgd", "power_sgd { rank: 1 start_step: 2 }", ""}};
std::string Compressed(const Codec& codec, bool feedback = true) {
  return StrCat("bucket_mib: 0.002 compression { ", codec.codec, " error_feedback: ", feedback ? "true" : "false",
                " }");
}

class ElasticCompression : public ::testing::TestWithParam<Codec> {};
INSTANTIATE_TEST_SUITE_P(Codecs, ElasticCompression, ::testing::ValuesIn(kCodecs),
                         [](const auto& info) { return std::string(info.param.name); });

// A rank that stands by is lost, which interrupts a step of those that train. They keep what they have left out, as it
// was before that step: the losses are those of a run without it, to the bit.
TEST_P(ElasticCompression, SurvivorsKeepTheirResiduals) {
  const Codec& codec = GetParam();
  const std::string train = StrCat(codec.optimizer, " global_batch: 12 steps: 6 "), parallel = Compressed(codec);
  const std::vector<double> whole = Losses(Lead(Text(4, train, parallel, test::kInMemory)));
  if (std::string(codec.name) != "OneBit") {
    const std::vector<double> without = Losses(Lead(Text(4, train, Compressed(codec, false), test::kInMemory)));
    EXPECT_NE(whole, without) << "residuals matter";
  }
  for (const char* fabric : {test::kInMemory, kSimulated}) {
    const report::RankRecord record =
        Lead(Text(4, train + "elastic { spare_replicas: 1 events { step: 3 lose: [4] } }", parallel, fabric));
    EXPECT_THAT(Sizes(record), ElementsAre(4, 4));
    EXPECT_EQ(Losses(record), whole) << fabric;
  }
}

// What a lost rank has left out is lost, and a new one begins with none: the curve goes on beside that of a run that
// nothing happened to.
TEST(ElasticCompressed, FewerAndMoreRanksGoOn) {
  for (const Codec& codec : {kCodecs[0], kCodecs[1]}) {
    SCOPED_TRACE(codec.name);
    const std::string train = StrCat(codec.optimizer, " global_batch: 12 "), parallel = Compressed(codec);
    const std::string events = "elastic { events { step: 3 lose: [1] } events { step: 6 join: 1 } }";
    const std::vector<double> whole = Losses(Lead(Text(4, train, parallel, test::kInMemory)));
    const report::RankRecord threads = Lead(Text(4, train + events, parallel, test::kInMemory)),
                             simulated = Lead(Text(4, train + events, parallel, kSimulated));
    EXPECT_THAT(Sizes(threads), ElementsAre(4, 3, 4));
    const std::vector<double> losses = Losses(threads);
    EXPECT_EQ(Losses(simulated), losses);
    ASSERT_EQ(losses.size(), whole.size());
    for (size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(losses[i], whole[i], i < 3 ? 0 : 0.1) << "step " << i;
  }
}

// ---- Memory ----

TEST(ElasticMemory, IsPredictedToTheByteIfNobodyIsLost) {
  std::vector<Layout> layouts(std::begin(kLayouts), std::end(kLayouts));
  layouts.push_back({"Compressed", "bucket_mib: 0.002 compression { quantize {} }", ""});
  for (const Layout& layout : layouts) {
    SCOPED_TRACE(layout.name);
    const std::string train = StrCat(" elastic { ", layout.elastic, " }");
    const auto measured = RunText(Text(4, train + " global_batch: 12", layout.parallel, test::kInMemory));
    const auto predicted = RunText(Text(4, train + " global_batch: 12", layout.parallel, "fabric { simulated {} }\n"));
    ASSERT_EQ(measured.size(), 4u);
    ASSERT_EQ(predicted.size(), 4u);
    for (size_t r = 0; r < 4; ++r) {
      EXPECT_EQ(predicted[r].memory().peak_bytes(), measured[r].memory().peak_bytes()) << "rank " << r;
      EXPECT_EQ(predicted[r].memory().reserved_bytes(), measured[r].memory().reserved_bytes()) << "rank " << r;
    }
  }
}

// ---- Predictions ----

constexpr char kPredicted[] = "fabric { simulated { cluster: \"star-a100\" ";

TEST(ElasticPredictions, CountWhatTheControlPlaneTakes) {
  const auto record = [](const std::string& costs) {
    return Lead(Text(4, " global_batch: 12 elastic { events { step: 4 lose: [3] } events { step: 6 join: 1 } }", "",
                     StrCat(kPredicted, costs, " } }")));
  };
  const report::RankRecord free = record(""),
                           costly = record("membership { detect_s: 2 reform_s: 0.5 arrive_s: 1e-9 }");
  ASSERT_EQ(free.generations_size(), 3);
  ASSERT_EQ(costly.generations_size(), 3);
  // A loss costs detection and agreement; an arrival only the latter.
  EXPECT_NEAR(costly.generations(1).reform_seconds() - free.generations(1).reform_seconds(), 2.5, 1e-3);
  EXPECT_NEAR(costly.generations(2).reform_seconds() - free.generations(2).reform_seconds(), 0.5, 1e-9);
  EXPECT_NEAR(costly.lost_seconds() - free.lost_seconds(), 3, 1e-3);
}

TEST(ElasticPredictions, NewcomersAreLateIfTheirProcessesStartSlowly) {
  const std::string text = " global_batch: 12 elastic { events { step: 4 lose: [3] } events { step: 5 join: 1 } }";
  const report::RankRecord soon = Lead(Text(4, text, "", StrCat(kPredicted, " } }")));
  const double step = soon.steps(2).seconds();
  const report::RankRecord late =
      Lead(Text(4, text, "", StrCat(kPredicted, "membership { arrive_s: ", 1.5 * step, " } } }")));
  EXPECT_EQ(soon.generations(2).first_step(), 5);
  EXPECT_EQ(late.generations(2).first_step(), 7);
}

// Steps since the last checkpoint are done again, and loading takes the time of the storage; real runs do the same.
TEST(ElasticPredictions, GoOnFromCheckpoints) {
  const std::string folder = test::ScratchFolder("elastic_predicted");
  std::filesystem::create_directories(folder);
  const auto text = [&](const std::string& fabric, const char* how) {
    return Text(4,
                StrCat(" global_batch: 12 checkpoint { path: \"", folder, "\" every_steps: 2 ", how,
                       " } elastic { on_loss: CHECKPOINT events { step: 5 lose: [3] } }"),
                "", fabric);
  };
  const std::string emulated = "device: EMULATED emulated { cluster: \"star-a100\" speed: 1e6 }\n";
  for (const char* how : {"", "asynchronous: true"}) {
    SCOPED_TRACE(how);
    const std::string storage =
        StrCat(kPredicted, "storage { write_gbytes_per_second: 1e6 read_gbytes_per_second: 1e-4 } } }\n", emulated);
    std::vector<report::RankRecord> records = {Lead(text(storage, how))};
    // When files that are written beside the training are there is a matter of the disk.
    if (*how == '\0') records.push_back(Lead(text(StrCat(test::kInMemory, emulated), how)));
    for (const report::RankRecord& record : records) {
      ASSERT_EQ(record.generations_size(), 2);
      const report::Generation& g = record.generations(1);
      EXPECT_EQ(g.from(), "checkpoint");
      EXPECT_EQ(g.first_step(), 4);
      EXPECT_EQ(g.lost_steps(), 1);
      EXPECT_EQ(record.steps_size(), 9);
      EXPECT_GT(g.load_seconds(), 0);
      EXPECT_LE(g.load_seconds(), g.recover_seconds());
      EXPECT_EQ(g.load_bytes(), records[0].generations(1).load_bytes());
    }
    const report::Generation& g = records[0].generations(1);
    // Ranks also tell each other whether all could read.
    EXPECT_NEAR(g.load_seconds(), static_cast<double>(g.load_bytes()) / 1e5, 1e-5);
  }
}

TEST(ElasticPredictions, MembersMayBeLostInTheMiddleOfAStep) {
  const report::RankRecord whole = Lead(Text(4, " global_batch: 12", "", StrCat(kPredicted, " } }")));
  double until = 0;
  for (int i = 0; i < 4; ++i) until += whole.steps(i).seconds();
  const report::RankRecord record =
      Lead(Text(4, StrCat(" global_batch: 12 elastic { events { at_s: ", 1.2 * until, " lose: [3] } }"), "",
                StrCat(kPredicted, " } }")));
  EXPECT_EQ(record.steps_size(), 9);
  EXPECT_THAT(Sizes(record), ElementsAre(4, 3));
  EXPECT_GT(record.lost_seconds(), 0);
}

// ---- Losses at any call ----

// Every run loses ranks at random calls, of any group and kind. What is left must finish, at the undisturbed losses.
TEST(ElasticLosses, AtRandomCallsAreSurvived) {
  const int runs = std::getenv("TWOFOLD_TEST_FULL") != nullptr ? 200 : 16;
  std::mt19937 random(TestSeed());
  const std::vector<double> expected = Losses(Lead(Text(4, " global_batch: 12", "", test::kInMemory)));
  for (int run = 0; run < runs; ++run) {
    const Layout& layout = kLayouts[static_cast<size_t>(run) % 4];
    const int lost = static_cast<int>(random() % 4), call = 20 + static_cast<int>(random() % 400);
    SCOPED_TRACE(StrCat("run ", run, ": ", layout.name, ", rank ", lost, " at call ", call));
    spec::Spec spec = Resolve(
        Text(4, StrCat(" global_batch: 12 elastic { ", layout.elastic, " }"), layout.parallel, test::kInMemory));
    auto data = LoadTrainingData(spec, "test.textproto");
    ASSERT_TRUE(data.ok());
    std::array<std::atomic<int>, 4> calls{};
    const auto fabric = MakeInMemoryFabric(spec, in_memory::GroupOptions{.before_call = [&](int rank) {
                                             if (++calls[static_cast<size_t>(rank)] == call && rank == lost)
                                               throw std::runtime_error("injected");
                                           }});
    const TrainingOptions options = TrainingOptionsFor(spec);
    const RunResult result = fabric->Run(4, [&](RankContext& ctx) { return TrainRank(ctx, options, data->samples()); });
    ASSERT_TRUE(result.status.ok()) << result.status;
    const absl::StatusOr<RankRecords> records = ReadRecords(spec, result);
    ASSERT_TRUE(records.ok()) << records.status();
    const std::vector<double> losses = Losses(records->lead());
    ASSERT_EQ(losses.size(), expected.size());
    for (size_t i = 0; i < losses.size(); ++i) EXPECT_NEAR(losses[i], expected[i], 1e-4) << "step " << i;
  }
}

}  // namespace elastic_test
}  // namespace twofold
