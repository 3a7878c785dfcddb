// `twofold storm`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "core/base/strings.h"
#include "tests/integration/program.h"

namespace twofold {
namespace program_storm_test {

using ::testing::HasSubstr;

constexpr char kSpec[] = "tests/storm/ddp.textproto";

TEST_F(Program, RagesAndSaysWhatHappened) {
  ASSERT_EQ(Run(StrCat("storm ", kSpec, " --schedules=6 --seed=3 --jobs=1 --out=", At("storm"))), 0) << out_ << err_;
  EXPECT_THAT(out_, HasSubstr("\nschedules that broke a rule "));
  EXPECT_THAT(out_, HasSubstr("an hour; "));
  const auto json = nlohmann::json::parse(ReadAll(At("storm/summary.json")));
  EXPECT_EQ(json["schedules"], 6);
  EXPECT_EQ(json["broken"], 0);
  EXPECT_EQ(json["rules"]["losses"], 0);
  int64_t ended = 0;
  for (const auto& [outcome, count] : json["outcomes"].items()) ended += int64_t{count};
  EXPECT_EQ(ended, 6);
  const std::string csv = ReadAll(At("storm/schedules.csv"));
  EXPECT_EQ(std::count(csv.begin(), csv.end(), '\n'), 7);
  // a seed alone replays a schedule
  const std::string seed = csv.substr(csv.find("0x"), 18);
  ASSERT_EQ(Run(StrCat("storm ", kSpec, " --replay=", seed, " --out=", At("replay"))), 0) << out_ << err_;
  EXPECT_THAT(out_, HasSubstr(StrCat("seed ", seed, "\n")));
  EXPECT_THAT(out_, HasSubstr(StrCat("no rule was broken\ndrawn by: twofold report ", At("replay"), "\n")));
}

TEST_F(Program, ReplaysAScheduleInAFile) {
  const std::string file = Write("case.textproto", "disasters { fault { rank: 2 step: 3 lost: true } }\n");
  ASSERT_EQ(Run(StrCat("storm ", kSpec, " --replay=", file, " --out=", At("replay"))), 0) << out_ << err_;
  EXPECT_THAT(out_, HasSubstr("  rank 2 is lost before the step after 3 steps\n"));
  EXPECT_THAT(out_, HasSubstr("outcome: finished, after recoveries"));
  EXPECT_THAT(out_, HasSubstr("  recovery: from peers: 1\n"));
}

TEST_F(Program, PrintsStormsAsJson) {
  ASSERT_EQ(Run(StrCat("storm ", kSpec, " --schedules=2 --seed=3 --jobs=1 --json --out=", At("storm"))), 0) << err_;
  const auto json = nlohmann::json::parse(out_);
  EXPECT_EQ(json["schedules"], 2);
  EXPECT_EQ(json["out"], At("storm"));
  EXPECT_TRUE(json["broken_schedules"].is_array() && json["broken_schedules"].empty()) << out_;
  const std::string file = Write("case.textproto", "disasters { fault { rank: 2 step: 3 lost: true } }\n");
  ASSERT_EQ(Run(StrCat("storm ", kSpec, " --json --replay=", file, " --out=", At("replay"))), 0) << err_;
  const auto replayed = nlohmann::json::parse(out_);
  EXPECT_EQ(replayed["disasters"][0], "rank 2 is lost before the step after 3 steps");
  EXPECT_EQ(replayed["happened"]["recovery: from peers"], 1);
  const auto story = nlohmann::json::parse(ReadAll(At("replay/replay.json")));
  EXPECT_EQ(story["disasters"], replayed["disasters"]);
  EXPECT_EQ(story["struck"][0]["text"], "was lost before the step after 3 steps");
  EXPECT_GT(story["moments"].size(), 8u * 3);
  EXPECT_TRUE(replayed["broken"].empty());
}

TEST_F(Program, RefusesStormsThatCannotBe) {
  const std::string spec = Write("s.textproto", kSmall), wrong = Write("wrong.textproto", "disasters { falt {} }");
  const std::pair<std::string, std::string> kWrong[] = {
      {"", "SPEC is required"},
      {StrCat(kSpec, " --schedules=0"), "--schedules must be at least 1 (got 0)"},
      {StrCat(kSpec, " --seed=seven"), "--seed: \"seven\" is no seed; use a number such as 0x"},
      {StrCat(kSpec, " --minutes=-1"), "--minutes must be 0 or more (got -1)"},
      {StrCat(kSpec, " --most-broken=0"), "--most-broken must be at least 1 (got 0)"},
      {StrCat(kSpec, " --jobs=-1"), "--jobs must be 0 or more (got -1)"},
      {StrCat(kSpec, " --replay=no/such.textproto --out=", At("x")), "is no seed; use a number such as"},
      {StrCat(kSpec, " --replay=", wrong, " --out=", At("x")), "falt"},
      {StrCat(kSpec, " --set=fabric.simulated.data=SYMBOLIC"), "needs REAL"},
      {StrCat(kSpec, " --set=train.steps=0"), "train.steps: 0 is out of range"},
      {StrCat(kSpec, " --set=train.resume=tests/storm"), "a storm begins with a new training"},
      {"no/such/spec.textproto", "no/such/spec.textproto"}};
  for (const auto& [words, why] : kWrong) {
    EXPECT_EQ(Run(StrCat("storm ", words)), 2) << words;
    EXPECT_THAT(err_, HasSubstr(why)) << words;
  }
}

}  // namespace program_storm_test
}  // namespace twofold
