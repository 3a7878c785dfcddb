// How a simulated run ends when its user or its parent ends it: in order where ranks look, soon where they do not.
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <string>
#include <thread>

#include "backends/host/interrupt.h"
#include "backends/simulated/child.h"
#include "core/base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/deadline.h"
#include "tests/unit/simulated/failure_rig.h"

namespace twofold {
namespace interrupts_test {

using testing::Each;
using testing::HasSubstr;
using Code = absl::StatusCode;

class Interrupts : public FailureRig {};
INSTANTIATE_TEST_SUITE_P(, Interrupts, AllSettings(), NameOf);

// As senders do it: to the process, to all of its group, to every process of a job.
TEST_P(Interrupts, AnInterruptEndsTheRanksInOrder) {
  for (const int signal : {SIGINT, SIGTERM, SIGHUP}) {
    const auto before = std::signal(signal, SIG_DFL);  // nohup may have started the test
    const RunResult result = Run(2, [signal](RankContext& c) -> std::string {
      c.SetPartialResult("so far");
      if (c.rank() == 0) {
        for (const pid_t who : {getppid(), getppid(), getpid()}) {
          kill(who, signal);
          std::this_thread::sleep_for(std::chrono::milliseconds(20));
        }
        while (true) {
          c.CheckInterrupt();
          std::this_thread::yield();
        }
      }
      c.world().Barrier().Wait();
      return "";
    });
    EXPECT_EQ(result.status.code(), Code::kCancelled);
    EXPECT_EQ(Message(result), "rank 0: interrupted");
    EXPECT_THAT(result.results, Each("so far"));
    std::signal(signal, before);
  }
}

// By the parent and the child; another signal is passed on all the same.
TEST_P(Interrupts, AnIgnoredInterruptStaysIgnored) {
  const auto hang_up = std::signal(SIGHUP, SIG_IGN), interrupt = std::signal(SIGINT, SIG_IGN);
  const auto on_signal = [this](int signal) {
    return Run(1, [signal](RankContext& c) -> std::string {
      for (const pid_t who : {getppid(), getpid()}) kill(who, signal);
      while (signal == SIGTERM) c.CheckInterrupt();
      c.CheckInterrupt();
      return "";
    });
  };
  EXPECT_TRUE(on_signal(SIGHUP).status.ok());
  EXPECT_EQ(on_signal(SIGTERM).status.code(), Code::kCancelled);
  EXPECT_EQ(std::signal(SIGHUP, hang_up), SIG_IGN);
  EXPECT_EQ(std::signal(SIGINT, interrupt), SIG_IGN);
}

// Before there is a simulation to end: it is ended once there is one.
TEST_P(Interrupts, AnInterruptBeforeTheSimulationEndsIt) {
  const host::InterruptScope interrupt;
  kill(getpid(), SIGTERM);
  const RunResult result = Run(1, [](RankContext& c) -> std::string {
    while (true) c.CheckInterrupt();
  });
  EXPECT_EQ(result.status.code(), Code::kCancelled);
}

TEST_P(Interrupts, ASecondInterruptEndsARankThatLooksAfterNone) {
  const RunResult result = Run(2, [](RankContext& c) -> std::string {
    while (c.rank() == 0) {
      kill(getppid(), SIGINT);
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
    }
    return "";
  });
  EXPECT_EQ(result.status.code(), Code::kCancelled);
  EXPECT_EQ(Message(result), "interrupted twice: the simulation was ended at once");
}

// Two seconds in all, with what is then to be written; what ranks had done before is kept.
TEST(SimulatedInterrupt, EndsARankThatComputesOn) {
  const auto start = std::chrono::steady_clock::now();
  const RunResult result = RunRanks(
      {"Interrupted", kStar, spec::Simulated::SYMBOLIC}, 3,
      [](RankContext& c) -> std::string {
        c.SetPartialResult(StrCat("of the first step of rank ", c.rank()));
        if (c.rank() == 0) std::this_thread::sleep_for(std::chrono::milliseconds(300));
        c.world().Barrier().Wait();
        c.CheckInterrupt();
        c.world().Barrier().Wait();
        c.SetPartialResult("not between steps");
        if (c.rank() == 0) kill(getppid(), SIGTERM);
        for (std::atomic<int> work = 0; c.rank() == 0; ++work) {
        }
        c.world().Barrier().Wait();
        return "";
      },
      /*timeout_s=*/4);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(2));
  EXPECT_EQ(result.status.code(), Code::kCancelled) << result.status;
  EXPECT_THAT(Message(result), HasSubstr("interrupted: the simulation did not reach the end of a step within 1 s"));
  EXPECT_THAT(result.results, testing::ElementsAre("of the first step of rank 0", "of the first step of rank 1",
                                                   "of the first step of rank 2"));
}

// The system's own signal at a parent's death comes at the end of the thread that forked.
TEST(SimulatedChild, DoesNotEndWithTheThreadThatForkedIt) {
  int started[2], said[2];
  ASSERT_EQ(pipe(started), 0);
  ASSERT_EQ(pipe(said), 0);
  const pid_t parent = fork();
  if (parent == 0) {
    close(said[0]);
    std::thread forks([&] {
      (void)RunInChild([&] {
        for (const int end : {started[1], said[1]}) {
          if (write(end, ".", 1) != 1) _exit(1);
          std::this_thread::sleep_for(std::chrono::milliseconds(200));
        }
        return outcome::Outcome();
      });
    });
    char byte;
    if (read(started[0], &byte, 1) != 1) _exit(1);
    pthread_cancel(forks.native_handle());
    forks.join();
    close(said[1]);
    while (true) pause();
  }
  close(said[1]);
  char byte = 0;
  EXPECT_EQ(read(said[0], &byte, 1), 1) << "it has ended before it could say anything";
  kill(parent, SIGKILL);
  EXPECT_EQ(waitpid(parent, nullptr, 0), parent);
  for (const int end : {started[0], started[1], said[0]}) close(end);
}

TEST_P(Interrupts, TheSimulationDiesWithItsParent) {
  prctl(PR_SET_CHILD_SUBREAPER, 1);  // what the parent leaves behind comes to us
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const pid_t parent = fork();
  if (parent == 0) {
    close(ends[0]);
    Run(1, [&ends](RankContext&) -> std::string {
      const pid_t self = getpid();
      if (write(ends[1], &self, sizeof self) != sizeof self) _exit(1);
      while (true) std::this_thread::sleep_for(std::chrono::seconds(1));
    });
    _exit(0);
  }
  close(ends[1]);
  pid_t simulation = 0;
  ASSERT_EQ(read(ends[0], &simulation, sizeof simulation), static_cast<ssize_t>(sizeof simulation));
  kill(parent, SIGKILL);
  AwaitProcess(parent, "the parent");
  char byte;
  EXPECT_EQ(read(ends[0], &byte, 1), 0) << "its end of the pipe closes as it dies";
  const int status = AwaitProcess(simulation, "the simulation");
  EXPECT_TRUE(WIFSIGNALED(status));
  close(ends[0]);
  prctl(PR_SET_CHILD_SUBREAPER, 0);
}

}  // namespace interrupts_test
}  // namespace twofold
