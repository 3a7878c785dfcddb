// How an MPI run ends when a rank fails: every process ends in time, the cause is named, nothing is left behind. Each case
// is a job of its own (scenario.cc).
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "backends/registry.h"
#include "core/base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace twofold {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;
using Code = absl::StatusCode;

constexpr double kTimeout = 3, kSlack = 9;  // seconds; starting and ending a job takes some on a busy machine

struct Outcome {
  int exit_status = -1;
  int code = -1;  // -1: nobody spoke
  std::string message, output;
  std::vector<std::string> results;
  double seconds = 0;
};

// A folder in which a job keeps its files; afterwards it must be empty, and no process may know it.
class Job {
 public:
  Job() {
    std::string name = (fs::temp_directory_path() / "twofold-mpi-XXXXXX").string();
    folder_ = mkdtemp(name.data());
    fs::create_directories(folder_ / "shared");
    fs::create_directories(folder_ / "session");
  }
  ~Job() { fs::remove_all(folder_); }

  Outcome Run(const std::string& scenario, int ranks, int interrupt_after_ms = 0) {
    const auto start = std::chrono::steady_clock::now();
    const pid_t child = fork();
    if (child == 0) Exec(scenario, ranks);
    if (interrupt_after_ms > 0) {
      std::this_thread::sleep_for(std::chrono::milliseconds(interrupt_after_ms));
      kill(child, SIGINT);
    }
    int status = 0;
    waitpid(child, &status, 0);
    Outcome outcome = Read();
    outcome.exit_status = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
    outcome.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    return outcome;
  }

  // Files of shared memory and processes, after a moment in which the launcher may still clean up.
  std::string LeftBehind() {
    std::string left;
    for (int tries = 0; tries < 40; ++tries) {
      left.clear();
      for (const auto& file : fs::directory_iterator(folder_ / "shared")) StrAppend(&left, file.path().string(), "\n");
      for (const auto& process : fs::directory_iterator("/proc")) {
        std::ifstream environment(process.path() / "environ", std::ios::binary);
        std::stringstream text;
        text << environment.rdbuf();
        if (text.str().find(folder_.string()) != std::string::npos) StrAppend(&left, process.path().string(), "\n");
      }
      if (left.empty()) return left;
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    return left;
  }

 private:
  [[noreturn]] void Exec(const std::string& scenario, int ranks) {
    const std::string out = (folder_ / "output").string();
    if (freopen(out.c_str(), "w", stdout) == nullptr || freopen(out.c_str(), "a", stderr) == nullptr) _exit(127);
    setenv("OMPI_MCA_btl_vader_backing_directory", (folder_ / "shared").c_str(), 1);
    setenv("OMPI_MCA_orte_tmpdir_base", (folder_ / "session").c_str(), 1);
    std::vector<std::string> words = FindBackend("mpi")->launcher(ranks);
    words.insert(words.end(), {TWOFOLD_SCENARIO, scenario, StrCat(ranks), StrCat(kTimeout)});
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    execvp(argv[0], argv.data());
    _exit(127);
  }
  Outcome Read() const {
    std::ifstream file(folder_ / "output");
    std::stringstream text;
    text << file.rdbuf();
    Outcome outcome{.output = text.str()};
    for (const absl::string_view line : absl::StrSplit(outcome.output, '\n')) {
      const std::vector<std::string> words = absl::StrSplit(line, absl::MaxSplits(' ', 1));
      if (words[0] == "code") outcome.code = std::stoi(words[1]);
      if (words[0] == "message") outcome.message = words[1];
      if (words[0] == "result") outcome.results.push_back(std::vector<std::string>(absl::StrSplit(words[1], absl::MaxSplits(' ', 1)))[1]);
    }
    return outcome;
  }
  fs::path folder_;
};

class MpiFailures : public testing::Test {
 protected:
  void SetUp() override {
    if (const Backend* mpi = FindBackend("mpi"); !mpi->why_not().empty()) GTEST_SKIP() << mpi->why_not();
  }
  Outcome ExpectFailure(const std::string& scenario, Code code, testing::Matcher<std::string> message, int ranks = 3) {
    Job job;
    const Outcome outcome = job.Run(scenario, ranks);
    EXPECT_EQ(outcome.code, static_cast<int>(code)) << outcome.output;
    EXPECT_THAT(outcome.message, message) << outcome.output;
    EXPECT_NE(outcome.exit_status, 0);
    EXPECT_LT(outcome.seconds, kTimeout + kSlack);
    EXPECT_EQ(job.LeftBehind(), "");
    return outcome;
  }
};

TEST_F(MpiFailures, NoneEndsWell) {
  for (const char* scenario : {"well", "well_in_flight"}) {
    Job job;
    const Outcome outcome = job.Run(scenario, 3);
    EXPECT_EQ(outcome.exit_status, 0) << outcome.output;
    EXPECT_EQ(outcome.code, 0);
    EXPECT_THAT(outcome.results, testing::ElementsAre("whole of 0", "whole of 1", "whole of 2"));
    EXPECT_EQ(job.LeftBehind(), "");
  }
}

// ---- A rank dies ----

constexpr char kCall[] = "all_reduce(sum) of f32[10] (40 bytes), collective ";

// Whether a rank is told in a call, where it is stuck, or between two is chance.
auto Partial(int rank) {
  return testing::AnyOf(StrCat("snapshot of ", rank), StrCat("part of ", rank));
}

TEST_F(MpiFailures, AnExceptionIsTheCause) {
  const Outcome outcome = ExpectFailure("throw", Code::kInternal, "rank 1: std::runtime_error: injected");
  EXPECT_THAT(outcome.results, testing::ElementsAre(Partial(0), "part of 1", Partial(2)));
}
TEST_F(MpiFailures, AnExceptionBesideUnfinishedWork) {
  ExpectFailure("throw_in_flight", Code::kInternal, "rank 1: std::logic_error: while in flight");
}
TEST_F(MpiFailures, WhatIsNoStdExceptionIsACauseToo) {
  ExpectFailure("throw_seven", Code::kInternal, HasSubstr("rank 1: an exception that is no std::exception"));
}
TEST_F(MpiFailures, ExitIsACause) {
  ExpectFailure("exit", Code::kInternal, AllOf(HasSubstr("rank 1: called exit(3)"), HasSubstr(kCall), HasSubstr("1 of group world")));
  ExpectFailure("exit_zero", Code::kInternal, HasSubstr("rank 1: called exit(0)"));
}
TEST_F(MpiFailures, AKilledRankIsNamedWithWhatTheOthersWereIn) {
  const Outcome outcome = ExpectFailure(
      "kill", Code::kUnavailable,
      AllOf(HasSubstr("lost rank 1: its process (process "), HasSubstr("has ended"), HasSubstr("rank 0, which is in "),
            HasSubstr("rank 2, which is in "), HasSubstr(StrCat(kCall, "2 of group world"))));
  EXPECT_THAT(outcome.results, testing::ElementsAre(Partial(0), "", Partial(2)));
}
TEST_F(MpiFailures, ACrashIsALoss) { ExpectFailure("abort", Code::kUnavailable, HasSubstr("lost rank 1")); }
TEST_F(MpiFailures, WhenRankZeroIsLostRankOneSpeaks) {
  const Outcome outcome = ExpectFailure("kill_first", Code::kUnavailable,
                                        AllOf(HasSubstr("lost rank 0: its process (process "), HasSubstr("rank 1, which is in "), HasSubstr(kCall)));
  EXPECT_THAT(outcome.results, testing::ElementsAre("", Partial(1), ""));
}

// ---- A rank hangs ----

TEST_F(MpiFailures, AHangTimesOutAndNamesWhoIsMissing) {
  ExpectFailure("hang", Code::kDeadlineExceeded,
                AllOf(HasSubstr(StrCat(kCall, "2 of group world has waited 3 s (fabric.timeout_s) for rank 1, which computes; its last call was ",
                                       kCall, "1 of group world"))));
}
TEST_F(MpiFailures, AStoppedProcessDoesNotAnswer) {
  ExpectFailure("stop", Code::kDeadlineExceeded, AllOf(HasSubstr(StrCat(kCall, "2")), HasSubstr("for rank 1, which does not answer")));
}
TEST_F(MpiFailures, ADeadlockShowsBothSides) {
  ExpectFailure("deadlock", Code::kDeadlineExceeded,
                AllOf(HasSubstr("send of f32[1048576] to rank 0, tag 3 (4194304 bytes), message 1 of group world"),
                      HasSubstr("send of f32[1048576] to rank 1, tag 3")), 2);
}
TEST_F(MpiFailures, ASplitThatNotAllMake) {
  ExpectFailure("split", Code::kDeadlineExceeded, testing::AnyOf(HasSubstr("split 1 of group world"), HasSubstr(kCall)));
}
TEST_F(MpiFailures, ReturningWhileOthersWait) {
  ExpectFailure("return_early", Code::kDeadlineExceeded,
                AllOf(HasSubstr(StrCat(kCall, "2 of group world has waited 3 s")), HasSubstr("for rank 1, whose function has returned")));
}

// ---- Ranks call different collectives ----

TEST_F(MpiFailures, MismatchesAreNamed) {
  struct Case {
    const char *scenario, *a, *b;
  };
  for (const Case& c : std::vector<Case>{
           {"kind", "rank 0 calls all_reduce(sum) of f32[8] (32 bytes)", "rank 1 calls all_gather of f32[12] (48 bytes)"},
           {"count", "rank 0 calls all_reduce(sum) of f32[10] (40 bytes)", "rank 1 calls all_reduce(sum) of f32[11] (44 bytes)"},
           {"count_large", "rank 0 calls all_reduce(sum) of f32[1000000]", "rank 1 calls all_reduce(sum) of f32[1000001]"},
           {"dtype", "rank 0 calls all_reduce(sum) of f32[4] (16 bytes)", "rank 1 calls all_reduce(sum) of i32[4] (16 bytes)"},
           {"op", "rank 0 calls all_reduce(sum)", "rank 1 calls all_reduce(max)"},
           {"order", "rank 0 calls all_reduce(sum) of f32[4] (16 bytes)", "rank 1 calls broadcast of f32[4] from root 0 (16 bytes)"}}) {
    SCOPED_TRACE(c.scenario);
    ExpectFailure(c.scenario, Code::kInvalidArgument,
                  AllOf(HasSubstr("collective mismatch in group world, collective 2"), HasSubstr(c.a), HasSubstr(c.b)));
  }
}
TEST_F(MpiFailures, MismatchOfRoot) {
  ExpectFailure("root", Code::kInvalidArgument,
                AllOf(HasSubstr("collective 1"), HasSubstr("rank 0 calls broadcast of f32[4] from root 0"), HasSubstr("from root 1")));
}
TEST_F(MpiFailures, MismatchOfCountsInAllToAllV) {
  ExpectFailure("all_to_all_v", Code::kInvalidArgument,
                AllOf(HasSubstr("rank 0 calls all_to_all_v sending 1 elements to rank 1"),
                      HasSubstr("rank 1 calls all_to_all_v expecting 3 elements from rank 0")));
}
TEST_F(MpiFailures, ACollectiveTooManyIsFoundAtTheEnd) {
  ExpectFailure("extra", Code::kInvalidArgument,
                AllOf(HasSubstr("collective 2: rank 0 calls broadcast of f32[4] from root 0 (16 bytes)"), HasSubstr("calls nothing more")));
}
TEST_F(MpiFailures, MessagesOfOtherSizes) {
  ExpectFailure("message_too_short", Code::kInvalidArgument,
                AllOf(HasSubstr("rank 1: recv of f32[10] from rank 0"), HasSubstr("a message of 36 bytes"), HasSubstr("40 were expected")));
  ExpectFailure("message_too_long", Code::kInvalidArgument,
                AllOf(HasSubstr("rank 1: recv of f32[10] from rank 0"), HasSubstr("more came than was expected")));
}
TEST_F(MpiFailures, SubGroupsAreNamedWithTheirRanks) {
  ExpectFailure("sub_group", Code::kInvalidArgument,
                AllOf(HasSubstr("collective mismatch in group half (ranks 0, 2), collective 1"), HasSubstr("rank 2 calls")), 4);
}

// ---- From outside ----

TEST_F(MpiFailures, AnInterruptOfTheLauncherIsReported) {
  Job job;
  const Outcome outcome = job.Run("forever", 3, 2500);
  EXPECT_EQ(outcome.code, static_cast<int>(Code::kCancelled)) << outcome.output;
  EXPECT_EQ(outcome.results.size(), 3u);
  EXPECT_NE(outcome.exit_status, 0);
  EXPECT_EQ(job.LeftBehind(), "");
}

}  // namespace
}  // namespace twofold
