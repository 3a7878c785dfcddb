// NCCL's own words do not come between those of the program.
#include "backends/nccl/debug_output.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "backends/nccl/fabric.h"
#include "core/base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace twofold::nccl {
namespace debug_output_test {

TEST(DebugFile, OfAPipeIsThePipe) {
  int ends[2];
  ASSERT_EQ(pipe(ends), 0);
  const std::string file = DebugFileOf(ends[1]);
  const int again = open(file.c_str(), O_WRONLY | O_TRUNC);
  ASSERT_GE(again, 0) << file;
  ASSERT_EQ(write(again, "x", 1), 1);
  char read_back = 0;
  EXPECT_EQ(read(ends[0], &read_back, 1), 1);
  EXPECT_EQ(read_back, 'x');
  for (const int end : {ends[0], ends[1], again}) close(end);
}

TEST(DebugFile, OfARegularFileIsOneBesideIt) {
  const std::string path = StrCat(testing::TempDir(), "/100%-", getpid(), ".log");
  const int file = open(path.c_str(), O_WRONLY | O_CREAT, 0600);
  ASSERT_GE(file, 0) << path;
  std::string beside = DebugFileOf(file);
  EXPECT_THAT(beside, testing::EndsWith(StrCat("/100%%-", getpid(), ".log.nccl.%h.%p")));
  std::filesystem::remove(path);
  EXPECT_EQ(DebugFileOf(file), "") << "it has no name";
  close(file);
}

TEST(DebugFile, OfASocketOrNothingIsNone) {
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  EXPECT_EQ(DebugFileOf(ends[0]), "");
  for (const int end : ends) close(end);
  EXPECT_EQ(DebugFileOf(ends[0]), "");
}

// Prepares for NCCL in a process of its own whose standard error is a pipe; exit status 0: NCCL_DEBUG_FILE is
// `expected` then.
[[noreturn]] void PrepareAndCompare(const char* debug, const char* file, const char* expected) {
  int ends[2];
  if (pipe(ends) != 0 || dup2(ends[1], STDERR_FILENO) < 0) _exit(2);
  const auto set = [](const char* name, const char* value) {
    value == nullptr ? unsetenv(name) : setenv(name, value, 1);
  };
  set("NCCL_DEBUG", debug), set("NCCL_DEBUG_FILE", file);
  PrepareNccl();
  const char* const found = std::getenv("NCCL_DEBUG_FILE");
  _exit((found == nullptr ? std::string("none") : std::string(found)) == expected ? 0 : 1);
}

TEST(DebugOutputDeathTest, IsSentToStandardErrorUnlessToldOtherwise) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(PrepareAndCompare("INFO", nullptr, "/dev/stderr"), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(PrepareAndCompare("INFO", "/tmp/mine.%p", "/tmp/mine.%p"), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(PrepareAndCompare(nullptr, nullptr, "none"), testing::ExitedWithCode(0), "");
}

}  // namespace debug_output_test
}  // namespace twofold::nccl
