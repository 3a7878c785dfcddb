// `twofold sweep`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <nlohmann/json.hpp>
#include <string>

#include "core/base/strings.h"
#include "tests/children.h"
#include "tests/integration/program.h"

namespace twofold {
namespace program_sweep_test {

using ::testing::HasSubstr;
using ::testing::Not;

constexpr char kCnn[] =
    "name: \"tiny\"\n"
    "model { cnn { height: 8 width: 8 widths: [4, 6] blocks: [1, 1] classes: 5 } }\n"
    "data { synthetic { samples: 96 } }\n"
    "train { steps: 4 global_batch: 16 micro_batch: 16 }\n";

nlohmann::json Parsed(const std::string& path) { return nlohmann::json::parse(ReadAll(path)); }

TEST_F(Program, SweepsStrongScalingOnBothSides) {
  const std::string spec = Write("cnn.textproto", kCnn), out = At("sweep");
  const std::string command = StrCat("sweep ", spec,
                                     " --vary=parallel.dp=1,2,4 --scaling=strong --predicted "
                                     "--measured --repeats=2 --out=",
                                     out, " --set=fabric.simulated.profile=tests/integration/tiny.profile.textproto");
  ASSERT_EQ(Run(command), 0) << err_;
  EXPECT_THAT(out_, HasSubstr("speed-up p."));
  EXPECT_THAT(out_, HasSubstr(StrCat("report: ", out)));
  EXPECT_THAT(out_, Not(HasSubstr("earlier sweep")));
  EXPECT_THAT(ReadAll(out + "/sweep.svg"), HasSubstr("tiny: strong scaling"));
  EXPECT_THAT(ReadAll(out + "/sweep.csv"), HasSubstr("parallel.dp,ranks,global_batch,micro_batch,"));
  const auto points = Parsed(out + "/sweep.json")["points"];
  ASSERT_EQ(points.size(), 3U);
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(points[i]["ranks"], 1 << i);
    EXPECT_EQ(points[i]["micro_batch"], 16 >> i);
    EXPECT_EQ(points[i]["measured"]["runs"].size(), 2U);
    EXPECT_EQ(points[i]["predicted"]["peak_bytes"], points[i]["measured"]["peak_bytes"]);  // to the byte
    const auto report = Report(StrCat(out, "/parallel.dp=", 1 << i, "/measured-2"));
    EXPECT_EQ(points[i]["measured"]["runs"][1], report["median_step_seconds"]);
  }
  // nothing is run again, until the spec changes
  ASSERT_EQ(Run(command), 0) << err_;
  EXPECT_THAT(out_, HasSubstr("note: 9 runs of 9 of an earlier sweep"));
  EXPECT_EQ(Parsed(out + "/sweep.json")["points"], points);
  ASSERT_EQ(Run(StrCat(command, " --set=train.seed=2")), 0) << err_;
  EXPECT_THAT(out_, Not(HasSubstr("earlier sweep")));
}

TEST_F(Program, AFailingPointIsALineWithItsReason) {
  const std::string spec = Write("cnn.textproto", kCnn), out = At("sweep");
  EXPECT_EQ(Run(StrCat("sweep ", spec, " --vary=parallel.dp=1,3 --scaling=strong --repeats=1 --out=", out)), 1);
  EXPECT_THAT(out_, HasSubstr("no figures of dp=3, measured: train.global_batch=16 does not divide among 3 replicas"));
  EXPECT_TRUE(Parsed(out + "/sweep.json")["points"][0]["measured"].contains("median_step_seconds"));
  // it fails while it runs, and is tried again; the other one is not
  for (const bool again : {false, true}) {
    EXPECT_EQ(Run(StrCat("sweep ", spec, " --vary=memory.budget_mib=0,0.01 --measured --repeats=1 --out=", out)), 1);
    EXPECT_THAT(out_, HasSubstr("no figures of budget_mib=0.01, measured: OUT_OF_MEMORY"));
    EXPECT_EQ(out_.find("note: 1 run of 2 of an earlier sweep") != std::string::npos, again) << out_;
  }
  for (const bool again : {false, true}) {  // what is predicted would be predicted again
    EXPECT_EQ(Run(StrCat("sweep ", spec, " --vary=memory.budget_mib=0,0.01 --predicted --out=", out)), 3);
    EXPECT_THAT(out_, HasSubstr("predicted: OUT_OF_MEMORY"));
    EXPECT_EQ(out_.find("note: 2 runs of 2 of an earlier sweep") != std::string::npos, again) << out_;
  }
}

// Whether no process has the file in its command line any more, within so many seconds.
bool EndsWithin(const std::string& file, int seconds) {
  for (int i = 0; i < 100 * seconds; ++i, usleep(10000)) {
    bool found = false;
    std::error_code gone;
    for (const auto& process : fs::directory_iterator("/proc", gone))
      found = found || ReadAll(process.path() / "cmdline").find(file) != std::string::npos;
    if (!found) return true;
  }
  return false;
}

TEST_F(Program, AKilledSweepGoesOn) {
  const std::string spec = Write("cnn.textproto", kCnn), out = At("sweep");
  const std::vector<std::string> words = {
      TWOFOLD_PROGRAM, "sweep", spec, "--vary=train.steps=3,2000000,4", "--repeats=1", StrCat("--out=", out)};
  for (const int signal : {SIGKILL, SIGTERM}) {
    test::Child child(words);
    const std::string running = out + "/train.steps=2000000/measured-1/asked.textproto";
    for (int i = 0; i < 4000 && !fs::exists(running); ++i) usleep(5000);
    ASSERT_TRUE(fs::exists(running));
    child.Signal(signal);
    EXPECT_EQ(child.Wait(), signal == SIGKILL ? 128 + SIGKILL : 1);
    if (signal == SIGTERM) {
      EXPECT_THAT(child.Output(), HasSubstr("the same command goes on from here"));
    }
    EXPECT_TRUE(EndsWithin(running, 20));  // the run that it had started
    fs::remove(running);
  }
  // with fewer steps the middle point ends; the first one is kept
  ASSERT_EQ(Run(StrCat("sweep ", spec, " --vary=train.steps=3,4 --repeats=1 --out=", out)), 0) << err_;
  EXPECT_THAT(out_, HasSubstr("note: 1 run of 2 of an earlier sweep"));
}

TEST_F(Program, RefusesSweepsThatCannotBe) {
  const std::string spec = Write("cnn.textproto", kCnn);
  const std::pair<std::string, const char*> kWrong[] = {
      {"", "--vary is missing"},
      {"--vary=parallel.dq=1,2", "did you mean dp?"},
      {"--vary=parallel.dp=1,,2", "use PATH=VALUE,VALUE"},
      {"--vary=parallel.dp=-1", "out of range"},
      {"--vary=parallel.dp=1 --vary=parallel.dp=2", "varied twice"},
      {"--vary=train.global_batch=16,32 --fixed=train.global_batch", "--fixed=train.global_batch: cannot stay"},
      {"--vary=parallel.dp=1,2 --predicted --repeats=3", "--repeats=3: is for measurements"},
      {"--vary=parallel.dp=1,2 --repeats=900", "more than 1000"},
      {"--vary=parallel.dp=1,2 --processes=-1", "--processes must be 0 or more (got -1)"},
      {"--vary=parallel.dp=1,2 --scalin=strong", "--scaling"},
      {StrCat("--vary=parallel.dp=1 --out=", spec), "--out"}};
  for (const auto& [arguments, says] : kWrong) {
    EXPECT_EQ(Run(StrCat("sweep ", spec, " ", arguments)), 2) << arguments;
    EXPECT_THAT(err_, HasSubstr(says)) << arguments;
    EXPECT_EQ(out_, "") << arguments;
  }
  EXPECT_EQ(Run(StrCat("sweep ", At("none.textproto"), " --vary=parallel.dp=1")), 2);
  EXPECT_THAT(err_, HasSubstr("none.textproto"));
}

}  // namespace program_sweep_test
}  // namespace twofold
