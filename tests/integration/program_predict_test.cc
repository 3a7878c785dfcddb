// `twofold predict`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "core/base/strings.h"
#include "tests/integration/program.h"

namespace twofold {
namespace program_predict_test {

using ::testing::HasSubstr;
using ::testing::Not;

TEST_F(Program, PredictsEveryCombination) {
  const std::string spec = Write("s.textproto", kSmall);
  ASSERT_EQ(Run(StrCat("predict ", spec,
                       " --vary=parallel.dp=1,2,3 --vary=train.micro_batch=2,4 --json --set=train.global_batch=8")),
            0)
      << err_;
  const auto all = nlohmann::json::parse(out_);
  ASSERT_EQ(all.size(), 6U);
  for (size_t i = 0; i < all.size(); ++i) {
    EXPECT_EQ(all[i]["set"]["parallel.dp"], StrCat(i / 2 + 1));
    EXPECT_EQ(all[i]["set"]["train.micro_batch"], i % 2 == 0 ? "2" : "4");
    if (i / 2 == 2) {
      EXPECT_THAT(std::string(all[i]["error"]), HasSubstr("global_batch"));  // 3 ranks cannot share 8 samples
      continue;
    }
    const std::string set = StrCat(" --set=parallel.dp=", i / 2 + 1, " --set=train.micro_batch=", i % 2 == 0 ? 2 : 4,
                                   " --set=train.global_batch=8 --set=trace.enabled=false");
    ASSERT_EQ(Run(StrCat("run ", spec, set, " --quiet --out=", At("run"))), 0) << err_;
    const auto report = nlohmann::json::parse(ReadAll(At("run/report.json")));
    for (const char* figure : {"median_step_seconds", "low", "high", "tokens_per_second",
                               "exposed_communication_seconds", "mfu", "hfu", "world_size", "outcome"})
      EXPECT_EQ(all[i][figure], report[figure]) << figure << " of " << set;
    EXPECT_EQ(all[i]["peak_bytes"], report["ranks"][0]["peak_bytes"]);
    EXPECT_GT(all[i]["median_step_seconds"], 0);
  }
}

TEST_F(Program, PrintsPredictionsSideBySide) {
  const std::string spec = Write("s.textproto", kSmall);
  ASSERT_EQ(Run(StrCat("predict ", spec, " --vary=parallel.dp=1,3 --set=train.global_batch=8 --processes=1")), 0)
      << err_;
  EXPECT_THAT(out_, HasSubstr("dp  ranks  step time"));
  EXPECT_THAT(out_, HasSubstr("global_batch"));
  EXPECT_THAT(out_, HasSubstr("note: data SYMBOLIC"));
  EXPECT_THAT(out_, Not(HasSubstr("note: ranks are folded")));
  ASSERT_EQ(Run(StrCat("predict ", spec, " --vary=memory.budget_mib=1,1000 --set=model.mlp.hidden=4096")), 0) << err_;
  EXPECT_THAT(out_, HasSubstr("OUT_OF_MEMORY: "));
}

TEST_F(Program, RefusesToPredictWhatCannotBe) {
  const std::string spec = Write("s.textproto", kSmall);
  const std::pair<std::string, std::string> kWrong[] = {
      {"", "SPEC is missing"},
      {At("no.textproto"), "no.textproto"},
      {StrCat(spec, " --vary=parallel.dp"), "--vary=parallel.dp: use PATH=VALUE,VALUE"},
      {StrCat(spec, " --vary=parallel.dp=1,,2"), "use PATH=VALUE,VALUE"},
      {StrCat(spec, " --vary=parallel.dp=1 --vary=parallel.dp=2"), "parallel.dp is varied twice"},
      {StrCat(spec, " --vary=parallel.dq=1,2"), "dq"},
      {StrCat(spec, " --processes=-1"), "processes: -1: must be 0 or more"},
      {StrCat(spec, " --set=fabric.simulated.data=REAL --set=train.checkpoint={every_steps: 2}"),
       "a prediction writes and reads no files"},
      {StrCat(spec, " --set=fabric.simulated.cluster=no-such"), "no-such"}};
  for (const auto& [arguments, says] : kWrong) {
    const bool quoted = arguments.find('{') != std::string::npos;
    const size_t at = arguments.find("--set=train");
    EXPECT_EQ(Run(quoted ? StrCat("predict ", arguments.substr(0, at), "'", arguments.substr(at), "'")
                         : StrCat("predict ", arguments)),
              2)
        << arguments;
    EXPECT_THAT(err_, HasSubstr(says)) << arguments;
    EXPECT_EQ(out_, "") << arguments;
  }
}

// The rank that asks for it has other communication in flight, which is not what the message is about.
TEST_F(Program, SaysWhichCollectiveTheLibraryRefuses) {
  const std::string spec = Write("s.textproto",
                                 "model { gpt { layers: 2 hidden: 64 heads: 4 vocab: 256 sequence: 64 } }\n"
                                 "train { global_batch: 8 steps: 2 }\n"
                                 "parallel { tp: 2 cp: 2 dp: 2 sharding: FULL_SHARD sequence_parallel: true }\n"
                                 "fabric { simulated { cluster: \"summit\" algorithm: \"tree\" } }\n");
  EXPECT_NE(Run(StrCat("predict ", spec)), 0);
  EXPECT_THAT(out_ + err_, HasSubstr("fabric.simulated.algorithm: algorithm tree does not support "));
  EXPECT_THAT(out_ + err_, Not(HasSubstr("unfinished work")));
}

}  // namespace program_predict_test
}  // namespace twofold
