#include "core/comm/device_mesh.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace twofold {
namespace {

TEST(CheckMesh, AcceptsWhatMultipliesToTheWorld) {
  EXPECT_TRUE(CheckMesh({.pp = 2, .dp = 3, .cp = 1, .tp = 4}, 24).ok());
  EXPECT_TRUE(CheckMesh({}, 1).ok());
}

TEST(CheckMesh, ShowsBothSides) {
  const absl::Status status = CheckMesh({.pp = 2, .dp = 3}, 8);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(), "parallel: pp * dp * cp * tp = 2 * 3 * 1 * 1 = 6, but there are 8 ranks");
}

TEST(CheckMesh, RefusesExtentsBelowOne) {
  EXPECT_EQ(CheckMesh({.tp = 0}, 1).message(), "parallel.tp is 0; it must be 1 or more");
  EXPECT_FALSE(CheckMesh({.dp = -1, .tp = -1}, 1).ok());
}

}  // namespace
}  // namespace twofold
