// Sizes and sweeps as they are written on the command line.
#include "experiments/program/bench/sizes.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace twofold::bench {
namespace sizes_test {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(ParseSize, TakesSuffixes) {
  EXPECT_EQ(ParseSize("8").value(), 8);
  EXPECT_EQ(ParseSize("64K").value(), 65536);
  EXPECT_EQ(ParseSize("3k").value(), 3072);
  EXPECT_EQ(ParseSize("16M").value(), 16 << 20);
  EXPECT_EQ(ParseSize("1G").value(), 1 << 30);
  EXPECT_EQ(ParseSize("1024g").value(), int64_t{1} << 40);
}

TEST(ParseSize, RefusesWhatIsNoSize) {
  for (const char* text : {"", "K", "-8", "+8", " 8", "8 ", "1.5G", "12Q", "8KB", "0x10", "99999999999999999999"}) {
    EXPECT_FALSE(ParseSize(text).ok()) << text;
    EXPECT_THAT(std::string(ParseSize(text).status().message()), HasSubstr("use whole bytes")) << text;
  }
  for (const char* text : {"0", "0K", "1025G", "9223372036854775807G"}) {
    EXPECT_THAT(std::string(ParseSize(text).status().message()), HasSubstr("use 1 to 1024G")) << text;
  }
}

TEST(Sizes, MultiplyOrAdd) {
  EXPECT_THAT(Sizes({.least = 8, .most = 64}).value(), ElementsAre(8, 16, 32, 64));
  EXPECT_THAT(Sizes({.least = 8, .most = 63}).value(), ElementsAre(8, 16, 32));
  EXPECT_THAT(Sizes({.least = 3, .most = 100, .factor = 10}).value(), ElementsAre(3, 30));
  EXPECT_THAT(Sizes({.least = 8, .most = 20, .step = 4}).value(), ElementsAre(8, 12, 16, 20));
  EXPECT_THAT(Sizes({.least = 8, .most = 8}).value(), ElementsAre(8));
  EXPECT_EQ(Sizes({}).value().size(), 24u);  // 8 to 64M
}

TEST(Sizes, EndWhereTheNextWouldOverflow) {
  EXPECT_THAT(Sizes({.least = 8, .most = int64_t{1} << 40, .factor = INT64_MAX}).value(), ElementsAre(8));
}

TEST(Sizes, RefuseWhatMakesNoSenseByTheOptionsName) {
  EXPECT_THAT(std::string(Sizes({.least = 9, .most = 8}).status().message()), HasSubstr("--minbytes=9"));
  EXPECT_THAT(std::string(Sizes({.factor = 1}).status().message()),
              HasSubstr("--stepfactor must be at least 2 (got 1)"));
  EXPECT_THAT(std::string(Sizes({.most = 1 << 30, .step = 8}).status().message()), HasSubstr("--stepbytes=8"));
}

}  // namespace sizes_test
}  // namespace twofold::bench
