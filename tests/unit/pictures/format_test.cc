#include "experiments/program/pictures/format.h"

#include <cmath>
#include <limits>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace twofold::pictures {
namespace format_test {

using testing::DoubleEq;
using testing::ElementsAre;

TEST(Format, DurationsHaveAUnitThatFits) {
  EXPECT_EQ(Duration(0), "0 s");
  EXPECT_EQ(Duration(12.34e-9), "12.3 ns");
  EXPECT_EQ(Duration(1.234e-6), "1.23 µs");
  EXPECT_EQ(Duration(0.9999e-3), "1.00 ms");
  EXPECT_EQ(Duration(0.1234), "123 ms");
  EXPECT_EQ(Duration(61.25), "61.2 s");
  EXPECT_EQ(Duration(std::numeric_limits<double>::quiet_NaN()), "-");
}

TEST(Format, SizesCountInPowersOf1024) {
  EXPECT_EQ(Size(512), "512 B");
  EXPECT_EQ(Size(1536), "1.50 KiB");
  EXPECT_EQ(Size(12.25 * (1 << 20)), "12.2 MiB");
  EXPECT_EQ(Size(80.0 * (1 << 30)), "80.0 GiB");
}

TEST(Format, NumbersAreGroupedOrNamed) {
  EXPECT_EQ(Number(12), "12");
  EXPECT_EQ(Number(1234), "1,234");
  EXPECT_EQ(Number(-123456), "-123,456");
  EXPECT_EQ(Number(3.2e6), "3.20 million");
}

TEST(Format, ChangeIsOfTheFirst) {
  EXPECT_EQ(Change(2, 3), "+50.0 %");
  EXPECT_EQ(Change(4, 3), "-25.0 %");
  EXPECT_EQ(Change(0, 3), "-");
}

TEST(Format, EscapesWhatHtmlReads) { EXPECT_EQ(Escape("<a href='x'>&\""), "&lt;a href=&#39;x&#39;&gt;&amp;&quot;"); }

TEST(Format, PixelsAreShort) {
  EXPECT_EQ(Px(12), "12");
  EXPECT_EQ(Px(12.504), "12.5");
  EXPECT_EQ(Px(-0.001), "0");
}

TEST(Format, TicksAreRoundAndWithinTheRange) {
  EXPECT_THAT(Ticks(0, 10, 5), ElementsAre(0, 2, 4, 6, 8, 10));
  EXPECT_FALSE(std::signbit(Ticks(0, 10, 5).front()));
  EXPECT_THAT(Ticks(0.9, 2.1, 3), ElementsAre(DoubleEq(1), DoubleEq(1.5), DoubleEq(2)));
  EXPECT_THAT(Ticks(3, 3, 5), ElementsAre(3));
}

}  // namespace format_test
}  // namespace twofold::pictures
