// What tests draw depends on their names and the base alone (tests/seed.h).
#include "tests/seed.h"

#include <cstdint>
#include <string>

#include "gtest/gtest.h"

namespace twofold {
namespace seed_test {

TEST(Seed, IsTheSameOnEveryMachine) {
  EXPECT_EQ(SeedOf(19, "Suite.Test"), 2427593189166340194u);
  EXPECT_EQ(SeedOf(19, "Pairs/Suite.Test/Gpt_Dp2", 3), 540264732472561394u);
}

TEST(Seed, IsAnotherOfAnotherTestBaseAndSalt) {
  const uint64_t one = SeedOf(19, "Suite.Test");
  for (const uint64_t other :
       {SeedOf(19, "Suite.Other"), SeedOf(20, "Suite.Test"), SeedOf(19, "Suite.Test", 1), SeedOf(19, "")}) {
    EXPECT_NE(one, other);
    EXPECT_NE(static_cast<uint32_t>(one), static_cast<uint32_t>(other)) << "of which most generators take 32 bits";
  }
}

// Whatever ran before it, and however often it is asked.
TEST(Seed, IsOfTheTestThatRuns) {
  EXPECT_EQ(TestSeed(), SeedOf(BaseSeed(), "Seed.IsOfTheTestThatRuns"));
  EXPECT_EQ(TestSeed(), TestSeed());
  EXPECT_NE(TestSeed(), TestSeed(1));
}

class SeedOfParameters : public ::testing::TestWithParam<int> {};
TEST_P(SeedOfParameters, AreTheirNames) {
  EXPECT_EQ(TestSeed(), SeedOf(BaseSeed(), "Some/SeedOfParameters.AreTheirNames/" + std::to_string(GetParam() - 7)));
}
INSTANTIATE_TEST_SUITE_P(Some, SeedOfParameters, ::testing::Values(7, 8));

}  // namespace seed_test
}  // namespace twofold
