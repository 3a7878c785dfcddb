// `twofold spec` and `init`, specs in JSON, files of settings, `doctor`; and what all commands share: --json, --quiet,
// --color, --notes.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "core/base/strings.h"
#include "tests/integration/program.h"

namespace twofold {
namespace program_spec_test {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;
using Json = nlohmann::json;

constexpr char kSmallJson[] = R"({
  "$schema": "spec.schema.json",
  "model": {"mlp": {"inputs": 8, "hidden": [16], "classes": 4}},
  "train": {"steps": 4, "micro_batch": 2},
  "parallel": {"dp": 2},
  "fabric": {"simulated": {"profile": "tests/integration/tiny.profile.textproto"}}
})";

TEST_F(Program, ExplainsTheFieldsOfASpec) {
  ASSERT_EQ(Run("spec train.micro_batch"), 0) << err_;
  EXPECT_EQ(out_, "train.micro_batch = 1  (whole number, from 1 to 65536)\n    samples per rank and micro-batch\n");
  ASSERT_EQ(Run("spec parallel"), 0) << err_;
  EXPECT_THAT(out_, StartsWith("parallel { }  (block)\n"));
  EXPECT_THAT(out_, HasSubstr("\nparallel.compression.top_k.density = 0.01  (number)\n"));
  ASSERT_EQ(Run("spec"), 0) << err_;
  const std::string all = out_;
  EXPECT_THAT(all, HasSubstr("\ntrace.ranks = 64  ("));
  ASSERT_EQ(Run("spec tectonic --json"), 0) << err_;
  EXPECT_EQ(Json::parse(out_)[0]["path"], "fabric.simulated.storage");
  ASSERT_EQ(Run("spec --schema"), 0) << err_;
  EXPECT_EQ(Json::parse(out_)["properties"]["train"]["properties"]["steps"]["default"], 20);
  ASSERT_EQ(Run("spec --proto"), 0) << err_;
  EXPECT_EQ(out_, ReadAll("core/proto/spec.proto"));
}

TEST_F(Program, RunsSpecsInJson) {
  const std::string json = Write("small.json", kSmallJson), text = Write("small.textproto", kSmall);
  ASSERT_EQ(Run(StrCat("run ", json, " --out=", At("json"))), 0) << err_;
  ASSERT_EQ(Run(StrCat("run ", text, " --out=", At("text"))), 0) << err_;
  EXPECT_EQ(ReadAll(At("json/spec.textproto")), ReadAll(At("text/spec.textproto")));
  EXPECT_EQ(ReadAll(At("json/report.json")), ReadAll(At("text/report.json")));
}

TEST_F(Program, TakesFilesOfSettings) {
  const std::string spec = Write("small.textproto", kSmall);
  const std::string more = Write("more.textproto", "train { steps: 6 }\nparallel { dp: 4 }\n");
  const std::string json = Write("last.json", R"({"train": {"steps": 8}})");
  ASSERT_EQ(Run(StrCat("run ", spec, " --check --set=@", more, " --set=@", json)), 0) << err_;
  EXPECT_THAT(out_, HasSubstr("4 ranks, 8 steps"));
  ASSERT_EQ(Run(StrCat("sweep ", spec, " --vary=train.seed=1,2 --set=@", more, " --json --out=", At("sweep"))), 0)
      << err_;
  EXPECT_THAT(ReadAll(At("sweep/sweep.json")), HasSubstr("\"ranks\": 4"));
}

TEST_F(Program, WritesAFirstSpecThatIsRight) {
  for (const char* options :
       {"", "--model=mlp-small", "--model=resnet18-cifar", "--model=llama3-8b --cluster=dgx-h100",
        "--model=mixtral-8x7b --cluster=dgx-a100", "--model=gpt2-124m --cluster=dgx-a100 --framework=MEGATRON"}) {
    const std::string file = At("first.textproto");
    ASSERT_EQ(Run(StrCat("init ", file, " ", options)), 0) << err_;
    EXPECT_EQ(out_, file + "\n");
    const std::string text = ReadAll(file);
    EXPECT_THAT(text, StartsWith("# proto-file: core/proto/spec.proto\n# proto-message: twofold.spec.Spec\n"));
    EXPECT_THAT(text, HasSubstr("\n  # samples per rank and micro-batch\n  micro_batch: "));
    EXPECT_EQ(Run(StrCat("run ", file, " --check")), 0) << options << err_;
    ASSERT_EQ(Run(StrCat("init ", options)), 0);
    EXPECT_EQ(out_, text) << "stdout has the same";
    EXPECT_EQ(Run(StrCat("init ", file)), 2) << "nothing is overwritten";
    EXPECT_THAT(err_, HasSubstr(StrCat(file, ": exists; init overwrites nothing")));
    fs::remove(file);
  }
}

// Fields that stand as comments are right, too.
TEST_F(Program, EveryFieldOfAFirstSpecCanBeUncommented) {
  ASSERT_EQ(Run("init"), 0) << err_;
  std::istringstream lines(out_);
  std::string text;
  int uncommented = 0;
  for (std::string line; std::getline(lines, line);) {
    const size_t at = line.find("# ");
    const std::string text_of = at == line.npos ? "" : line.substr(at + 2);
    const bool field = ::testing::internal::RE::FullMatch(text_of, "[a-z_]+( [{] .*[}]|: [-A-Z0-9.]+)");
    if (field && !text_of.starts_with("data {") && !text_of.starts_with("default"))
      line.erase(at, 2), ++uncommented;  // its file is not here
    text += line + "\n";
  }
  EXPECT_GE(uncommented, 5) << text;
  EXPECT_EQ(Run(StrCat("run ", Write("all.textproto", text), " --check")), 0) << err_ << text;
}

TEST_F(Program, DoctorLooksAtEverything) {
  const int status = Run("doctor --json");
  const Json json = Json::parse(out_);
  EXPECT_EQ(status, json["faults"] > 0 ? 1 : 0) << out_;
  std::vector<std::string> names;
  for (const Json& finding : json["findings"]) {
    names.push_back(finding["name"]);
    EXPECT_NE(finding["text"], "") << finding;
    EXPECT_TRUE(finding["kind"] != "FAULT" || finding["remedy"] != "") << finding;
  }
  EXPECT_THAT(names, ::testing::IsSupersetOf({"libraries", "fabric in_memory", "processor", "memory", "open files",
                                              "locked memory", "shared memory", "clock", "loopback", "current folder",
                                              "temporary folder", "profile", "launcher"}));
  EXPECT_THAT(out_, HasSubstr("libprotobuf "));
  RunShell(
      StrCat("WORLD_SIZE=2 RANK=5 LOCAL_RANK=0 ", TWOFOLD_PROGRAM, " doctor >", At("stdout"), " 2>", At("stderr")));
  EXPECT_THAT(ReadAll(At("stdout")), ::testing::ContainsRegex("\nfault  launcher +.*RANK"));
}

// Nothing but JSON on stdout.
TEST_F(Program, PrintsJsonWhereFiguresArePrinted) {
  const std::string spec = Write("small.textproto", kSmall);
  const std::string commands[] = {StrCat("run ", spec, " --json --out=", At("run")),
                                  StrCat("run ", spec, " --check --json"),
                                  StrCat("memory ", spec, " --json --out=", At("memory")),
                                  StrCat("predict ", spec, " --json"),
                                  "schedule GPIPE --json",
                                  "topology show dgx-h100 --nodes=1 --json",
                                  "list models --json",
                                  "list fabrics --json",
                                  "bench all_reduce -e 8 --json"};
  for (const std::string& command : commands) {
    ASSERT_EQ(Run(command), 0) << command << err_;
    EXPECT_FALSE(Json::parse(out_, nullptr, false).is_discarded()) << command << out_;
  }
  ASSERT_EQ(Run(commands[0]), 0);
  EXPECT_EQ(out_, ReadAll(At("run/report.json")));
  ASSERT_EQ(Run(StrCat("memory ", spec, " --set=memory.budget_mib=0.001 --json")), 3);
  EXPECT_TRUE(Json::parse(out_)["advice"].is_object()) << out_;
}

// The names of notes' kinds, of a prediction, a measurement, a sweep, a benchmark and a comparison.
TEST_F(Program, NamesTheKindsOfNotes) {
  const std::string spec = Write("small.textproto", kSmall);
  for (const char* fabric : {"simulated", "in_memory"}) {
    ASSERT_EQ(Run(StrCat("run ", spec, " --notes=full --fabric=", fabric, " --out=", At(fabric))), 0) << err_;
    const Json report = Json::parse(ReadAll(StrCat(At(fabric), "/report.json")));
    ASSERT_EQ(report["note_names"].size(), report["notes"].size());
    ASSERT_GT(report["notes"].size(), 0u);
    for (size_t i = 0; i < report["notes"].size(); ++i) {
      const std::string name = report["note_names"][i], note = report["notes"][i];
      EXPECT_NE(name, "other") << note;
      EXPECT_THAT(out_, HasSubstr(StrCat("note [", name, "]: ", note, "\n")));
    }
  }
  EXPECT_THAT(Json::parse(ReadAll(At("simulated/report.json")))["note_names"].dump(), HasSubstr("\"stand-in-losses\""));
  const std::string sweep = StrCat("sweep ", spec, " --predicted --vary=train.micro_batch=1,2 --out=", At("sweep"));
  ASSERT_EQ(Run(StrCat(sweep, " --notes=full")), 0) << err_;
  EXPECT_THAT(out_, HasSubstr("note [stand-in-losses]: data SYMBOLIC"));
  ASSERT_EQ(Run(StrCat(sweep, " --notes=none")), 0) << err_;
  EXPECT_THAT(out_, Not(HasSubstr("note")));
  EXPECT_THAT(ReadAll(At("sweep/sweep.txt")), HasSubstr("note [kept-runs]: 2 runs of 2 of an earlier sweep"));
  ASSERT_EQ(Run("bench all_reduce --fabric=simulated --cluster=dgx-a100 -b 1K -e 1K --json"), 0) << err_;
  const Json bench = Json::parse(out_);
  EXPECT_EQ(bench["note_names"].size(), bench["notes"].size());
  EXPECT_THAT(bench["note_names"].dump(), Not(HasSubstr("other"))) << bench["notes"];
  ASSERT_EQ(Run(StrCat("run ", spec, " --fabric=simulated --set=train.micro_batch=1 --out=", At("other"))), 0) << err_;
  ASSERT_EQ(Run(StrCat("compare ", At("simulated"), " ", At("other"), " --notes=full")), 0) << err_;
  EXPECT_THAT(out_, HasSubstr("Note [different-work]: the two runs did different work"));
  ASSERT_EQ(Run(StrCat("compare ", At("simulated"), " ", At("other"), " --notes=none")), 0) << err_;
  EXPECT_THAT(out_, Not(HasSubstr("Note")));
}

TEST_F(Program, IsQuietVerboseAndColouredAsAsked) {
  const std::string spec = Write("small.textproto", kSmall), out = StrCat(" --out=", At("run"));
  const std::string note = " --note='a remark of mine that is longer than most remarks: with details'";
  ASSERT_EQ(Run(StrCat("run ", spec, " -q", out, note)), 0) << err_;
  EXPECT_THAT(err_, IsEmpty());
  EXPECT_THAT(out_, HasSubstr("note: a remark of mine that is longer than most remarks ...\n"));
  EXPECT_THAT(out_, HasSubstr("--notes=full prints them whole"));
  for (const char* full : {" -v", " --notes=full"}) {
    ASSERT_EQ(Run(StrCat("run ", spec, full, out, note)), 0) << err_;
    EXPECT_THAT(out_, HasSubstr("note: a remark of mine that is longer than most remarks: with details\n"));
  }
  ASSERT_EQ(Run(StrCat("run ", spec, " --notes=none", out, note)), 0) << err_;
  EXPECT_THAT(out_, Not(HasSubstr("note: ")));
  EXPECT_THAT(ReadAll(At("run/report.json")),
              HasSubstr("a remark of mine that is longer than most remarks: with details"));
  EXPECT_EQ(Run(StrCat("run ", spec, " -q -v")), 2);

  ASSERT_EQ(Run("spec train.steps"), 0);
  EXPECT_THAT(out_, Not(HasSubstr("\033")));
  ASSERT_EQ(Run("spec train.steps --color=always"), 0);
  EXPECT_THAT(out_, HasSubstr("\033[1mtrain.steps\033[0m"));
  EXPECT_EQ(Run("run none --color=always"), 2);
  EXPECT_THAT(err_, HasSubstr("\033["));
  // auto, on a terminal
  if (RunShell("command -v script >/dev/null") != 0) return;
  for (const auto& [variables, coloured] : {std::pair("TERM=xterm", true), std::pair("TERM=xterm NO_COLOR=1", false)}) {
    RunShell(StrCat("env -u NO_COLOR ", variables, " script -qec '", TWOFOLD_PROGRAM, " spec train.steps' /dev/null >",
                    At("stdout"), " </dev/null"));
    EXPECT_EQ(ReadAll(At("stdout")).find("\033[1m") != std::string::npos, coloured) << variables;
  }
}

}  // namespace program_spec_test
}  // namespace twofold
