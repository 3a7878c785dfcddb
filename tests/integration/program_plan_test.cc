// `twofold plan`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "core/base/strings.h"
#include "tests/integration/program.h"

namespace twofold {
namespace program_plan_test {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

// What it fixes leaves some dozens of layouts.
constexpr char kJob[] =
    "model { gpt { layers: 2 hidden: 64 heads: 4 vocab: 256 sequence: 64 } }\n"
    "train { global_batch: 4 micro_batch: 1 steps: 100 precision { parameter: BF16 } }\n"
    "parallel { cp: 1 offload: NO_OFFLOAD bucket_mib: 25 }\n"
    "fabric { simulated { cluster: \"dgx-h100\" } }\n";

TEST_F(Program, PlansAndGoesOnFromItsJournal) {
  const std::string spec = Write("job.textproto", kJob), plan = StrCat("plan ", spec, " --ranks=2 --gap=0 --top=2 ");
  ASSERT_EQ(Run(StrCat(plan, "--json --out=", At("out"))), 0) << err_;
  const auto json = nlohmann::json::parse(out_);
  EXPECT_EQ(json, nlohmann::json::parse(ReadAll(At("out/plan.json"))));
  EXPECT_TRUE(json["proven"]);
  EXPECT_EQ(json["legal"].get<int64_t>(), json["do_not_fit"].get<int64_t>() + json["slower"].get<int64_t>() +
                                              json["simulated"].get<int64_t>() + json["open"].get<int64_t>());
  ASSERT_EQ(json["layouts"].size(), 2U);
  EXPECT_LE(json["layouts"][0]["seconds"], json["layouts"][1]["seconds"]);
  // The winner's spec is one that `run` predicts to take as long; it keeps what the user said.
  EXPECT_THAT(ReadAll(At("out/spec.textproto")), HasSubstr("steps: 100"));
  ASSERT_EQ(Run(StrCat("predict ", At("out/spec.textproto"), " --json --set=train.steps=4")), 0) << err_;
  const double seconds = json["layouts"][0]["seconds"];  // of an earlier step
  EXPECT_NEAR(nlohmann::json::parse(out_)[0]["median_step_seconds"], seconds, 1e-12 * seconds);
  // Again, from the journal: nothing is simulated any more.
  const std::string journal = ReadAll(At("out/journal.jsonl"));
  ASSERT_EQ(Run(StrCat(plan, "--price=2 --out=", At("out"))), 0) << err_;
  EXPECT_EQ(ReadAll(At("out/journal.jsonl")), journal);
  EXPECT_THAT(out_, HasSubstr("Proven: no layout of this space is faster"));
  EXPECT_THAT(out_, HasSubstr("price/1e9 tokens"));
  EXPECT_THAT(out_, HasSubstr("The first against the second ("));
  ASSERT_EQ(Run(StrCat("plan ", spec, " --ranks=4 --out=", At("out"))), 2);
  EXPECT_THAT(err_, HasSubstr("is the journal of another plan"));
}

TEST_F(Program, MessagesComeAfterTheResultsThatWereThereBefore) {
  const std::string spec = Write("job.textproto", kJob);
  ASSERT_EQ(RunShell(StrCat(TWOFOLD_PROGRAM, " plan ", spec, " --ranks=2 >", At("both"), " 2>&1")), 0);
  EXPECT_THAT(ReadAll(At("both")), ContainsRegex("Proven: no layout.*\ntwofold: info: the plan took"));
}

// Each is the plan that one would make for the changed job.
TEST_F(Program, PlansForWhatMightChange) {
  // One process: how many layouts are simulated before the rest cannot win depends on which of several ends first.
  const std::string plan = StrCat("plan ", Write("job.textproto", kJob),
                                  " --set=fabric.simulated.cluster=star-h100 --json --processes=1 --ranks=");
  ASSERT_EQ(Run(plan + "2 --what-if"), 0) << err_;
  const auto both = nlohmann::json::parse(out_)["what_if"];
  ASSERT_EQ(both.size(), 2U);
  const char* const others[] = {"2 --set=fabric.simulated.network.background=0.5", "4"};
  for (size_t i = 0; i < 2; ++i) {
    ASSERT_EQ(Run(plan + others[i]), 0) << err_;
    const auto json = nlohmann::json::parse(out_);
    EXPECT_EQ(both[i]["text"], json["layouts"][0]["text"]) << others[i];
    EXPECT_EQ(both[i]["seconds"], json["layouts"][0]["seconds"]) << others[i];
    EXPECT_EQ(both[i]["proof"], json["proof"]) << others[i];
  }
  EXPECT_EQ(both[0]["name"], "half the network's bandwidth");
  EXPECT_EQ(both[1]["name"], "twice the nodes");
}

// MEGATRON keeps rounded weights where a layout lets it; those that gather them are legal nevertheless. Who asks for it
// is told which layouts cannot.
TEST_F(Program, PlansFp8OfAFrameworkThatKeepsWeights) {
  const std::string plan =
      StrCat("plan ", Write("job.textproto", kJob), " --ranks=2 --json --set=train.precision.matmul=FP8 ");
  ASSERT_EQ(Run(StrCat(plan, "--framework=MEGATRON --out=", At("fp8"))), 0) << err_;
  const nlohmann::json json = nlohmann::json::parse(out_);
  EXPECT_THAT(json["refused"].dump(), Not(HasSubstr("keep_weights")));
  const auto predict = [&](const char* more) {
    EXPECT_EQ(Run(StrCat("predict ", At("fp8/spec.textproto"), " --json --set=train.steps=4", more)), 0) << err_;
    return nlohmann::json::parse(out_)[0]["median_step_seconds"].get<double>();
  };
  const double seconds = json["layouts"][0]["seconds"];
  EXPECT_NEAR(predict(""), seconds, 1e-12 * seconds);
  EXPECT_GT(predict(" --set=train.precision.fp8.keep_weights=false"), (1 + 1e-6) * seconds);
  ASSERT_EQ(Run(plan + "--set=train.precision.fp8.keep_weights=true"), 0) << err_;
  EXPECT_THAT(nlohmann::json::parse(out_)["refused"].dump(), HasSubstr("keep_weights"));
}

TEST_F(Program, SaysThatNoLayoutFits) {
  const std::string spec = Write("job.textproto", StrCat(kJob, "memory { budget_mib: 0.5 }\n"));
  ASSERT_EQ(Run(StrCat("plan ", spec, " --ranks=2")), 3) << err_;
  EXPECT_THAT(out_, HasSubstr("No layout fits: of "));
  EXPECT_THAT(out_, HasSubstr("The closest is "));
  EXPECT_THAT(out_, HasSubstr(" more than a device has; most are "));
}

TEST_F(Program, SaysWhatABudgetLeavesOpen) {
  const std::string spec = Write("job.textproto", kJob);
  ASSERT_EQ(Run(StrCat("plan ", spec, " --ranks=2 --budget=0.000001s")), 1) << err_;
  EXPECT_THAT(out_, HasSubstr("The budget ended before a layout that fits was found: of "));
  EXPECT_THAT(out_, HasSubstr("  such as parallel.virtual_stages: parallel.pp * virtual_stages = 2 * "));
  EXPECT_THAT(out_, HasSubstr(" are left open, 0 layouts were simulated"));
  EXPECT_THAT(out_, HasSubstr("Give it more time, or fix more fields"));
}

TEST_F(Program, RefusesToPlanWhatCannotBe) {
  const std::string spec = Write("job.textproto", kJob);
  const std::pair<std::string, std::string> kWrong[] = {
      {"", "SPEC or --model is missing"},
      {"--model=tests/data/topologies/dgx-1v.nccl.xml --nodes=1",
       "is a file, and --model takes a name of `twofold list models`"},
      {StrCat(spec, " --model=gpt2-124m --ranks=2"), "SPEC has a model"},
      {"--model=gpt2-125m --cluster=dgx-h100 --ranks=2 --global-batch=8", "\"gpt2-125m\" is not a preset"},
      {"--model=gpt2-124m --cluster=dgx-h100 --ranks=2", "train.global_batch: is missing"},
      {"--model=gpt2-124m --cluster=dgx-h100 --global-batch=8", "fabric.simulated.nodes: is missing"},
      {"--model=gpt2-124m --cluster=dgx-x100 --ranks=2 --global-batch=8", "dgx-x100"},
      {"--model=resnet18 --cluster=dgx-h100 --ranks=2 --global-batch=8 --sequence=4", "the model has no sequences"},
      {StrCat(spec, " --ranks=2 --gap=-1"), "--gap=-1: use a share"},
      {StrCat(spec, " --ranks=2 --gap=some"), "--gap=some: use a share"},
      {StrCat(spec, " --ranks=2 --budget=soon"), "--budget=soon: use a time above 0"},
      {StrCat(spec, " --ranks=2 --top=0"), "--top must be at least 1 (got 0)"},
      {StrCat(spec, " --ranks=2 --processes=-1"), "--processes must be at least 0 (got -1)"},
      {StrCat(spec, " --ranks=2 --price=-1"), "--price must be at least 0 (got -1)"},
      {StrCat(spec, " --ranks=-2"), "--ranks: -2 is out of range"},
      {StrCat(spec, " --ranks=2 --codecs=zip"), "--codecs: \"zip\" is not a codec"},
      {StrCat(spec, " --ranks=2 --set=parallel.tp=3"), "no product of the given tp, pp, cp and dp is 2 ranks"},
      {StrCat(spec, " --ranks=2 --set=train.micro_batch=3"), "none of "},
      {StrCat(spec, " --ranks=2 --set=train.elastic={}"), "train.elastic: only runs of a fixed size are planned"},
      {StrCat(spec, " --ranks=2 --set=fabric.simulated.data=REAL"), "REAL computes everything; use SYMBOLIC"}};
  for (const auto& [arguments, says] : kWrong) {
    EXPECT_EQ(Run(StrCat("plan ", arguments)), 2) << arguments << out_;
    EXPECT_THAT(err_, ::testing::StartsWith("twofold: error: ")) << arguments;
    EXPECT_THAT(err_, HasSubstr(says)) << arguments;
  }
}

}  // namespace program_plan_test
}  // namespace twofold
