// The built program as a user meets it: help, what it does not know, where its results go.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <utility>

#include "core/base/strings.h"
#include "tests/integration/program.h"

namespace twofold {
namespace program_test {

using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

TEST_F(Program, TeachesWithoutArgumentsAndWithHelp) {
  EXPECT_EQ(Run(""), 2);
  EXPECT_EQ(Run("--help"), 0);
  EXPECT_THAT(out_, HasSubstr("tour"));
  EXPECT_THAT(out_, HasSubstr("Exit status: "));
  for (const char* command :
       {"run",           "memory",          "compare",         "quickstart",   "bench",        "list",
        "list models",   "list clusters",   "list strategies", "list fabrics", "list devices", "calibrate",
        "launch",        "report",          "schedule",        "storm",        "topology",     "topology show",
        "topology list", "topology import", "topology export", "help",         "completion",   "man"}) {
    EXPECT_EQ(Run(StrCat(command, " --help")), 0) << command;
    EXPECT_THAT(out_, HasSubstr("  twofold ")) << command << " shows no example";
    EXPECT_THAT(out_, HasSubstr("Exit status: ")) << command;
    EXPECT_THAT(out_, Not(HasSubstr("tour"))) << command << " tells of all commands, not of itself";
  }
}

// What run --help shows of a spec and of --set is so.
TEST_F(Program, TeachesWhatASpecIs) {
  const std::string spec = Write("least.textproto", "model { preset: \"gpt2-124m\" }\n");
  EXPECT_EQ(Run(StrCat("run --check ", spec)), 0) << err_;
  EXPECT_EQ(Run(StrCat("run --check ", spec, " '--set=parallel={dp: 2 tp: 2}'")), 0) << err_;
  EXPECT_THAT(out_, HasSubstr("4 ranks"));
  EXPECT_EQ(Run(StrCat("run --set train.steps=3 ", spec, " --check")), 0) << "--set takes one word: " << err_;
  EXPECT_THAT(out_, HasSubstr("3 steps"));
  EXPECT_EQ(Run(StrCat("memory ", spec, " --set=model.preset=gpt2-350m --set=model.gpt.layers=2")), 0) << err_;
  EXPECT_EQ(Run("run --help"), 0);
  EXPECT_THAT(out_, HasSubstr("model { preset: \"gpt2-124m\" }"));
  EXPECT_THAT(out_, HasSubstr("SIGTERM"));
}

TEST_F(Program, NamesArgumentsInUsageLines) {
  const std::pair<const char*, const char*> kUsage[] = {{"report", "report [OPTIONS] DIR..."},
                                                        {"topology show", "show [OPTIONS] CLUSTER"},
                                                        {"topology import", "import [OPTIONS] FILE"},
                                                        {"schedule", "schedule [OPTIONS] [NAME...]"},
                                                        {"memory", "1 the prediction fails"},
                                                        {"storm", "storm [OPTIONS] SPEC"},
                                                        {"bench", "  OPERATION               all_reduce, all_gather,"}};
  for (const auto& [command, usage] : kUsage) {
    EXPECT_EQ(Run(StrCat(command, " --help")), 0) << command;
    EXPECT_THAT(out_, HasSubstr(usage)) << command;
  }
}

TEST_F(Program, StatesItsVersion) {
  EXPECT_EQ(Run("--version"), 0);
  EXPECT_THAT(out_, ContainsRegex("^twofold 0\\.[0-9]+\ncommit: ([0-9a-f]{12}(-dirty)?|unknown)\ncompiler: "));
  EXPECT_THAT(out_, ContainsRegex("\nfabrics: in_memory"));
  EXPECT_THAT(out_, ContainsRegex("\ndevices: CPU, EMULATED"));
}

TEST_F(Program, RefusesWhatItDoesNotKnow) {
  const std::pair<const char*, const char*> kWrong[] = {
      {"jog", "unknown command \"jog\"; known: run, predict, "},
      {"shedule", "unknown command \"shedule\"; did you mean schedule?"},
      {"rnu", "unknown command \"rnu\"; did you mean run?"},
      {"", "no command is given; use one of run, predict, "},
      {"run", "SPEC is required; see twofold run --help"},
      {"run a.textproto --frabic=simulated",
       "unknown option --frabic; did you mean --fabric? (known: --help, --fabric, --set, "},
      {"run --frabic=simulated", "unknown option --frabic; did you mean --fabric?"},
      {"run a.textproto b.textproto", "unexpected argument \"b.textproto\"; see twofold run --help"},
      {"--fast run a.textproto",
       "unknown option --fast; known: --help, --version, --color, --quiet, --verbose; see twofold --help"},
      {"list", "list: no subcommand is given; use one of models, clusters, strategies, fabrics, devices"},
      {"list flowers", "list: unknown subcommand \"flowers\"; known: models, clusters"},
      {"topology draw",
       "topology: unknown subcommand \"draw\"; known: show, list, import, export; see twofold topology --help"},
      {"launch --ranks=abc -- run x", "--ranks must be a whole number (got \"abc\"); see twofold launch --help"},
      {"launch --ranks=2 --grace=soon -- run x", "--grace must be a number (got \"soon\")"},
      {"launch --ranks", "--ranks needs a whole number, as in --ranks=N"},
      {"bench all_reduce -n x", "--iters must be a whole number (got \"x\")"}};
  for (const auto& [arguments, says] : kWrong) {
    EXPECT_EQ(Run(arguments), 2) << arguments;
    EXPECT_THAT(err_, ::testing::StartsWith("twofold: error: ")) << arguments;
    EXPECT_THAT(err_, HasSubstr(says)) << arguments;
    EXPECT_THAT(out_, IsEmpty()) << arguments;
  }
}

TEST_F(Program, FailsWhereItsResultsCannotBeWritten) {
  const std::string spec = Write("small.textproto", kSmall);
  for (const std::string& command :
       {StrCat("run ", spec, " --quiet --out=", At("run")), std::string("list models"), std::string("list fabrics"),
        std::string("bench all_reduce -e 8"), std::string("schedule GPIPE"), std::string("topology list"),
        std::string("topology export dgx-h100 --nodes=1 --to=dot"), StrCat("memory ", spec),
        std::string("run --help")}) {
    const int status = RunShell(StrCat(TWOFOLD_PROGRAM, " ", command, " >/dev/full 2>", At("stderr")));
    EXPECT_EQ(WEXITSTATUS(status), 1) << command;
    EXPECT_THAT(ReadAll(At("stderr")), HasSubstr("error: stdout: cannot be written")) << command;
  }
  EXPECT_THAT(ReadAll(At("stderr")), HasSubstr("cannot be written: No space left on device"));
  EXPECT_TRUE(fs::exists(At("run/report.json")));
  for (const char* pipe : {"", "trap '' PIPE; "}) {  // who reads no further has seen enough
    RunShell(StrCat("(", pipe, TWOFOLD_PROGRAM, " list models 2>", At("stderr"), ") | head -1 >/dev/null"));
    EXPECT_THAT(ReadAll(At("stderr")), IsEmpty()) << pipe;
  }
}

// A reader who has gone has seen enough, whichever write finds that out.
TEST_F(Program, HasNothingToSayOfAReaderWhoHasGone) {
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    int ends[2];
    std::signal(SIGPIPE, SIG_IGN);
    if (pipe(ends) != 0 || dup2(ends[1], STDOUT_FILENO) < 0 || freopen(At("stderr").c_str(), "w", stderr) == nullptr)
      _exit(127);
    for (const int end : ends) close(end);
    execl(TWOFOLD_PROGRAM, "twofold", "topology", "export", "dgx-h100", "--nodes=4", "--to=dot",
          nullptr);  // some 130 KB
    _exit(127);
  }
  const int status = AwaitProcess(child, "twofold topology export");
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
  EXPECT_THAT(ReadAll(At("stderr")), IsEmpty());
}

TEST_F(Program, ListsWhatASpecCanName) {
  EXPECT_EQ(Run("list models"), 0);
  EXPECT_THAT(out_, HasSubstr("405,853,388,800 parameters"));
  EXPECT_THAT(out_, HasSubstr("gpt2-124m"));
  EXPECT_EQ(Run("list clusters"), 0);
  EXPECT_THAT(out_, HasSubstr("this-machine"));
  EXPECT_EQ(Run("list strategies"), 0);
  EXPECT_THAT(out_, HasSubstr("NO_SHARD"));
  EXPECT_EQ(Run("list fabrics"), 0);
  EXPECT_THAT(out_, HasSubstr("in_memory"));
  EXPECT_THAT(out_, HasSubstr("simulated"));
  const std::string fabrics = out_, nccl = fabrics.substr(fabrics.find("\nnccl\n"));
  EXPECT_EQ(Run("list devices"), 0);
  if (out_.find("not available") != std::string::npos) {  // without a GPU: CUDA
    EXPECT_THAT(nccl, HasSubstr("not available: "));
    EXPECT_EQ(Run("bench all_reduce --fabric=nccl"), 2);
    EXPECT_THAT(err_, Not(HasSubstr("use CPU")));
  }
  EXPECT_EQ(Run("list"), 2);
}

}  // namespace program_test
}  // namespace twofold
