// Solutions that are kept: which meetings are alike, and what is forgotten.
#include "sim/sharing/known_solutions.h"

#include <gtest/gtest.h>

#include <limits>
#include <memory>
#include <vector>

namespace twofold::sim {
namespace known_solutions_test {

// Two classes of one flow each, both over one link of 1 GB/s.
std::shared_ptr<const FlowClasses> TwoOnALink() {
  constexpr double kNoLimit = std::numeric_limits<double>::infinity();
  auto classes = std::make_shared<FlowClasses>();
  classes->classes = {{.set = 0, .example = 0, .rate = kNoLimit, .links = {0}, .weights = {1}},
                      {.set = 1, .example = 0, .rate = kNoLimit, .links = {0}, .weights = {1}}};
  classes->bandwidths = {1e9};
  classes->links = {{0}};
  return classes;
}

TEST(KnownSolutions, MeetingsWithAsMuchLeftAreAlike) {
  KnownSolutions known;
  const auto classes = TwoOnALink();
  const auto first = known.Of(classes, {1e9, 2e9}, 0);
  EXPECT_FALSE(first.found);
  EXPECT_EQ(first.solution->Complete().back().time, 3);
  const auto again = known.Of(classes, {1e9, 2e9}, 0);
  EXPECT_TRUE(again.found);
  EXPECT_EQ(again.solution, first.solution);
  EXPECT_FALSE(known.Of(classes, {2e9, 1e9}, 0).found);  // the same sum
  EXPECT_FALSE(known.Of(classes, {1e9, 2e9 + 1}, 0).found);
  EXPECT_FALSE(known.Of(TwoOnALink(), {1e9, 2e9}, 0).found);  // other classes
  EXPECT_EQ(known.size(), 4u);
}

// A flow has as much more or less left as its rate brings in the time that the clock is wrong by.
TEST(KnownSolutions, MayDifferByTheRoundingOfTimes) {
  KnownSolutions known;
  const auto classes = TwoOnALink();
  known.Of(classes, {1e9, 2e9}, 0);
  EXPECT_TRUE(known.Of(classes, {1e9 - 0.0005, 2e9 + 0.001}, 0).found);  // 1e-12 of the bytes
  EXPECT_FALSE(known.Of(classes, {1e9 + 0.5, 2e9}, 0).found);
  EXPECT_TRUE(known.Of(classes, {1e9 - 0.5, 2e9 - 0.5}, 1e6).found);  // a million seconds, known to a nanosecond
  EXPECT_FALSE(known.Of(classes, {1e9 - 5, 2e9}, 1e6).found);
}

// A class of which nothing is left takes no part: then the others are faster, however little it would be.
TEST(KnownSolutions, NothingLeftIsNotALittleLeft) {
  KnownSolutions known;
  const auto classes = TwoOnALink();
  known.Of(classes, {1e-9, 2e9}, 1e6);
  EXPECT_FALSE(known.Of(classes, {0, 2e9}, 1e6).found);
}

TEST(KnownSolutions, ForgetsWhatWasUsedLongestAgo) {
  KnownSolutions known(100);  // a solution of these has two classes, and some changes when it is complete
  const auto classes = TwoOnALink();
  const auto bytes = [](int i) { return std::vector<double>{1e9, 2e9 + 1e6 * i}; };
  for (int i = 0; i < 1000; ++i) {
    known.Of(classes, bytes(i), 0).solution->Complete();
    EXPECT_TRUE(known.Of(classes, bytes(0), 0).found) << i;  // used all the time
  }
  EXPECT_LT(known.size(), 100u);
  EXPECT_TRUE(known.Of(classes, bytes(999), 0).found);
  EXPECT_FALSE(known.Of(classes, bytes(1), 0).found);
}

}  // namespace known_solutions_test
}  // namespace twofold::sim
