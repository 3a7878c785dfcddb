#include "sim/cost/read_profile.h"

#include <filesystem>
#include <fstream>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace twofold {
namespace {

using testing::HasSubstr;

struct ReadProfileTest : testing::Test {
  void SetUp() override { path = testing::TempDir() + "/read_profile_test.textproto"; }
  void TearDown() override { std::filesystem::remove(path); }
  absl::StatusOr<profile::Profile> Read(const std::string& text) {
    std::ofstream(path) << text;
    return ReadProfile(path);
  }
  void ExpectRefused(const std::string& text, const std::string& what) {
    const auto profile = Read(text);
    ASSERT_FALSE(profile.ok()) << text;
    EXPECT_EQ(profile.status().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(profile.status().message()), HasSubstr(path));
    EXPECT_THAT(std::string(profile.status().message()), HasSubstr(what));
  }
  std::string path;
};

TEST_F(ReadProfileTest, ReadsWhatIsRight) {
  const auto profile = Read(
      "name: 'x' kernels { name: 'add' dtype: 'f32' points { dims: 1 dims: 8 bytes: 96 seconds: 1e-6 low: 9e-7 high: 2e-6 } }");
  ASSERT_TRUE(profile.ok()) << profile.status();
  EXPECT_EQ(profile->kernels(0).points(0).dims(1), 8);
}

TEST_F(ReadProfileTest, MissingFileNamesTheCommandThatMakesOne) {
  const auto profile = ReadProfile("/nowhere/at.all");
  EXPECT_EQ(profile.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(profile.status().message()), HasSubstr("twofold calibrate --out=/nowhere/at.all"));
}

TEST_F(ReadProfileTest, RefusesWhatIsWrongAndSaysWhere) {
  ExpectRefused("name: 'x'\nkernel {}", "2:8");
  ExpectRefused("name: 'x'", "kernels: none");
  ExpectRefused("kernels { dtype: 'f32' }", "kernels[0].name");
  ExpectRefused("kernels { name: 'add' dtype: 'float' }", "kernels[0].dtype: \"float\"");
  ExpectRefused("kernels { name: 'add' dtype: 'f32' }", "kernels[0].points: none");
  const auto point = [](const std::string& p) { return "kernels { name: 'add' dtype: 'f32' points { " + p + " } }"; };
  ExpectRefused(point("bytes: 1 seconds: 1"), "points[0].dims: 0 numbers");
  ExpectRefused(point("dims: 0 bytes: 1 seconds: 1"), "points[0].dims: 0;");
  ExpectRefused(point("dims: 1 bytes: 1 seconds: -1"), "points[0].seconds: -1");
  ExpectRefused(point("dims: 1 seconds: 1"), "points[0].bytes: 0");
  ExpectRefused(point("dims: 1 bytes: 1 seconds: 1 low: 2"), "they must ascend");
  ExpectRefused("kernels { name: 'matmul_nn' dtype: 'f32' points { dims: 1 bytes: 1 seconds: 1 } }", "points[0].flops: 0");
}

}  // namespace
}  // namespace twofold
