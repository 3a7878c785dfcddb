#include "core/base/format.h"

#include <limits>

#include "gtest/gtest.h"

namespace twofold {
namespace format_test {

constexpr double kNaN = std::numeric_limits<double>::quiet_NaN(), kInfinity = std::numeric_limits<double>::infinity();

TEST(Format, SecondsHaveAUnitThatFits) {
  EXPECT_EQ(SecondsText(-0.0), "0 s");
  EXPECT_EQ(SecondsText(-4e-12), "0 s");
  EXPECT_EQ(SecondsText(6e-12), "0.01 ns");
  EXPECT_EQ(SecondsText(12.34e-9), "12.3 ns");
  EXPECT_EQ(SecondsText(-4.2e-7), "-420 ns");
  EXPECT_EQ(SecondsText(1.234e-6), "1.23 µs");
  EXPECT_EQ(SecondsText(0.9999e-3), "1.00 ms");
  EXPECT_EQ(SecondsText(0.0123456), "12.3 ms");
  EXPECT_EQ(SecondsText(61.25), "61.2 s");
  EXPECT_EQ(SecondsText(kNaN), "-");
}

TEST(Format, BytesCountInPowersOf1024) {
  EXPECT_EQ(BytesText(512), "512 B");
  EXPECT_EQ(BytesText(1536), "1.50 KiB");
  EXPECT_EQ(BytesText(12.25 * (1 << 20)), "12.2 MiB");
  EXPECT_EQ(BytesText(80.0 * (1 << 30)), "80.0 GiB");
  EXPECT_EQ(BytesText(kInfinity), "-");
}

TEST(Format, CountsAreGrouped) {
  EXPECT_EQ(CountText(-1234567), "-1,234,567");
  EXPECT_EQ(CountText(-123), "-123");
  EXPECT_EQ(Counted(1, "rank"), "1 rank");
  EXPECT_EQ(Counted(16384, "rank"), "16,384 ranks");
  EXPECT_EQ(Counted(2, "micro-batch"), "2 micro-batches");
  EXPECT_EQ(RateText(41600.4), "41,600");
  EXPECT_EQ(RateText(4.16), "4.16");
}

TEST(Format, PercentagesSayWhetherTheyAreChanges) {
  EXPECT_EQ(PercentText(-1e-5), "+0.0 %");
  EXPECT_EQ(PercentText(-0.031), "-3.1 %");
  EXPECT_EQ(PercentText(kInfinity), "-");
  EXPECT_EQ(ShareText(0.123), "12.3 %");
  EXPECT_EQ(ShareText(kNaN), "-");
}

TEST(Format, TablesAlignCharactersNotBytes) {
  EXPECT_EQ(TableText({{"a", "bb"}, {"ccc", "d"}}), "a    bb\nccc   d\n");
  EXPECT_EQ(TableText({{"µ", "1 µs"}, {"bb", "10 µs"}}), "µ    1 µs\nbb  10 µs\n");
  EXPECT_EQ(TableText({{"a", "b"}, {}}), "a  b\n\n");
  EXPECT_EQ(RightAligned("1 µs", 6), "  1 µs");
  EXPECT_EQ(RightAligned("too long", 3), "too long");
}

}  // namespace format_test
}  // namespace twofold
