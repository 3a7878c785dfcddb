// How processes tell a launcher how the run ended.
#include "backends/launch/ending.h"

#include <cstdlib>
#include <filesystem>

#include "core/base/status.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/scratch_folder.h"

namespace twofold {
namespace ending_test {

using testing::ElementsAre;
using testing::Pair;

TEST(Ending, IsReadAsItWasLeft) {
  const std::string folder = test::ScratchFolder("endings");
  std::filesystem::create_directories(folder);
  const absl::Status lost = Unavailable("lost rank 1: it has ended\nin line 2"), fine = absl::OkStatus();
  LeaveEnding(4, lost);  // nobody asked
  EXPECT_TRUE(ReadEndings(folder).empty());
  setenv(kEndingsVariable, folder.c_str(), 1);
  LeaveEnding(0, lost);
  LeaveEnding(12, fine);
  unsetenv(kEndingsVariable);
  EXPECT_THAT(ReadEndings(folder), ElementsAre(Pair(0, lost), Pair(12, fine)));
  EXPECT_TRUE(ReadEndings(folder + "/nowhere").empty());
}

}  // namespace ending_test
}  // namespace twofold
