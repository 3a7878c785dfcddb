#include "kernels/cpu/levels.h"

#include <algorithm>
#include <cstdlib>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace twofold {
namespace levels_test {

using ::testing::HasSubstr;

TEST(Levels, TheHighestUsableOneIsTheDefault) {
  const std::vector<std::string> usable = cpu::UsableLevels();
  ASSERT_FALSE(usable.empty());
  EXPECT_EQ(cpu::ChooseLevel(nullptr).value(), usable.back());
  EXPECT_EQ(cpu::ChooseLevel("").value(), usable.back());
}

TEST(Levels, EachBuiltOneIsUsedOrRefusedWithThoseThatThisMachineHas) {
  const std::vector<std::string> usable = cpu::UsableLevels();
  for (const std::string& level : cpu::BuiltLevels()) {
    const auto chosen = cpu::ChooseLevel(level.c_str());
    if (std::find(usable.begin(), usable.end(), level) != usable.end()) {
      EXPECT_EQ(chosen.value(), level);
    } else {
      ASSERT_FALSE(chosen.ok()) << level;
      EXPECT_THAT(std::string(chosen.status().message()), HasSubstr("has no level " + level));
      EXPECT_THAT(std::string(chosen.status().message()), HasSubstr(usable.back()));
    }
  }
}

TEST(Levels, UnknownOnesAreRefusedWithThoseThatThereAre) {
  const auto chosen = cpu::ChooseLevel("v9");
  ASSERT_FALSE(chosen.ok());
  EXPECT_THAT(std::string(chosen.status().message()), HasSubstr("TWOFOLD_CPU_LEVEL: unknown level \"v9\""));
  EXPECT_THAT(std::string(chosen.status().message()), HasSubstr(cpu::BuiltLevels().back()));
}

// The entries kernels_test_v2 and so on of ctest run this whole program at each level.
TEST(Levels, TheEnvironmentDecides) {
  const char* const wanted = std::getenv("TWOFOLD_CPU_LEVEL");
  EXPECT_EQ(cpu::LevelInUse().value(), cpu::ChooseLevel(wanted).value());
  if (wanted != nullptr) {
    EXPECT_EQ(cpu::LevelInUse().value(), wanted);
  }
}

}  // namespace levels_test
}  // namespace twofold
