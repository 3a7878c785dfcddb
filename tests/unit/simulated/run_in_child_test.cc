// The way of an outcome from the simulation's process to its parent.
#include "backends/simulated/child.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace twofold {
namespace run_in_child_test {

using testing::AllOf;
using testing::HasSubstr;
using Code = absl::StatusCode;

// One string in many places: what it would take is told without having it.
TEST(RunInChild, RefusesAnOutcomeThatIsTooLargeForAMessage) {
  const auto outcome = RunInChild([] {
    auto* const megabyte = new std::string(1 << 20, 'x');
    outcome::Outcome large;
    for (int i = 0; i < 2200; ++i) large.mutable_results()->UnsafeArenaAddAllocated(megabyte);
    large.set_code(0);
    return large;
  });
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(outcome->code(), static_cast<int>(Code::kInternal));
  EXPECT_THAT(outcome->message(), AllOf(HasSubstr("the simulation's outcome takes 23068"),
                                        HasSubstr("trace fewer ranks or steps (trace.ranks, trace.last_steps)")));
}

// Writes to the pipe in the place of the outcome, and ends well. Pipes that this process was started with do not close
// on exec.
outcome::Outcome LeaveInPipe(std::string_view bytes) {
  for (int fd = 3; fd < 256; ++fd) {
    struct stat what;
    const bool own = (fcntl(fd, F_GETFD) & FD_CLOEXEC) != 0;
    if (own && fstat(fd, &what) == 0 && S_ISFIFO(what.st_mode) && (fcntl(fd, F_GETFL) & O_ACCMODE) == O_WRONLY)
      (void)!write(fd, bytes.data(), bytes.size());
  }
  _exit(0);
}

TEST(RunInChild, RefusesAnOutcomeThatIsCutShortOrNone) {
  EXPECT_THAT(std::string(RunInChild([] { return LeaveInPipe("."); }).status().message()),
              HasSubstr("is truncated: 1 bytes"));
  const std::string cut({'\7', 0, 0, 0, 0, 0, 0, 0, 'x', '.'});
  EXPECT_THAT(std::string(RunInChild([&] { return LeaveInPipe(cut); }).status().message()),
              HasSubstr("is truncated: 10 bytes of 15"));
  const std::string garbage({'\2', 0, 0, 0, 0, 0, 0, 0, '\377', '.'});
  EXPECT_THAT(std::string(RunInChild([&] { return LeaveInPipe(garbage); }).status().message()),
              HasSubstr("2 bytes that are not a complete twofold.outcome.Outcome"));
}

}  // namespace run_in_child_test
}  // namespace twofold
