// Elastic trainings of processes on Gloo: ranks are killed, and new ones come.
#include <gmock/gmock.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <iterator>
#include <memory>
#include <set>
#include <sstream>
#include <utility>
#include <vector>

#include "absl/strings/str_join.h"
#include "backends/control/client.h"
#include "tests/children.h"
#include "tests/gloo_addresses.h"
#include "tests/integration/program.h"
#include "tests/integration/ranks_of.h"
#include "tests/ports.h"

namespace twofold {
namespace elastic_program_test {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::ElementsAreArray;
using ::testing::HasSubstr;
using ::testing::StartsWith;
using Json = nlohmann::json;

constexpr char kModel[] = "model { gpt { layers: 2 hidden: 16 heads: 2 vocab: 256 sequence: 8 } }\n";

class ElasticProgram : public Program {
 protected:
  std::string Spec(const std::string& elastic, const std::string& parallel, int steps = 9) {
    return Write("spec.textproto",
                 StrCat(kModel, "train { steps: ", steps, " warmup_steps: 0 global_batch: 12 micro_batch: 1 elastic { ",
                        elastic, " } }\nparallel { dp: 4 ", parallel, " }\nfabric { gloo {} timeout_s: 60 }\n"));
  }
  std::vector<double> Losses(const Json& report) {
    std::vector<double> losses;
    for (const Json& step : report["steps"]) losses.push_back(step["loss"]);
    return losses;
  }
  void ExpectSameLosses(const Json& a, const Json& b) {
    const std::vector<double> of_a = Losses(a), of_b = Losses(b);
    ASSERT_EQ(of_a.size(), of_b.size());
    for (size_t i = 0; i < of_a.size(); ++i) EXPECT_NEAR(of_a[i], of_b[i], 1e-5) << "step " << i;
  }
  std::vector<int> DpOf(const Json& report) {
    std::vector<int> all;
    for (const Json& g : report["generations"]) all.push_back(g["dp"]);
    return all;
  }
};

// The losses are those of threads with the same members. Memory is exact for those that nothing happened to.
TEST_F(ElasticProgram, GoesOnAsThreadsDoIfARankIsKilled) {
  for (const char* parallel : {"", "sharding: ZERO_1", "sharding: ZERO_3"}) {
    SCOPED_TRACE(parallel);
    const std::string copies = *parallel == '\0' ? "" : "shard_copies: 1 ";
    const std::string spec = Spec(copies + "events { step: 4 lose: [2] }", parallel);
    ASSERT_EQ(Run(StrCat("launch --ranks=4 --fabric=gloo -- run ", spec, " --out=", At("gloo"))), 0) << err_;
    ASSERT_EQ(Run(StrCat("run ", spec, " --fabric=in_memory --out=", At("threads"))), 0) << err_;
    const Json gloo = Report(At("gloo")), threads = Report(At("threads"));
    EXPECT_EQ(gloo["outcome"], "OK");
    EXPECT_THAT(DpOf(gloo), ElementsAre(4, 3));
    EXPECT_THAT(gloo["generations"][1]["members"], ElementsAre(0, 1, 3));
    EXPECT_EQ(gloo["generations"][1]["from"], "peers");
    ExpectSameLosses(gloo, threads);
  }
}

// On an emulated device, too: the files have their real sizes.
TEST_F(ElasticProgram, GoesOnFromItsLastCheckpointIfAsked) {
  const std::string spec = Write(
      "spec.textproto",
      StrCat(kModel, "train { steps: 9 warmup_steps: 0 global_batch: 12 micro_batch: 1 checkpoint { every_steps: 2 } ",
             "elastic { on_loss: CHECKPOINT events { step: 5 lose: [2] } } }\nparallel { dp: 4 }\n",
             "fabric { gloo {} timeout_s: 60 }\n"));
  for (const char* device : {"", " --set=device=EMULATED"}) {
    SCOPED_TRACE(device);
    ASSERT_EQ(Run(StrCat("launch --ranks=4 --fabric=gloo -- run ", spec, device, " --out=", At("gloo"))), 0) << err_;
    const Json report = Report(At("gloo"));
    EXPECT_EQ(report["outcome"], "OK");
    EXPECT_THAT(DpOf(report), ElementsAre(4, 3));
    const Json& g = report["generations"][1];
    EXPECT_EQ(g["from"], "checkpoint");
    EXPECT_EQ(g["first_step"], 4);
    EXPECT_EQ(g["lost_steps"], 1);
    EXPECT_GT(g["load_bytes"], 0);
    EXPECT_GT(g["load_seconds"], 0);
    EXPECT_EQ(report["steps"].size(), 9u);
  }
}

// A newcomer's events are in the time of the run, too, not in its own: the second loss is that of the new process.
TEST_F(ElasticProgram, LosesNewProcessesAtTheirTimeOfTheRun) {
  const std::string spec = Spec("events { at_s: 0.5 lose: [3] } events { at_s: 2 lose: [4] }", "", 100);
  ASSERT_EQ(Run(StrCat("launch --ranks=4 --fabric=gloo --replace=1 -- run ", spec,
                       " --set=device=EMULATED --set=emulated.speed=0.016 --out=", At("gloo"))),  // 25 ms a step
            0)
      << err_;
  const Json report = Report(At("gloo"));
  EXPECT_THAT(DpOf(report), ElementsAre(4, 3, 4, 3));
  EXPECT_GE(report["generations"][1]["began_seconds"], 0.5);
  EXPECT_GE(report["generations"][3]["began_seconds"], 2);
}

// Messages of Gloo go into the profile, and predictions use them, whatever the number of members can become.
TEST_F(ElasticProgram, IsPredictedFromMeasuredMessages) {
  const std::string profile = At("profile.textproto");
  ASSERT_EQ(Run(StrCat("launch --ranks=2 --fabric=gloo -- calibrate --quick --fabric=gloo --out=", profile)), 0)
      << err_;
  const std::string spec = Spec("events { step: 4 join: 1 }", "");
  ASSERT_EQ(Run(StrCat("run ", spec, " --fabric=simulated --set=parallel.dp=2 --out=", At("p"),
                       " --set=fabric.simulated.profile=", profile, " --set=fabric.simulated.links=gloo")),
            0)
      << err_;
  const std::string notes = Report(At("p"))["notes"].dump();
  EXPECT_THAT(notes, HasSubstr("links are those that the profile measured on fabric gloo"));
  EXPECT_THAT(notes, HasSubstr("all_reduce of 2, all_gather of 2, reduce_scatter of 2, broadcast of 2 ranks take the "
                               "time that calibration measured"));
}

TEST_F(ElasticProgram, EndsIfTooFewAreLeft) {
  const std::string spec = Spec("min_dp: 3 reform_timeout_s: 2 events { step: 4 lose: [1, 2] }", "");
  EXPECT_EQ(Run(StrCat("launch --ranks=4 --fabric=gloo -- run ", spec, " --out=", At("gloo"))), 1);
  EXPECT_THAT(err_, HasSubstr("FAILED"));
  EXPECT_EQ(Report(At("gloo"))["outcome"], "FAILED");
}

// Both holders of a stage are killed. The others find that nothing can be done, and the run ends with that.
TEST_F(ElasticProgram, EndsWithTheReasonIfNobodyHoldsSomeOfTheState) {
  const std::string spec = Spec("events { step: 4 lose: [2, 3] }", "pp: 2");
  EXPECT_EQ(Run(StrCat("launch --ranks=4 --fabric=gloo -- run ", spec, " --set=parallel.dp=2 --out=", At("gloo"))), 1);
  const std::string message = Report(At("gloo"))["message"];
  EXPECT_THAT(message, StartsWith("generation 1: train.elastic: nobody that is left holds element 0 of "));
  EXPECT_EQ(Run(StrCat("launch --ranks=4 --fabric=gloo --restarts=1 -- run ", spec,
                       " --set=parallel.dp=2 --out=", At("again"))),
            0)
      << err_;
  EXPECT_THAT(Report(At("again"))["notes"].dump(), HasSubstr("the run goes on anew"));
}

TEST_F(ElasticProgram, RefusesReplacementsForOtherRuns) {
  const std::string spec = Write("plain.textproto", StrCat(kModel, "parallel { dp: 2 }\n"));
  EXPECT_EQ(Run(StrCat("launch --ranks=2 --fabric=gloo --replace=1 -- run ", spec)), 2);
  EXPECT_THAT(err_, AllOf(HasSubstr("--replace"), HasSubstr("train { elastic {} }")));
}

// ---- 8, then 5, then 8 ranks ----

struct Layout {
  const char *name, *parallel, *elastic;
  int few = 5;  // replicas that train when three of eight ranks are lost
};
void PrintTo(const Layout& l, std::ostream* out) { *out << l.name; }
constexpr Layout kLayouts[] = {{"Ddp", "", ""},  // the others are as slow as they are many: in tests/run.sh --full
                               {"Hybrid", "sharding: HYBRID_SHARD shard_group: 2", "", 4},
                               {"Zero1", "sharding: ZERO_1", "shard_copies: 1"},
                               {"Zero2", "sharding: ZERO_2", "shard_copies: 1"},
                               {"Zero3", "sharding: ZERO_3", "shard_copies: 1"}};
std::vector<Layout> Layouts() {
  const bool all = std::getenv("TWOFOLD_TEST_FULL") != nullptr;
  return {std::begin(kLayouts), all ? std::end(kLayouts) : std::begin(kLayouts) + 1};
}

class FewerAndMore : public ElasticProgram, public ::testing::WithParamInterface<Layout> {
 protected:
  static constexpr int kSteps = 100;
  std::string Spec(const std::string& name, const std::string& events) const {
    return Write(name, StrCat(kModel, "train { steps: ", kSteps,
                              " warmup_steps: 0 global_batch: 40 micro_batch: 1 optimizer { adamw { lr: 1e-4 } } "
                              "elastic { min_dp: 2 ",
                              GetParam().elastic, " ", events, " } }\nparallel { dp: 8 ", GetParam().parallel,
                              " }\nfabric { gloo {} timeout_s: 60 }\n"));
  }
  static std::vector<int64_t> DpByStep(const Json& report) {
    std::vector<int64_t> dp(kSteps);
    for (const Json& g : report["generations"])
      for (size_t step = g["first_step"]; step < kSteps; ++step) dp[step] = g["dp"];
    return dp;
  }
  // Makes the same members be lost and come at the same steps.
  static std::string EventsOf(const Json& report) {
    std::string events;
    std::set<int> before = {0, 1, 2, 3, 4, 5, 6, 7};
    for (const Json& g : report["generations"]) {
      const std::set<int> members = g["members"];
      std::vector<int> lost, came;
      std::set_difference(before.begin(), before.end(), members.begin(), members.end(), std::back_inserter(lost));
      std::set_difference(members.begin(), members.end(), before.begin(), before.end(), std::back_inserter(came));
      const std::string when = StrCat("events { step: ", g["first_step"].get<int>(), " ");
      if (!lost.empty()) StrAppend(&events, when, "lose: [", absl::StrJoin(lost, ","), "] } ");
      if (!came.empty()) StrAppend(&events, when, "join: ", came.size(), " } ");
      before = members;
    }
    return events;
  }
};
INSTANTIATE_TEST_SUITE_P(Layouts, FewerAndMore, ::testing::ValuesIn(Layouts()),
                         [](const auto& info) { return std::string(info.param.name); });

// When new processes have come, in one go or one by one, is the machine's affair; threads are given the same members.
TEST_P(FewerAndMore, TrainsAsThreadsWithTheSameMembers) {
  const std::string spec = Spec("gloo.textproto", "events { step: 3 lose: [1, 4, 6] }");
  ASSERT_EQ(Run(StrCat("launch --ranks=8 --fabric=gloo --replace=3 -- run ", spec, " --out=", At("gloo"))), 0) << err_;
  EXPECT_THAT(err_, HasSubstr("the others go on, and a new process joins them"));
  const Json gloo = Report(At("gloo"));
  const std::vector<int64_t> dp = DpByStep(gloo);
  EXPECT_EQ(dp.front(), 8);
  EXPECT_EQ(dp[3], GetParam().few);
  EXPECT_EQ(dp.back(), 8) << "new processes came too late for " << kSteps << " steps";
  // The three may be missed one after another, and one may have come already, and stands by.
  bool were_five = false;
  for (const Json& g : gloo["generations"]) {
    std::vector<int> left = g["members"];
    left.resize(std::min<size_t>(left.size(), 5));
    were_five = were_five || left == std::vector<int>{0, 2, 3, 5, 7};
  }
  EXPECT_TRUE(were_five) << gloo["generations"];
  EXPECT_THAT(gloo["generations"].back()["members"], ElementsAre(0, 2, 3, 5, 7, 8, 9, 10));
  for (size_t g = 1; g < gloo["generations"].size(); ++g) EXPECT_EQ(gloo["generations"][g]["from"], "peers");
  const std::string same = Spec("threads.textproto", EventsOf(gloo));
  ASSERT_EQ(Run(StrCat("run ", same, " --fabric=in_memory --out=", At("threads"))), 0) << err_;
  EXPECT_EQ(DpByStep(Report(At("threads"))), dp);
  ExpectSameLosses(gloo, Report(At("threads")));
}

// ---- New members that do not connect ----

// Three processes train. A fourth one is let into their next generation, tells the others addresses from which it never
// connects, and `then`.
class HalfJoined : public ElasticProgram {
 protected:
  // `beside`: a fifth one joins together with the fourth.
  Json Train(double reform_timeout_s, const std::function<void(std::unique_ptr<control::Client>)>& then,
             bool beside = false) {
    const test::Ports port;
    const std::string spec =
        Write("spec.textproto",
              StrCat(kModel, "train { steps: 30 warmup_steps: 0 global_batch: 12 micro_batch: 1 elastic { max_dp: 4 ",
                     "reform_timeout_s: ", reform_timeout_s, " } }\nparallel { dp: 3 }\n",
                     "fabric { gloo {} timeout_s: 60 }\n"));
    const auto start = [&](test::Environment variables) {
      variables.insert(
          {{"MASTER_ADDR", "127.0.0.1"}, {"MASTER_PORT", StrCat(port.first())}, {"TWOFOLD_JOB_TOKEN", "of this test"}});
      ranks_.push_back(std::make_unique<test::Child>(
          std::vector<std::string>{TWOFOLD_PROGRAM, "run", spec, StrCat("--out=", At("out"))}, variables));
    };
    const auto rank = [](int r) { return test::Environment{{"RANK", StrCat(r)}, {"WORLD_SIZE", "3"}}; };
    start(rank(0)), start(rank(1));  // and begin once the third one has come
    auto newcomer = control::Client::Join(
        {.newcomer = true, .hosts = {"127.0.0.1"}, .port = port.first(), .timeout_s = 60, .token = "of this test"});
    EXPECT_TRUE(newcomer.ok()) << newcomer.status();
    if (beside) {
      test::Environment joins = rank(2);
      joins["TWOFOLD_JOIN"] = "1";
      start(joins);
      AwaitThat([&] { return ConnectionsAt(port.first()) == 3; }, "rank 1 and both new ones at the control plane");
    }
    start(rank(2));
    const absl::StatusOr<control::Generation> generation = (*newcomer)->Reform(1, 60);
    if (!generation.ok()) throw std::runtime_error(std::string(generation.status().message()));
    EXPECT_THAT(generation->members,
                ElementsAreArray(beside ? std::vector<int>{0, 1, 2, 3, 4} : std::vector<int>{0, 1, 2, 3}));
    const int others = static_cast<int>(generation->members.size()) - 1;
    EXPECT_TRUE((*newcomer)->AllGather(test::GlooAddressesAt(test::kPortAbove, others)).ok());
    then(*std::move(newcomer));
    AwaitAll();
    return Report(At("out"));
  }
  // Established ones of this host, with this port at their server.
  static int ConnectionsAt(int port) {
    std::istringstream table(ReadAll("/proc/net/tcp"));
    int count = 0;
    for (std::string line; std::getline(table, line);) {
      int at = 0, state = 0;
      if (std::sscanf(line.c_str(), "%*d: %*x:%x %*x:%*x %x", &at, &state) == 2) count += at == port && state == 1;
    }
    return count;
  }
  void AwaitAll() {
    for (const auto& rank : ranks_) EXPECT_EQ(rank->Wait(), 0) << rank->Output();
  }
  std::vector<std::unique_ptr<test::Child>> ranks_;
};

void ExpectThatTheyWentOn(const Json& report, const std::vector<int>& members = {0, 1, 2}) {
  EXPECT_EQ(report["outcome"], "OK");
  ASSERT_EQ(report["generations"].size(), 2u) << "the one that could not connect has trained nothing";
  EXPECT_EQ(report["generations"][1]["number"], 2);
  EXPECT_EQ(report["generations"][1]["members"].get<std::vector<int>>(), members);
}

TEST_F(HalfJoined, IfItEndsTheOthersGoOnAtOnce) {
  constexpr double kTimeout = 100;
  const Json report = Train(kTimeout, [](std::unique_ptr<control::Client>) {});
  ExpectThatTheyWentOn(report);
  EXPECT_LT(report["generations"][1]["reform_seconds"].get<double>(), 0.5 * kTimeout);
}

TEST_F(HalfJoined, IfItEndsAnotherNewOneGoesOnToo) {
  ExpectThatTheyWentOn(Train(
                           100, [](std::unique_ptr<control::Client>) {}, /*beside=*/true),
                       {0, 1, 2, 4});
}

TEST_F(HalfJoined, IfItHangsTheOthersWaitForReformTimeout) {
  const Json report = Train(2, [this](std::unique_ptr<control::Client>) { AwaitAll(); });
  ExpectThatTheyWentOn(report);
  EXPECT_GE(report["generations"][1]["reform_seconds"].get<double>(), 2);
  EXPECT_LT(report["generations"][1]["reform_seconds"].get<double>(), 25);
}

}  // namespace elastic_program_test
}  // namespace twofold
