// `twofold launch --restarts`: which runs it starts again, with which ranks, and from where.
#include <gmock/gmock.h>

#include "core/io/checkpoint_folder.h"
#include "experiments/program/continuation.h"
#include "experiments/program/spec/spec.h"
#include "tests/children.h"
#include "tests/integration/program.h"
#include "tests/integration/ranks_of.h"

namespace twofold {
namespace restarts_test {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

// ---- How a run goes on ----

class Continues : public Program {
 protected:
  // With `ranks` left of a run of this spec.
  absl::StatusOr<Continuation> With(int ranks, const std::string& text, int least_ranks = 1) const {
    RunWords run{.file = Write("spec.textproto", text), .out = "", .sets = {"train.steps=5"}, .spec = {}};
    run.spec = LoadSpec(run.file, "mpi", run.sets).value();
    return ContinueWith(run, "mpi", ranks, least_ranks);
  }
};
constexpr char kModel[] = "model { gpt { layers: 2 hidden: 16 heads: 2 vocab: 256 sequence: 8 } }\n";

TEST_F(Continues, WithTheGreatestDpThatTheSpecAllows) {
  const std::string text = StrCat(kModel, "train { micro_batch: 2 global_batch: 24 } parallel { dp: 6 }\n");
  for (const auto& [left, dp] : {std::pair(5, 4), {4, 4}, {3, 3}, {2, 2}, {1, 1}}) {
    const auto next = With(left, text);
    ASSERT_TRUE(next.ok()) << next.status();
    EXPECT_EQ(next->dp, dp) << left;
    EXPECT_EQ(next->ranks, dp) << left;
    EXPECT_THAT(next->sets, ElementsAre(StrCat("parallel.dp=", dp), "train.global_batch=24"));
  }
  EXPECT_EQ(With(6, text)->dp, 6) << "no rank was lost, only time";
}

// The default of global_batch depends on dp.
TEST_F(Continues, WithTheBatchOfTheFirstAttempt) {
  EXPECT_THAT(With(2, StrCat(kModel, "train { micro_batch: 2 } parallel { dp: 4 }\n"))->sets,
              ElementsAre("parallel.dp=2", "train.global_batch=8"));
}

TEST_F(Continues, WithWholeReplicas) {
  const std::string text = StrCat(kModel, "train { micro_batch: 2 global_batch: 8 } parallel { dp: 4 tp: 2 }\n");
  EXPECT_EQ(With(7, text)->ranks, 4) << "a dp of 3 does not divide the batch";
  EXPECT_EQ(With(3, text)->ranks, 2);
  EXPECT_THAT(std::string(With(1, text).status().message()),
              HasSubstr("1 rank is left, but 2 are needed: pp * cp * tp = 2 times a dp of at least 1"));
}

TEST_F(Continues, WithTheSamplesOfARankIfTheSpecSaysSo) {
  const std::string text =
      StrCat(kModel, "train { micro_batch: 2 global_batch: 24 optimizer { adamw { lr: 0.006 } } elastic { batch: ",
             "KEEP_LOCAL } } parallel { dp: 6 }\n");
  const auto next = With(5, text);
  ASSERT_TRUE(next.ok()) << next.status();
  EXPECT_EQ(next->dp, 5);
  ASSERT_EQ(next->sets.size(), 3u);
  EXPECT_EQ(next->sets[1], "train.global_batch=20");
  double rate = 0;
  ASSERT_EQ(std::sscanf(next->sets[2].c_str(), "train.optimizer.adamw.lr=%lf", &rate), 1) << next->sets[2];
  EXPECT_DOUBLE_EQ(rate, 0.005);
}

TEST_F(Continues, OnlyWithinTheBounds) {
  const std::string text =
      StrCat(kModel, "train { micro_batch: 2 global_batch: 24 elastic { min_dp: 3 } } ", "parallel { dp: 6 }\n");
  EXPECT_EQ(With(3, text)->dp, 3);
  EXPECT_THAT(std::string(With(2, text).status().message()),
              AllOf(HasSubstr("2 ranks are left, but 3 are needed"), HasSubstr("train.elastic.min_dp = 3")));
  EXPECT_THAT(std::string(With(3, text, 4).status().message()), HasSubstr("--min-ranks=4"));
}

TEST_F(Continues, NotIfTheSpecAllowsNoDp) {
  const absl::Status status =
      With(3, StrCat(kModel, "train { micro_batch: 2 global_batch: 16 } parallel { dp: 4 sharding: HYBRID_SHARD ",
                     "shard_group: 4 }\n"))
          .status();
  EXPECT_THAT(std::string(status.message()),
              AllOf(HasSubstr("3 ranks are left, but the spec is valid with no parallel.dp from 3 to 1"),
                    HasSubstr("parallel.dp = 3: "), HasSubstr("parallel.dp = 2: "), HasSubstr("parallel.dp = 1: ")));
}

// ---- The program ----

constexpr char kTrains[] =
    "model { mlp { inputs: 64 hidden: [128, 128] classes: 8 } }\n"
    "data { synthetic { samples: 1000 } }\nparallel { dp: 3 }\n";

class Restarts : public Program, public ::testing::WithParamInterface<const char*> {
 protected:
  // Three ranks that train for `steps` steps, or until they are ended.
  std::unique_ptr<test::Child> Launch(const std::vector<std::string>& options, const std::string& train,
                                      int64_t steps = 2'000'000) {
    const std::string spec =
        Write("spec.textproto",
              StrCat(kTrains, "train { micro_batch: 8 global_batch: 48 steps: ", steps, " ", train, " }\n"));
    std::vector<std::string> words = {TWOFOLD_PROGRAM, "launch", "--ranks=3", StrCat("--fabric=", GetParam())};
    words.insert(words.end(), options.begin(), options.end());
    words.insert(words.end(), {"--", "run", spec, out_word_});
    return std::make_unique<test::Child>(words);
  }
  void AwaitCheckpoints(size_t count) const {
    AwaitThat([&] { return checkpoint::List(At("out/checkpoints")).size() >= count; }, "checkpoints");
  }
  std::string Notes(const std::string& folder) const { return Report(folder)["notes"].dump(); }

  const std::string out_word_ = StrCat("--out=", At("out"));
};
INSTANTIATE_TEST_SUITE_P(Fabrics, Restarts, ::testing::Values("mpi", "gloo"),
                         [](const auto& info) { return std::string(info.param); });
class RestartsOnMpi : public Restarts {};
INSTANTIATE_TEST_SUITE_P(Fabrics, RestartsOnMpi, ::testing::Values("mpi"));

// The losses are bit for bit those of a run that is resumed by hand.
TEST_P(Restarts, GoesOnWithTheRanksThatAreLeft) {
  constexpr int64_t kSteps = 400;
  const auto launch = Launch({"--restarts=2"}, "checkpoint { every_steps: 20 keep_last: 0 }", kSteps);
  AwaitCheckpoints(1);
  SignalRank(1, out_word_, SIGKILL);
  ASSERT_EQ(launch->Wait(), 0) << launch->Output();
  EXPECT_THAT(launch->Output(), HasSubstr("launch: restart 1 of at most 2: lost rank 1: its process "));

  const nlohmann::json lost = Report(At("out/attempt-1")), report = Report(At("out"));
  EXPECT_EQ(lost["outcome"], "FAILED");
  EXPECT_EQ(lost["world_size"], 3);
  EXPECT_EQ(report["outcome"], "OK");
  EXPECT_EQ(report["world_size"], 2);
  const int64_t from = report["first_step"];
  EXPECT_GE(from, 20);
  EXPECT_EQ(from % 20, 0);
  EXPECT_EQ(from + static_cast<int64_t>(report["steps"].size()), kSteps);
  EXPECT_THAT(Notes(At("out")),
              AllOf(HasSubstr("restart 1 of at most 2: lost rank 1"), HasSubstr(At("out/attempt-1")),
                    HasSubstr(StrCat("after step ", from, ", with 2 ranks and parallel.dp = 2 (before: 3 and 3)"))));

  std::string resumed;
  for (const checkpoint::Found& found : checkpoint::List(At("out/checkpoints"))) {
    if (found.step == from) resumed = found.path;
  }
  ASSERT_EQ(Run(StrCat("launch --ranks=2 --fabric=", GetParam(), " -- run ", At("spec.textproto"),
                       " --quiet --out=", At("by_hand"), " --set=parallel.dp=2 --set=train.resume=", resumed)),
            0)
      << err_;
  const nlohmann::json by_hand = Report(At("by_hand"))["steps"];
  ASSERT_EQ(by_hand.size(), report["steps"].size());
  for (size_t i = 0; i < by_hand.size(); ++i) EXPECT_EQ(by_hand[i]["loss"], report["steps"][i]["loss"]) << i;
}

TEST_P(Restarts, EndsWhenRestartsAreExhausted) {
  const auto launch = Launch({"--restarts=1"}, "checkpoint { every_steps: 50 }");
  AwaitCheckpoints(1);
  SignalRank(2, out_word_, SIGKILL);
  ASSERT_TRUE(launch->AwaitOutput("with 2 ranks and parallel.dp = 2"));
  ASSERT_TRUE(launch->AwaitOutput("step ")) << launch->Output();
  AwaitThat([&] { return launch->Output().rfind("per step") > launch->Output().find("launch: restart 1"); },
            "a step of the second attempt");
  SignalRank(0, out_word_, SIGKILL);
  EXPECT_EQ(launch->Wait(), 128 + SIGKILL) << launch->Output();
  EXPECT_THAT(launch->Output(), AllOf(HasSubstr("the run is not started again: lost rank 0: its process"),
                                      HasSubstr("; --restarts=1"), Not(HasSubstr("restart 2"))));
  EXPECT_EQ(Report(At("out"))["outcome"], "FAILED");
  EXPECT_EQ(Report(At("out"))["world_size"], 2);
  EXPECT_THAT(Notes(At("out")), HasSubstr("restart 1 of at most 1: lost rank 2"));
}

TEST_P(RestartsOnMpi, EndsWithTooFewRanks) {
  const auto launch = Launch({"--restarts=2", "--min-ranks=3"}, "");
  ASSERT_TRUE(launch->AwaitOutput("step 1 of"));
  SignalRank(1, out_word_, SIGKILL);
  EXPECT_EQ(launch->Wait(), 128 + SIGKILL);
  EXPECT_THAT(launch->Output(), AllOf(HasSubstr("lost rank 1"), HasSubstr("2 ranks are left, but 3 are needed"),
                                      HasSubstr("--min-ranks=3"), Not(HasSubstr("restart 1"))));
}

// Another run's checkpoints are not taken for its own. An interrupt ends it for good.
TEST_P(RestartsOnMpi, BeginsAnewWithoutACheckpointOfItsOwn) {
  const std::string old = Write("old.textproto", StrCat(kTrains, "train { micro_batch: 8 global_batch: 48 steps: 3 ",
                                                        "checkpoint { path: \"", At("out/checkpoints"), "\" } }\n"));
  ASSERT_EQ(Run(StrCat("run ", old, " --quiet --fabric=in_memory --out=", At("old"))), 0) << err_;
  const auto launch = Launch({"--restarts=1"}, "checkpoint {}");
  ASSERT_TRUE(launch->AwaitOutput("step 1 of"));
  SignalRank(1, out_word_, SIGKILL);
  ASSERT_TRUE(launch->AwaitOutput("the run goes on anew, because it had saved no checkpoint, with 2 ranks"));
  AwaitThat([&] { return launch->Output().rfind("step 1 of") > launch->Output().find("launch: restart 1"); },
            "the first step of the second attempt");
  launch->Signal(SIGINT);
  EXPECT_EQ(launch->Wait(), 1) << launch->Output();
  EXPECT_THAT(launch->Output(), Not(HasSubstr("not started again")));
  EXPECT_EQ(Report(At("out"))["outcome"], "INTERRUPTED");
  EXPECT_EQ(Report(At("out"))["first_step"], 0);
}

TEST_P(RestartsOnMpi, LeavesOtherFailuresAlone) {
  const std::string text = StrCat(kTrains, "train { micro_batch: 8 global_batch: 48 steps: 2 }\n");
  const std::string launch = StrCat("launch --ranks=3 --restarts=2 --fabric=", GetParam(), " -- run ",
                                    Write("spec.textproto", text), " --quiet --out=", At("out"), " --set=");
  fs::create_directories(At("empty"));
  EXPECT_EQ(Run(StrCat(launch, "train.resume=", At("empty"))), 2) << "found by rank 0 alone";
  EXPECT_THAT(err_, AllOf(HasSubstr("has no checkpoint"), Not(HasSubstr("started again"))));
  EXPECT_EQ(Run(StrCat(launch, "memory.budget_mib=1")), 1);
  EXPECT_EQ(Report(At("out"))["outcome"], "OUT_OF_MEMORY");
  EXPECT_THAT(err_, HasSubstr("not started again: it did not fail because a rank was lost"));
  EXPECT_EQ(Run(StrCat(launch, "train.steps=0")), 2) << "found before ranks are started";
}

TEST_P(RestartsOnMpi, RefusesWhatContradicts) {
  const std::string spec = Write("spec.textproto", StrCat(kTrains, "train { steps: 2 micro_batch: 2 }\n"));
  const std::vector<std::pair<std::string, std::string>> wrong = {
      {"--ranks=3 --restarts=-1 -- run " + spec, "--restarts must be at least 0 (got -1)"},
      {"--ranks=3 --min-ranks=2 -- run " + spec, "--min-ranks=2 is only for --restarts=R"},
      {"--ranks=3 --restarts=1 --min-ranks=4 -- run " + spec, "--min-ranks must be from 1 to --ranks=3 (got 4)"},
      {"--ranks=3 --restarts=1 -- bench all_reduce", "--restarts is for the command run"},
      {"--ranks=3 --restarts=1 --program=/bin/true -- x", "leave it out for --program=/bin/true"},
      {"--ranks=4 --restarts=1 --fabric=gloo --nodes=2 --node-rank=0 --master=n:1 -- run " + spec,
       "--restarts is for ranks on this host only"},
  };
  for (const auto& [words, says] : wrong) {
    EXPECT_EQ(Run("launch " + words), 2) << words;
    EXPECT_THAT(err_, HasSubstr(says));
  }
}

}  // namespace restarts_test
}  // namespace twofold
