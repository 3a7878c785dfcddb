// README and docs: the code shown is the example's, links lead somewhere, and the example does what the page says.
#include <algorithm>
#include <array>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

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

// The heading that GitHub's link "#of-a-page" leads to.
std::string Anchor(const std::string& heading) {
  std::string anchor;
  for (const char c : heading) {
    if (c == ' ')
      anchor += '-';
    else if (std::isalnum(static_cast<unsigned char>(c)) || c == '-' || c == '_')
      anchor += static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  }
  return anchor;
}

std::set<std::string> Anchors(const std::string& page) {
  std::set<std::string> anchors;
  std::istringstream lines(page);
  for (std::string line; std::getline(lines, line);) {
    if (const size_t text = line.find_first_not_of('#'); text > 0 && text != std::string::npos && line[text] == ' ')
      anchors.insert(Anchor(line.substr(text + 1)));
  }
  return anchors;
}

// Those that README leads to.
std::vector<std::filesystem::path> Pages() {
  std::vector<std::filesystem::path> pages = {"README.md", "CONTRIBUTING.md", "tests/README.md"};
  for (const auto& entry : std::filesystem::directory_iterator("docs")) {
    if (entry.path().extension() == ".md") pages.push_back(entry.path());
  }
  return pages;
}

// All pages of scripts/site.py, which checks the same links after it has made the site.
std::vector<std::filesystem::path> AllPages() {
  std::vector<std::filesystem::path> pages = {"README.md", "CONTRIBUTING.md", "CHANGELOG.md"};
  for (const char* folder : {"docs", "tests", "examples", "experiments/studies"}) {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
      if (entry.path().extension() == ".md") pages.push_back(entry.path());
    }
  }
  return pages;
}

TEST(Pages, LinksLeadSomewhere) {
  const std::regex link(R"(\]\(([^)#]*)(#[^)]*)?\))");
  int links = 0;
  for (const std::filesystem::path& page : AllPages()) {
    const std::string text = ReadAll(page);
    for (std::sregex_iterator it(text.begin(), text.end(), link), end; it != end; ++it, ++links) {
      const std::string target = (*it)[1], anchor = (*it)[2];
      if (target.rfind("http", 0) == 0) continue;
      const std::filesystem::path file = target.empty() ? page : page.parent_path() / target;
      if (!std::filesystem::exists(file))
        ADD_FAILURE() << page << " links to " << target;
      else if (!anchor.empty())
        EXPECT_TRUE(Anchors(ReadAll(file)).count(anchor.substr(1))) << page << " links to " << target << anchor;
    }
  }
  EXPECT_GT(links, 200);
}

TEST(Pages, ReadmeIsShort) {
  const std::string readme = ReadAll("README.md");
  EXPECT_LE(std::count(readme.begin(), readme.end(), '\n'), 240);
}

TEST(Pages, ReadmeLeadsToEachPage) {
  const std::string readme = ReadAll("README.md");
  for (const std::filesystem::path& page : Pages()) {
    if (page != "README.md") {
      EXPECT_THAT(readme, ::testing::HasSubstr("](" + page.string() + ")"));
    }
  }
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
