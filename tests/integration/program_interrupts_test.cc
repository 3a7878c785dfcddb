// `twofold run` and `twofold bench` as they are interrupted or killed: they say so soon, report what was done, and
// leave no process behind.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "core/base/strings.h"
#include "tests/children.h"
#include "tests/integration/program.h"

namespace twofold {
namespace program_interrupts_test {

using ::testing::HasSubstr;

// An interrupted run reports what it has done.
class InterruptedProgram : public Program,
                           public ::testing::WithParamInterface<std::tuple<int, std::pair<const char*, const char*>>> {
};
INSTANTIATE_TEST_SUITE_P(
    Fabrics, InterruptedProgram,
    ::testing::Combine(::testing::Values(SIGINT, SIGTERM, SIGHUP),
                       ::testing::Values(std::pair("in_memory", "device=CPU"), std::pair("simulated", "device=CPU"),
                                         std::pair("in_memory", "device=EMULATED"),
                                         std::pair("in_memory", "train.validation={every_steps: 1 batch: 64}"))));

TEST_P(InterruptedProgram, ReportsWhatWasDone) {
  const auto& [signal, where] = GetParam();
  const std::string fabric = StrCat("--fabric=", where.first), set = StrCat("--set=", where.second);
  const std::string spec = Write("long.textproto",
                                 "model { mlp { inputs: 8 hidden: [16] classes: 4 } }\n"
                                 "train { steps: 2000000 micro_batch: 2 }\nparallel { dp: 2 }\n");
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    std::signal(signal, SIG_DFL);  // nohup may have started the test
    if (freopen(At("stderr").c_str(), "w", stderr) == nullptr || freopen(At("stdout").c_str(), "w", stdout) == nullptr)
      _exit(127);
    execl(TWOFOLD_PROGRAM, "twofold", "run", spec.c_str(), fabric.c_str(), set.c_str(),
          StrCat("--out=", At("run")).c_str(), nullptr);
    _exit(127);
  }
  AwaitThat([&] { return ReadAll(At("stderr")).find("step 1 of") != std::string::npos; }, "step 1");
  for (int i = 0; i < 2; ++i) kill(child, signal);  // as `timeout` does: to the process and to its group
  const int status = AwaitProcess(child, "twofold run");
  ASSERT_TRUE(WIFEXITED(status)) << status;
  EXPECT_EQ(WEXITSTATUS(status), 1) << ReadAll(At("stderr"));
  const nlohmann::json report = Report(At("run"));
  EXPECT_EQ(report["outcome"], "INTERRUPTED");
  EXPECT_GT(report["steps"].size(), 0u);
  EXPECT_LT(report["steps"].size(), 2000000u);
  EXPECT_EQ(report["ranks"].size(), 2u);
}

// ---- A simulation that takes minutes within one call ----

class LongSimulation : public Program {
 protected:
  LongSimulation() { prctl(PR_SET_CHILD_SUBREAPER, 1); }  // what the program leaves behind comes to this process
  ~LongSimulation() override { prctl(PR_SET_CHILD_SUBREAPER, 0); }

  // Starts it, and waits until its simulation, a child process, has begun.
  void Begin(const std::vector<std::string>& arguments) {
    std::vector<std::string> words = {TWOFOLD_PROGRAM};
    words.insert(words.end(), arguments.begin(), arguments.end());
    program_ = std::make_unique<test::Child>(words);
    const std::string children = StrCat("/proc/", program_->pid(), "/task/", program_->pid(), "/children");
    AwaitThat([&] { return !ReadAll(children).empty(); }, "the simulation's process");
  }
  // Its exit status, once signalled; with it ended what it had started. -1 or 0: not long before the simulation's end.
  // (It takes two seconds at most, unless the machine has much else to do.)
  int EndBy(int signal) {
    constexpr double kSeconds = 20;
    program_->Signal(signal);
    const int status = program_->Wait(kSeconds);
    pid_t left = 0;
    for (int waits = 0; waits < 2000 && (left = waitpid(-1, nullptr, WNOHANG)) == 0; ++waits)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    simulation_ended_ = left > 0;
    return left == 0 ? 0 : status;
  }

  std::unique_ptr<test::Child> program_;
  bool simulation_ended_ = false;  // as this process's child, since its parent had ended before
};

const std::vector<std::string> kLongBench = {
    "bench", "all_to_all", "--fabric=simulated", "--cluster=alps", "--ranks=2048", "-b", "1M", "-e", "1M"};

TEST_F(LongSimulation, EndsABenchSoonAfterAnInterrupt) {
  Begin(kLongBench);
  EXPECT_EQ(EndBy(SIGTERM), 1) << program_->Output();
  EXPECT_THAT(program_->Output(), HasSubstr("interrupted"));
}

// While SimGrid is being initialized, too.
TEST_F(LongSimulation, EndsABenchAtAnyMoment) {
  for (const int ms : {0, 1, 2, 4, 8, 16, 32}) {
    Begin(kLongBench);
    std::this_thread::sleep_for(std::chrono::milliseconds(ms));
    EXPECT_EQ(EndBy(SIGTERM), 1) << ms << " ms: " << program_->Output();
    EXPECT_THAT(program_->Output(), HasSubstr("interrupted")) << ms << " ms";
  }
}

TEST_F(LongSimulation, ReportsSoonAfterAnInterrupt) {
  const std::string spec = Write("long.textproto",
                                 "model { mlp { inputs: 8 hidden: [4096, 4096] classes: 4 } }\ntrain { steps: 20 "
                                 "micro_batch: 1 optimizer { sgd {} } }\n"
                                 "parallel { dp: 2048 }\nfabric { simulated { cluster: \"alps\" folding: OFF } }\n");
  Begin({"run", spec, StrCat("--out=", At("run"))});
  EXPECT_EQ(EndBy(SIGTERM), 1) << program_->Output();
  EXPECT_EQ(Report(At("run"))["outcome"], "INTERRUPTED");
}

TEST_F(LongSimulation, EndsWithAProgramThatIsKilled) {
  Begin(kLongBench);
  EXPECT_EQ(EndBy(SIGKILL), 128 + SIGKILL);
  EXPECT_TRUE(simulation_ended_);
}

}  // namespace program_interrupts_test
}  // namespace twofold
