// The README keeps its word: its code is the example's code, its files exist, and the example does what it says.
#include <array>
#include <filesystem>
#include <fstream>
#include <regex>
#include <sstream>
#include <string>

#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/deadline.h"
#include "tests/scratch_folder.h"

namespace twofold {
namespace readme_test {

std::string ReadAll(const std::string& path) {
  std::ifstream in(path);
  EXPECT_TRUE(in.good()) << path;
  std::stringstream text;
  text << in.rdbuf();
  return text.str();
}

TEST(Readme, ShowsTheExampleAsItIs) {
  const std::string readme = ReadAll("README.md");
  const std::string fence = "```cpp\n";
  const size_t begin = readme.find(fence) + fence.size();
  const std::string block = readme.substr(begin, readme.find("```", begin) - begin);
  ASSERT_GT(block.size(), 500u);
  EXPECT_THAT(ReadAll("examples/local_sgd.cc"), ::testing::HasSubstr(block));
}

TEST(Readme, LinksToFilesThatExist) {
  const std::string readme = ReadAll("README.md");
  const std::regex link(R"(\]\(([^)#]+)\))");
  int links = 0;
  for (std::sregex_iterator it(readme.begin(), readme.end(), link), end; it != end; ++it) {
    const std::string target = (*it)[1];
    if (target.rfind("http", 0) == 0) continue;
    const std::string path = std::filesystem::exists(target) ? target : "strategies/data_parallel/" + target;
    EXPECT_TRUE(std::filesystem::exists(path)) << target;
    ++links;
  }
  EXPECT_GT(links, 10);
}

TEST(Names, LinkToFilesThatExist) {
  const std::string page = ReadAll("docs/names.md");
  const std::regex link(R"(\]\(([^)#]+)\))");
  int links = 0;
  for (std::sregex_iterator it(page.begin(), page.end(), link), end; it != end; ++it, ++links) {
    EXPECT_TRUE(std::filesystem::exists("docs/" + (*it)[1].str())) << (*it)[1];
  }
  EXPECT_GT(links, 30);
}

TEST(Readme, TheExampleGivesOneLossOnBothFabrics) {
  const std::string printed = test::ScratchFolder("readme");
  ASSERT_EQ(RunShell(TWOFOLD_LOCAL_SGD " >" + printed), 0);
  std::ifstream lines(printed);
  std::array<double, 2> loss{1, 1};
  for (double& l : loss) {
    std::string fabric, word, after, unit;
    double milliseconds = 0;
    ASSERT_TRUE(lines >> fabric >> word >> l >> after >> milliseconds >> unit) << ReadAll(printed);
    EXPECT_EQ(word + " " + after + " " + unit, "loss after ms");
    EXPECT_GT(milliseconds, 0);
  }
  EXPECT_EQ(loss[0], loss[1]);
  EXPECT_LT(loss[0], 0.5);  // from ln 4 = 1.39
}

}  // namespace readme_test
}  // namespace twofold
