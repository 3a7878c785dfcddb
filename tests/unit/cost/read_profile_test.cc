#include "sim/cost/read_profile.h"

#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "core/base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace twofold {
namespace read_profile_test {

using testing::HasSubstr;

struct ReadProfileTest : testing::Test {
  void SetUp() override { path = StrCat(testing::TempDir(), "/read_profile_test-", getpid(), ".textproto"); }
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
      "name: 'x' kernels { name: 'add' dtype: 'f32' points { dims: 1 dims: 8 bytes: 96 seconds: 1e-6 low: 9e-7 high: "
      "2e-6 } }");
  ASSERT_TRUE(profile.ok()) << profile.status();
  EXPECT_EQ(profile->kernels(0).points(0).dims(1), 8);
}

TEST_F(ReadProfileTest, MissingFileNamesTheCommandThatMakesOne) {
  const auto profile = ReadProfile("/nowhere/at.all");
  EXPECT_EQ(profile.status().code(), absl::StatusCode::kNotFound);
  EXPECT_THAT(std::string(profile.status().message()), HasSubstr("twofold calibrate --out=/nowhere/at.all"));
}

TEST_F(ReadProfileTest, RefusesWhatIsWrongAndSaysWhere) {
  ExpectRefused("name: 'x'\nkernel {}", "2:1: kernel: \"kernel\" is not a field; did you mean kernels?");
  ExpectRefused("name: 'x'", "kernels: missing");
  ExpectRefused("kernels { dtype: 'f32' }", "kernels[0].name");
  ExpectRefused("kernels { name: 'add' dtype: 'float' }",
                "kernels[0].dtype must be f64, f32, bf16, f16, i32 or u8 (got \"float\")");
  ExpectRefused("kernels { name: 'add' dtype: 'f32' }", "kernels[0].points: missing");
  const auto point = [](const std::string& p) { return "kernels { name: 'add' dtype: 'f32' points { " + p + " } }"; };
  ExpectRefused(point("bytes: 1 seconds: 1"),
                "points[0].dims must have one to three numbers: m n k, or rows columns (got 0)");
  ExpectRefused(point("dims: 0 bytes: 1 seconds: 1"), "points[0].dims must be at least 1 (got 0)");
  ExpectRefused(point("dims: 1 bytes: 1 seconds: -1"), "points[0].seconds must be greater than 0 (got -1)");
  ExpectRefused(point("dims: 1 seconds: 1"), "points[0].bytes must be greater than 0 (got 0)");
  ExpectRefused(point("dims: 1 bytes: 1 seconds: 1 low: 2"),
                "low, seconds and high must ascend from 0 (got low 2, seconds 1, high 0)");
  ExpectRefused(point("dims: 1 bytes: 1 seconds: 1 low: -1"), "low -1");
  ExpectRefused(point("dims: 1 bytes: 1 seconds: 1 low: nan"), "low nan");
  ExpectRefused(point("dims: 1 bytes: 1 seconds: 1 high: inf"), "high inf");
  for (const std::string field : {"latency_s", "bytes_per_second_core", "bytes_per_second_total"}) {
    ExpectRefused("shared_memory { " + field + ": 0 }", "shared_memory." + field + " must be greater than 0 (got 0)");
  }
  ExpectRefused("kernels { name: 'matmul_nn' dtype: 'f32' points { dims: 1 bytes: 1 seconds: 1 } }",
                "points[0].flops must be greater than 0 (got 0)");
  const auto collective = [](const std::string& c) {
    return "shared_memory { collectives { operation: 'all_reduce' " + c + " } }";
  };
  ExpectRefused(collective("points { bytes: 8 seconds: 1 }"),
                "shared_memory.collectives[0].ranks must be at least 2 (got 0)");
  ExpectRefused(collective("ranks: 2"), "shared_memory.collectives[0].points: missing");
  ExpectRefused(collective("ranks: 2 points { bytes: 8 }"), "points[0].seconds must be greater than 0 (got 0)");
  ExpectRefused(collective("ranks: 2 points { bytes: 8 seconds: 1 low: 2 }"),
                "points[0]: low, seconds and high must ascend from 0 (got low 2, seconds 1");
  ExpectRefused("shared_memory { collectives { operation: 'allreduce' ranks: 2 points { bytes: 8 seconds: 1 } } }",
                "shared_memory.collectives[0].operation must be a collective, such as all_reduce (got \"allreduce\")");
  ExpectRefused(collective("ranks: 2 points { bytes: 8 seconds: 1 } points { bytes: 8 seconds: 1 }"),
                "points[1].bytes must ascend from 1 (got 8 after 8)");
  const auto training = [](const std::string& t) { return "training { ranks: 2 factor: 1 low: 1 high: 1 " + t + " }"; };
  ExpectRefused("training { factor: 1 low: 1 high: 1 }", "training[0].ranks must ascend from 1 (got 0");
  ExpectRefused(training("") + training(""), "training[1].ranks must ascend from 1 (got 2 after 2)");
  ExpectRefused("training { ranks: 2 low: 1 high: 1 }", "training[0].factor must be greater than 0 (got 0)");
  ExpectRefused(training("kernels { kernel: 'add' factor: -1 }"),
                "training[0].kernels[0] (add).factor must be greater than 0 (got -1)");
  ExpectRefused(training("kernels { kernel: 'add' factor: 1 alone_s: nan }"),
                "training[0].kernels[0] (add).alone_s must be at least 0 (got nan)");
  ExpectRefused(training("kernels { kernel: 'add' factor: 1 alone_s: 2 } kernels { kernel: 'sum' factor: 1 } kernels { "
                         "kernel: 'add' factor: 1 alone_s: 2 }"),
                "training[0].kernels[2] (add).alone_s: a kernel with several factors needs ascending times above 0 "
                "(got 2 after 2)");
  ExpectRefused(training("kernels { kernel: 'add' factor: 1 } kernels { kernel: 'add' factor: 1 alone_s: 1 }"),
                "(got 1 after 0)");
  ExpectRefused(training("waiting: -0.1"), "training[0].waiting must be at least 0 (got -0.1)");
  ExpectRefused(training("host_s: nan"), "training[0].host_s must be at least 0 (got nan)");
  ExpectRefused("training { ranks: 2 factor: 1 low: 1.1 high: 1 }", "low 1.1, high 1");
  ExpectRefused("training { ranks: 2 factor: 1 low: 1 high: inf }", "low 1, high inf");
  ExpectRefused("load { taken: 1 }", "load.taken must be a fraction from 0 to below 1 (got 1)");
  ExpectRefused("load { kept: -0.1 }", "load.kept must be a fraction from 0 to below 1 (got -0.1)");
  ExpectRefused("load { others: nan }", "load.others must be a number of processors, at least 0 (got nan)");
  ExpectRefused("load { repeated: -1 }", "load.repeated must be at least 0 (got -1)");
  ExpectRefused("load { fixed_low: 1.1 }", "(got fixed_low 1.1, fixed_high 1)");
  ExpectRefused("load { fixed_low: 0 }",
                "load: as fractions of the median, fixed_low must be above 0 and at most 1, and fixed_high at least 1 "
                "(got fixed_low 0");
  ExpectRefused(
      "message_passing { fabric: 'mpi' latency_s: 1 bytes_per_second: 1 bytes_per_second_exchange: 1 load { taken: 2 } "
      "}",
      "message_passing[0].load.taken must be a fraction from 0 to below 1 (got 2)");
}

}  // namespace read_profile_test
}  // namespace twofold
