// `twofold compare`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "core/base/strings.h"
#include "tests/integration/program.h"

namespace twofold {
namespace program_compare_test {

using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(Program, ComparesAPredictionWithAMeasurement) {
  const std::string spec = Write("small.textproto", kSmall);
  ASSERT_EQ(Run(StrCat("run ", spec, " --out=", At("p"))), 0) << err_;
  ASSERT_EQ(Run(StrCat("run ", spec, " --fabric=in_memory --out=", At("m"))), 0) << err_;
  ASSERT_EQ(Run(StrCat("compare ", At("p"), " ", At("m"))), 0) << err_;
  for (const char* row :
       {"step time", "samples a second", "exposed communication", "peak memory", "reserved memory", "final loss",
        "stand-in", "all_reduce", "Parts of the error in step time against in_memory", "predicted interval"}) {
    EXPECT_THAT(out_, HasSubstr(row));
  }
  EXPECT_THAT(out_, Not(HasSubstr("differ")));
  ASSERT_EQ(Run(StrCat("compare --json ", At("p"), " ", At("m"))), 0) << err_;
  const nlohmann::json json = nlohmann::json::parse(out_);
  const nlohmann::json& peak = json["values"][3];
  EXPECT_EQ(peak["name"], "peak memory");
  EXPECT_EQ(peak["predicted"], peak["measured"]);
  EXPECT_EQ(peak["error"], 0);
  for (const char* side : {"predicted", "measured"}) {
    double parts = 0;
    for (const nlohmann::json& part : json["step_parts"]) parts += part[side].get<double>();
    EXPECT_NEAR(parts, json["values"][0][side].get<double>(), 1e-12);
  }

  EXPECT_EQ(Run(StrCat("compare ", At("m"), " ", At("p"))), 2);
  EXPECT_THAT(err_, HasSubstr("prediction first"));

  ASSERT_EQ(Run(StrCat("compare ", At("p"), " ", At("m"), " ", At("m"))), 0) << err_;
  const std::string header = out_.substr(0, out_.find('\n'));
  EXPECT_THAT(header, ::testing::ContainsRegex("predicted +measured +error +measured +error$"));
  ASSERT_EQ(Run(StrCat("compare --json ", At("p"), " ", At("m"), " ", At("m"))), 0) << err_;
  EXPECT_EQ(nlohmann::json::parse(out_).size(), 2u);
  EXPECT_EQ(Run(StrCat("compare ", At("p"), " ", At("m"), " ", At("nothing"))), 2);
}

TEST_F(Program, SaysWhenTheTwoRunsDiffer) {
  const std::string spec = Write("small.textproto", kSmall);
  ASSERT_EQ(Run(StrCat("run ", spec, " --out=", At("p"))), 0) << err_;
  ASSERT_EQ(
      Run(StrCat("run ", spec, " --fabric=in_memory --set=model.mlp.hidden=32 --set=train.steps=3 --out=", At("m"))),
      0);
  ASSERT_EQ(Run(StrCat("compare ", At("p"), " ", At("m"))), 0) << err_;
  EXPECT_THAT(out_,
              ::testing::StartsWith("Note: the two runs did different work: their specs differ in model, train\n"));
  EXPECT_THAT(out_, Not(HasSubstr("bytes differ"))) << "they are of different models";
  EXPECT_THAT(out_, Not(HasSubstr("interval")));
  ASSERT_EQ(Run(StrCat("compare --json ", At("p"), " ", At("m"))), 0) << err_;
  EXPECT_EQ(nlohmann::json::parse(out_)["interval"]["inside"], nullptr);
}

// Of one job they should be equal, whatever fabrics they ran on; of runs that ended early, or had other budgets, they
// need not.
TEST_F(Program, SaysWhenOneJobsMemoryDiffers) {
  const std::string spec = Write("small.textproto", kSmall);
  ASSERT_EQ(Run(StrCat("run ", spec, " --out=", At("p"))), 0) << err_;
  ASSERT_EQ(Run(StrCat("run ", spec, " --fabric=in_memory --out=", At("m"))), 0) << err_;
  const auto with_peak = [this](const std::string& folder, int64_t peak, const std::string& outcome) {
    nlohmann::json report = Report(folder);
    report["ranks"][1]["peak_bytes"] = peak, report["outcome"] = outcome;
    std::ofstream(folder + "/report.json") << report.dump();
  };
  with_peak(At("m"), 512, "OK");
  ASSERT_EQ(Run(StrCat("compare ", At("p"), " ", At("m"))), 0) << err_;
  EXPECT_THAT(out_,
              ::testing::StartsWith(
                  "Note: peak or reserved bytes differ on rank 1: on the same kind of device they should be equal\n"));
  with_peak(At("m"), 512, "INTERRUPTED");
  ASSERT_EQ(Run(StrCat("compare ", At("p"), " ", At("m"))), 0) << err_;
  EXPECT_THAT(out_, Not(HasSubstr("should be equal")));
  ASSERT_EQ(Run(StrCat("run ", spec, " --fabric=in_memory --set=memory.budget_mib=1000 --out=", At("m"))), 0) << err_;
  with_peak(At("m"), 512, "OK");
  ASSERT_EQ(Run(StrCat("compare ", At("p"), " ", At("m"))), 0) << err_;
  EXPECT_THAT(out_, Not(HasSubstr("should be equal")));
}

// What the columns are is said of each run; two of a kind judge nothing.
TEST_F(Program, ComparesTwoPredictions) {
  ASSERT_EQ(Run(StrCat("run ", Write("small.textproto", kSmall), " --out=", At("p"))), 0) << err_;
  ASSERT_EQ(Run(StrCat("compare ", At("p"), " ", At("p"))), 0) << err_;
  EXPECT_THAT(out_, ::testing::ContainsRegex("^small +predicted +predicted +difference\n"));
  EXPECT_THAT(out_, Not(HasSubstr("measured")));
  EXPECT_THAT(out_, Not(HasSubstr("interval")));
  EXPECT_THAT(out_, Not(HasSubstr("0.00 ns")));
}

}  // namespace program_compare_test
}  // namespace twofold
