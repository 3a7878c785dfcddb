// Processes that are there and say nothing: the kernel of a stopped one still answers for its connections.
#include <gmock/gmock.h>

#include <asio.hpp>
#include <csignal>

#include "backends/control/running_clock.h"
#include "tests/children.h"

namespace twofold::control {
namespace silence_test {

using std::chrono::seconds;
using test::Child;
using ::testing::AllOf;
using ::testing::HasSubstr;

constexpr int kProcesses = 3;
constexpr int kSilence = 4;  // seconds, in which a busy machine lets every process run

// Three processes whose run has begun.
class ARun {
 public:
  ARun() {
    auto words = [&](int rank) {
      return std::vector<std::string>{TWOFOLD_SCENARIO, StrCat(rank), StrCat(kProcesses), StrCat(kSilence)};
    };
    children_.push_back(std::make_unique<Child>(words(0)));
    EXPECT_TRUE(children_[0]->AwaitOutput("\n"));
    const std::string output = children_[0]->Output(), port = output.substr(5, output.find('\n') - 5);
    for (int rank = 1; rank < kProcesses; ++rank) {
      auto one = words(rank);
      one.push_back(port);
      children_.push_back(std::make_unique<Child>(one));
    }
    for (const auto& child : children_) EXPECT_TRUE(child->AwaitOutput("begun"));
  }
  Child& of(int rank) { return *children_[static_cast<size_t>(rank)]; }

 private:
  std::vector<std::unique_ptr<Child>> children_;
};

// Hub and inquest are tested by clocks of their tests; this is by the machine's, both at once.
TEST(Silence, OfAStoppedProcessAndOfAStoppedHubIsMissed) {
  ARun without_one, without_hub;
  const auto start = std::chrono::steady_clock::now();
  without_one.of(1).Signal(SIGSTOP);
  without_hub.of(0).Signal(SIGSTOP);

  for (int rank : {0, 2}) {
    Child& child = without_one.of(rank);
    EXPECT_EQ(child.Wait(), 0) << child.Output();
    EXPECT_THAT(child.Output(),
                HasSubstr(StrCat("verdict 14 lost rank 1: its process (process ", without_one.of(1).pid(), " on ")));
    EXPECT_THAT(child.Output(),
                HasSubstr("has sent no heartbeat for 4 s; it is stopped, or its host hangs or is unreachable"));
  }
  for (int rank : {1, 2}) {
    Child& child = without_hub.of(rank);
    EXPECT_EQ(child.Wait(), 0) << child.Output();
    EXPECT_THAT(
        child.Output(),
        AllOf(HasSubstr(StrCat("verdict 14 lost rank 0: its process (process ", without_hub.of(0).pid(), " on ")),
              HasSubstr("has sent no heartbeat for 4 s"), HasSubstr(StrCat("; rank ", rank))));
  }
  EXPECT_GE(std::chrono::steady_clock::now() - start, seconds(kSilence) * 3 / 4)
      << "the last sign of life may have been a while ago";
  without_hub.of(0).Signal(SIGCONT);  // and finds that the others have left
  EXPECT_EQ(without_hub.of(0).Wait(), 0) << without_hub.of(0).Output();
  EXPECT_THAT(without_hub.of(0).Output(), HasSubstr("verdict 14 lost rank "));
}

// More than rank 0 may have files open: those who say nothing have to go.
TEST(Strangers, WhoSayNothingKeepNoRunFromStarting) {
  const std::vector<std::string> few_files = {
      "/bin/sh", "-c", "ulimit -n 160; exec \"$@\"", "sh", TWOFOLD_SCENARIO, "0", "2", "8"};
  const Child zero(few_files);
  ASSERT_TRUE(zero.AwaitOutput("\n")) << zero.Output();
  const std::string output = zero.Output(), port = output.substr(5, output.find('\n') - 5);
  const asio::ip::tcp::endpoint hub(asio::ip::make_address("127.0.0.1"), static_cast<unsigned short>(std::stoi(port)));
  asio::io_context io;
  std::vector<asio::ip::tcp::socket> strangers;
  for (int i = 0; i < 250; ++i) strangers.emplace_back(io).connect(hub);
  const Child one({TWOFOLD_SCENARIO, "1", "2", "8", port});
  EXPECT_TRUE(zero.AwaitOutput("begun", 10)) << zero.Output();
}

TEST(RunningClock, StandsStillWhileTheProcessDoes) {
  const RunningClock::Time start{seconds(100)};
  RunningClock clock(start);
  clock.Look(start + std::chrono::milliseconds(20));
  EXPECT_EQ(clock.now(), start + std::chrono::milliseconds(20));
  clock.Look(start + seconds(3600));
  EXPECT_EQ(clock.now(), start + std::chrono::milliseconds(20) + RunningClock::kMostBetween);
  clock.Look(start + seconds(3600) + std::chrono::milliseconds(20));
  EXPECT_EQ(clock.now(), start + std::chrono::milliseconds(40) + RunningClock::kMostBetween);
}

}  // namespace silence_test
}  // namespace twofold::control
