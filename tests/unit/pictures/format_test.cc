#include "experiments/program/pictures/format.h"

#include <cmath>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace twofold::pictures {
namespace format_test {

using testing::DoubleEq;
using testing::ElementsAre;

TEST(Format, NumbersAreGroupedOrNamed) {
  EXPECT_EQ(Number(12), "12");
  EXPECT_EQ(Number(1234), "1,234");
  EXPECT_EQ(Number(-123456), "-123,456");
  EXPECT_EQ(Number(3.2e6), "3.2 million");
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
