// Elastic trainings of processes on Gloo: ranks are killed, and new ones come.
#include <gmock/gmock.h>

#include <cmath>

#include "tests/integration/program.h"
#include "tests/integration/ranks_of.h"

namespace twofold {
namespace elastic_program_test {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
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

TEST_F(ElasticProgram, LetsANewProcessComeInALostOnesPlace) {
  const std::string spec = Spec("events { step: 4 lose: [2] }", "", 400);
  ASSERT_EQ(Run(StrCat("launch --ranks=4 --fabric=gloo --replace=1 -- run ", spec, " --out=", At("gloo"))), 0) << err_;
  EXPECT_THAT(err_, HasSubstr("the others go on, and a new process joins them"));
  const Json report = Report(At("gloo"));
  EXPECT_THAT(DpOf(report), ElementsAre(4, 3, 4));
  EXPECT_THAT(report["generations"][2]["members"], ElementsAre(0, 1, 3, 4));
  EXPECT_EQ(report["steps"].size(), 400u);
}

TEST_F(ElasticProgram, EndsIfTooFewAreLeft) {
  const std::string spec = Spec("min_dp: 3 reform_timeout_s: 2 events { step: 4 lose: [1, 2] }", "");
  EXPECT_EQ(Run(StrCat("launch --ranks=4 --fabric=gloo -- run ", spec, " --out=", At("gloo"))), 1);
  EXPECT_THAT(err_, HasSubstr("FAILED"));
  EXPECT_EQ(Report(At("gloo"))["outcome"], "FAILED");
}

TEST_F(ElasticProgram, RefusesReplacementsForOtherRuns) {
  const std::string spec = Write("plain.textproto", StrCat(kModel, "parallel { dp: 2 }\n"));
  EXPECT_EQ(Run(StrCat("launch --ranks=2 --fabric=gloo --replace=1 -- run ", spec)), 2);
  EXPECT_THAT(err_, AllOf(HasSubstr("--replace"), HasSubstr("train { elastic {} }")));
}

}  // namespace elastic_program_test
}  // namespace twofold
