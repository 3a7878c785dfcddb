// How loaded a machine is, from recorded counters, and what calibration does about it.
#include "experiments/program/report/load.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <thread>

#include "backends/host/processor_use.h"
#include "core/base/strings.h"
#include "experiments/program/calibrate/disturbance.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/scratch_folder.h"

namespace twofold::calibrate {
namespace load_test {

// ---- Counters of the operating system, as files ----
struct RecordedCounters : ::testing::Test {
  void SetUp() override {
    std::filesystem::create_directories(proc + "/thread-self");
    for (const char* thread : {"7", "8"}) std::filesystem::create_directories(StrCat(proc, "/self/task/", thread));
  }
  void TearDown() override { std::filesystem::remove_all(proc); }
  // Nanoseconds as /proc/*/schedstat has them, hundredths of a second as /proc/stat has them.
  void Record(const std::string& own, const std::string& other, const std::string& all) {
    std::ofstream(proc + "/thread-self/schedstat") << own << "\n";
    std::ofstream(proc + "/self/task/7/schedstat") << own << "\n";
    std::ofstream(proc + "/self/task/8/schedstat") << other << "\n";
    std::ofstream(proc + "/stat") << all << "\ncpu0 1 2 3 4\n";
  }
  const std::string proc = test::ScratchFolder("recorded-counters");
};

TEST_F(RecordedCounters, AreReadForTheThreadItsProcessAndTheMachine) {
  Record("1000000000 500000000 10", "2000000000 3000000000 20", "cpu  100 10 20 5000 7 1 2 30 0 0");
  const host::ThreadCounter counter(proc);
  EXPECT_DOUBLE_EQ(counter.Read().ran, 1);
  EXPECT_DOUBLE_EQ(counter.Read().waited, 0.5);
  const host::ProcessorWatch watch(proc);
  Record("1250000000 600000000 11", "2000000000 3400000000 20", "cpu  200 15 40 5900 9 3 5 40 0 0");
  EXPECT_DOUBLE_EQ(counter.Read().waited, 0.6);
  const report::ProcessorUse use = watch.Use();
  EXPECT_EQ(use.process(), getpid());
  EXPECT_GT(use.wall(), 0);
  EXPECT_DOUBLE_EQ(use.ran(), 0.25);
  EXPECT_NEAR(use.waited(), 0.5, 1e-12) << "of both threads";
  const double a_tick_each = 0.01 * std::max(1u, std::thread::hardware_concurrency());
  EXPECT_NEAR(use.busy(), std::max(0.0, 1 + 0.05 + 0.2 + 0.02 + 0.03 - a_tick_each), 1e-9)
      << "not idle, and not waiting for a disk";
  EXPECT_NEAR(use.stolen(), 0.1, 1e-9);
}

TEST_F(RecordedCounters, ThatAreNotThereTellNothing) {
  const host::ProcessorWatch watch(proc);
  EXPECT_FALSE(watch.Use().has_wall());
  EXPECT_FALSE(LoadOf(std::vector<report::ProcessorUse>{watch.Use()}).has_taken());
  EXPECT_EQ(host::ThreadCounter(proc).Read().waited, 0);
}

TEST(ProcessorUse, OfThisMachineIsAddedToARanksRecord) {
  report::RankRecord record;
  record.add_notes("kept");
  const auto work = [&record] { return record.SerializeAsString(); };
  report::RankRecord with;
  ASSERT_TRUE(with.ParseFromString(host::WithProcessorUse(work)));
  EXPECT_EQ(with.notes(0), "kept");
  EXPECT_EQ(with.has_processors(), std::filesystem::exists("/proc/thread-self/schedstat"));
  EXPECT_EQ(host::WithProcessorUse([] { return std::string(); }), "") << "a rank that left nothing leaves nothing";
}

// ---- From counters to a load ----
report::ProcessorUse Use(int process, double wall, double ran, double waited, double process_ran, double busy,
                         double stolen = 0, std::string host = "a") {
  report::ProcessorUse use;
  use.set_host(std::move(host)), use.set_process(process), use.set_wall(wall), use.set_ran(ran), use.set_waited(waited);
  use.set_process_ran(process_ran), use.set_busy(busy), use.set_stolen(stolen);
  return use;
}

report::Load Of(const std::vector<report::ProcessorUse>& ranks) { return LoadOf(ranks); }

TEST(LoadOf, AnIdleMachineTakesNothing) {
  EXPECT_EQ(Of({Use(1, 10, 9, 0, 18, 18), Use(1, 10, 9, 0, 18, 18)}).taken(), 0);
  // Threads of the job itself wait for each other: no other work ran.
  EXPECT_NEAR(Of({Use(1, 10, 9, 5, 20, 20.1), Use(1, 10, 9, 5, 20, 20.1)}).taken(), 0.01, 1e-9);
}

TEST(LoadOf, IsWhatRanksWaitedButNeverMoreThanTheRestOfTheTime) {
  // Two busy loops beside two ranks on two cores; each rank's wait may hold up the other.
  const report::Load load = Of({Use(1, 30, 10, 20, 20, 60), Use(1, 30, 10, 20, 20, 60)});
  EXPECT_DOUBLE_EQ(load.taken(), 20.0 / 30);
  EXPECT_DOUBLE_EQ(load.others(), 40.0 / 30);
  EXPECT_DOUBLE_EQ(Of({Use(1, 30, 25, 20, 50, 110)}).taken(), 5.0 / 30) << "a rank computed for the rest";
  EXPECT_DOUBLE_EQ(Of({Use(1, 30, 10, 20, 20, 23)}).taken(), 3.0 / 30) << "other work ran no longer";
}

TEST(LoadOf, CountsProcessesOnceAndHostsApart) {
  // Two processes of two ranks each on host a, one on host b whose counters are its own.
  const report::Load load = Of({Use(1, 10, 4, 1, 8, 17), Use(1, 10, 4, 1, 8, 17), Use(2, 10, 4, 2, 8, 17),
                                Use(2, 10, 4, 2, 8, 17), Use(1, 10, 4, 0, 4, 5, 0, "b")});
  EXPECT_DOUBLE_EQ(load.others(), (17 - 16 + 5 - 4) / 10.0);
  EXPECT_DOUBLE_EQ(load.taken(), 2 / 10.0) << "3 s waited, 2 s of other work";
}

TEST(LoadOf, AHypervisorTakesItsShareOnTop) {
  const report::Load load = Of({Use(1, 10, 5, 2, 5, 9, 1)});
  EXPECT_DOUBLE_EQ(load.stolen(), 0.1);
  EXPECT_DOUBLE_EQ(load.taken(), 1 - 0.8 * 0.9);
  EXPECT_LE(Of({Use(1, 10, 0, 10, 0, 10, 10)}).taken(), kMostTaken);
}

// ---- What calibration does about it ----
report::Load Taken(double share) {
  report::Load load;
  load.set_taken(share), load.set_others(2 * share), load.set_stolen(0);
  return load;
}

struct LoadLogTest : ::testing::Test {
  // Measures as often as it is asked to: the shares one after the other, a second each; returns the number that is
  // kept.
  int Measure(std::vector<double> shares) {
    size_t next = 0;
    const auto kept = log.LeastDisturbed<int>(LoadLog::kJobs, "a job", [&]() -> absl::StatusOr<LoadLog::Outcome<int>> {
      const size_t i = next++;
      return LoadLog::Outcome<int>{static_cast<int>(i), 1.0, Taken(shares.at(i))};
    });
    measured = next;
    return *kept;
  }
  size_t measured = 0;
  std::vector<std::string> told;
  LoadLog log{Seconds(3), [this](const std::string& line) { told.push_back(line); }};
};

TEST_F(LoadLogTest, MeasuresOnceWhatWasNotDisturbed) {
  EXPECT_EQ(Measure({0.04}), 0);
  EXPECT_EQ(measured, 1u);
  const profile::Load load = log.Sum({1});
  EXPECT_DOUBLE_EQ(load.taken(), 0.04);
  EXPECT_DOUBLE_EQ(load.kept(), 0.04);
  EXPECT_EQ(load.repeated(), 0);
  EXPECT_TRUE(told.empty());
}

TEST_F(LoadLogTest, MeasuresAgainWhatWasDisturbedUntilItIsNot) {
  EXPECT_EQ(Measure({0.5, 0.01}), 1);
  const profile::Load load = log.Sum({1});
  EXPECT_DOUBLE_EQ(load.taken(), 0.51 / 2);
  EXPECT_DOUBLE_EQ(load.kept(), 0.01);
  EXPECT_EQ(load.repeated(), 1);
  EXPECT_DOUBLE_EQ(load.others(), 0.51);
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0], "  a job: delayed by other work by up to 50 % of its time; repeating it (1 of 2)");
}

TEST_F(LoadLogTest, KeepsTheLeastDisturbedOfABoundedNumber) {
  EXPECT_EQ(Measure({0.5, 0.2, 0.4}), 1);
  EXPECT_EQ(measured, 3u);
  EXPECT_DOUBLE_EQ(log.Sum({1}).kept(), 0.2);
}

TEST_F(LoadLogTest, SpendsNoMoreThanItsBudget) {
  Measure({0.5, 0.5, 0.5});
  Measure({0.5, 0.5, 0.5});
  EXPECT_EQ(measured, 2u) << "three repetitions of a second each in all";
  Measure({0.5});
  EXPECT_THAT(told.back(), ::testing::HasSubstr("no time is left"));
  EXPECT_EQ(log.Sum({1}).repeated(), 3);
}

TEST_F(LoadLogTest, SumsUpTheWorstKindAndTheFixedKernelsSpread) {
  Measure({0.1, 0.02});
  log.Add(LoadLog::kKernels, {.seen = {10, 4}, .kept = {8, 0.8}, .repeated = 31}, Taken(0.3));
  const profile::Load load = log.Sum({1.0, 1.2, 0.9, 1.0, 1.0});
  EXPECT_DOUBLE_EQ(load.taken(), 0.4);
  EXPECT_DOUBLE_EQ(load.kept(), 0.1);
  EXPECT_EQ(load.repeated(), 32);
  EXPECT_DOUBLE_EQ(load.fixed_low(), 0.9);
  EXPECT_DOUBLE_EQ(load.fixed_high(), 1.2);
}

TEST(LoadLogOfAnUnknownSystem, SaysNothing) {
  LoadLog log(Seconds(1), nullptr);
  const auto kept = log.LeastDisturbed<int>(LoadLog::kLinks, "links", []() -> absl::StatusOr<LoadLog::Outcome<int>> {
    return LoadLog::Outcome<int>{5, 0, {}};
  });
  EXPECT_EQ(*kept, 5);
  EXPECT_FALSE(log.Sum({1}).has_taken());
}

}  // namespace load_test
}  // namespace twofold::calibrate
