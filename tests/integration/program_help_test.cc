// --help, man pages and completion are made from the same commands: each shows all options, and no others.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <iterator>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include "core/base/strings.h"
#include "tests/integration/program.h"

namespace twofold {
namespace program_help_test {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;
using ::testing::StartsWith;
using Names = std::set<std::string>;

std::vector<std::string> LinesOf(const std::string& text) {
  std::istringstream in(text);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  return lines;
}

std::vector<std::string> WordsOf(const std::string& line) {
  std::istringstream in(line);
  return {std::istream_iterator<std::string>(in), std::istream_iterator<std::string>()};
}

// The names of "  -b, --minbytes=BYTES   smallest size": up to two spaces, without values.
Names NamesIn(const std::string& row) {
  Names names;
  std::istringstream words(row.substr(0, row.find("  ")));
  for (std::string word; words >> word;) {
    word = word.substr(0, word.find_first_of(",="));
    if (word.starts_with('-')) names.insert(word);
  }
  return names;
}

bool IsRow(const std::string& line) { return line.size() > 3 && line.starts_with("  ") && line[2] != ' '; }

class Help : public Program {
 protected:
  // Commands by their words, with the options that --help shows.
  std::map<std::string, Names> Commands() {
    std::map<std::string, Names> all;
    Read("", all);
    return all;
  }
  // What bash offers after each list of words, the last of which is begun.
  std::vector<Names> Offered(const std::vector<std::vector<std::string>>& lines) {
    std::string text = StrCat("source <(", TWOFOLD_PROGRAM, " completion bash)\n");
    for (const std::vector<std::string>& words : lines) {
      StrAppend(&text, "COMP_WORDS=(twofold");
      for (const std::string& word : words) StrAppend(&text, " '", word, "'");
      StrAppend(&text, ")\nCOMP_CWORD=", words.size(), "\n_twofold || exit\necho \"${COMPREPLY[*]}\"\n");
    }
    Write("complete.sh", text);
    EXPECT_EQ(RunShell(StrCat("bash ", At("complete.sh"), " >", At("stdout"), " 2>", At("stderr"))), 0);
    EXPECT_THAT(ReadAll(At("stderr")), IsEmpty());
    std::vector<Names> offered;
    for (const std::string& line : LinesOf(ReadAll(At("stdout")))) {
      std::istringstream in(line);
      Names& names = offered.emplace_back();
      for (std::string word; in >> word;) names.insert(word);
    }
    EXPECT_EQ(offered.size(), lines.size());
    offered.resize(lines.size());
    return offered;
  }
  std::map<std::string, std::string> helps_;  // what --help printed, by command

 private:
  void Read(const std::string& path, std::map<std::string, Names>& all) {
    ASSERT_EQ(Run(StrCat(path, " --help")), 0) << path << ": " << err_;
    std::vector<std::string> below;
    bool commands = true;  // commands stand before options and arguments
    const std::string out = helps_[path] = out_;
    for (const std::string& line : LinesOf(out)) {
      if (line.starts_with("Arguments:") || line.starts_with("  -")) commands = false;
      if (line.starts_with("  -")) all[path].merge(NamesIn(line.substr(2)));
      if (commands && IsRow(line)) below.push_back(line.substr(2, line.find(' ', 2) - 2));
    }
    for (const std::string& name : below) Read(path.empty() ? name : StrCat(path, " ", name), all);
  }
};

TEST_F(Help, ManPagesAndCompletionsHaveTheOptionsOfHelp) {
  const std::map<std::string, Names> commands = Commands();
  ASSERT_GE(commands.size(), 25u);
  EXPECT_THAT(commands.at("bench"), ::testing::IsSupersetOf({"-b", "--minbytes", "--json", "-h", "--help"}));
  ASSERT_EQ(Run("completion fish"), 0);
  const std::string fish = out_;
  ASSERT_EQ(Run("completion zsh"), 0);
  const std::string zsh = out_;
  ASSERT_EQ(Run(StrCat("man --out=", At("man1"))), 0) << err_;
  std::vector<std::vector<std::string>> begun;
  for (const auto& [path, options] : commands) begun.push_back(WordsOf(StrCat(path, " -")));
  const std::vector<Names> bash = Offered(begun);
  size_t i = 0;
  for (const auto& [path, options] : commands) {
    std::string page = StrCat("twofold", path.empty() ? "" : " ", path, ".1");
    std::replace(page.begin(), page.end(), ' ', '-');
    Names in_page;
    for (std::string line : LinesOf(ReadAll(At("man1/" + page)))) {
      for (size_t at; (at = line.find("\\-")) != std::string::npos;) line.erase(at, 1);
      if (line.starts_with(".B -")) in_page.merge(NamesIn(line.substr(3)));
    }
    EXPECT_EQ(in_page, options) << "man page of " << path;

    Names offered;
    for (const std::string& name : bash[i]) offered.insert(name.substr(0, name.find('=')));
    ++i;
    EXPECT_EQ(offered, options) << "bash, " << path;

    Names in_fish;
    const std::string at = StrCat("= \"twofold", path.empty() ? "" : " ", path, "\"'");
    for (const std::string& line : LinesOf(fish)) {
      const size_t found = line.find(at);
      if (found == std::string::npos) continue;
      std::istringstream rest(line.substr(found + at.size()));
      for (std::string word, name; rest >> word && word != "-d";) {
        if ((word == "-l" || word == "-s") && rest >> name) in_fish.insert(StrCat(word == "-l" ? "--" : "-", name));
      }
    }
    EXPECT_EQ(in_fish, options) << "fish, " << path;

    std::string function = StrCat("\n_twofold", path.empty() ? "" : " ", path, "() {");
    std::replace(function.begin() + 1, function.end() - 2, ' ', '_');
    function[function.size() - 2] = ' ';
    const size_t begin = zsh.find(function);
    ASSERT_NE(begin, std::string::npos) << function;
    const std::string body = zsh.substr(begin, zsh.find("\n}\n", begin) - begin);
    Names in_zsh;
    for (const std::string& line : LinesOf(body)) {
      if (!line.starts_with("    ") || line.find("'[") == std::string::npos) continue;
      std::string names = line.substr(0, line.find("'["));
      if (const size_t brace = names.find('{'); brace != std::string::npos) names = names.substr(brace);
      std::replace_if(
          names.begin(), names.end(), [](char c) { return c != '-' && c != '_' && !std::isalnum(c); }, ' ');
      std::istringstream each(names);
      for (std::string name; each >> name;) in_zsh.insert(name);
    }
    EXPECT_EQ(in_zsh, options) << "zsh, " << path;
  }
  for (const auto& [path, help] :
       helps_) {  // stdout has no width here: lines have 80 columns, but commands are not broken
    for (const std::string& line : LinesOf(help)) {
      const auto columns = std::count_if(line.begin(), line.end(), [](char c) { return (c & 0xC0) != 0x80; });
      EXPECT_TRUE(columns <= 80 || line.find("twofold ") != std::string::npos) << path << ": " << line;
    }
  }
}

TEST_F(Help, BashCompletesCommandsValuesAndFiles) {
  const std::pair<std::vector<std::string>, Names> kLines[] = {
      {{"topo"}, {"topology"}},
      {{"topology", ""}, {"show", "list", "import", "export"}},
      {{"run", "--fabric", "=", "sim"}, {"simulated"}},
      {{"run", "--fabric=sim"}, {"--fabric=simulated"}},
      {{"launch", "--ranks", "=", "2", "--", "run", "--fabric", "=", "g"}, {"gloo"}},
      {{"plan", "--cluster", "=", "dgx-a100"}, {"dgx-a100"}},
      {{"bench", "--wait", "all_r"}, {"all_reduce"}},
      {{"schedule", "ONE"}, {"ONE_F_ONE_B"}},
      {{"run", "examples/ddp"}, {"examples/ddp.textproto"}},
      {{"run", "--out", "=", "examp"}, {"examples"}},
      {{"run", "--note", "=", "e"}, {}},
  };
  std::vector<std::vector<std::string>> begun;
  for (const auto& [words, offered] : kLines) begun.push_back(words);
  const std::vector<Names> all = Offered(begun);
  for (size_t i = 0; i < all.size(); ++i) EXPECT_EQ(all[i], kLines[i].second) << i;
}

// Shells that are not there are left out.
TEST_F(Help, ScriptsAreValid) {
  for (const char* shell : {"bash", "zsh", "fish"}) {
    ASSERT_EQ(Run(StrCat("completion ", shell)), 0);
    const std::string file = Write(StrCat("script.", shell), out_);
    if (RunShell(StrCat("command -v ", shell, " >/dev/null")) != 0) continue;
    EXPECT_EQ(RunShell(StrCat(shell, " -n ", file)), 0) << shell;
  }
  EXPECT_EQ(Run("completion tcsh"), 2);
  EXPECT_THAT(err_, HasSubstr("\"tcsh\" is not possible; did you mean bash"));
}

TEST_F(Help, ExplainsCommandsByTheirNames) {
  ASSERT_EQ(Run("topology import --help"), 0);
  const std::string by_option = out_;
  ASSERT_EQ(Run("help topology import"), 0) << err_;
  EXPECT_EQ(out_, by_option);
  ASSERT_EQ(Run("help"), 0);
  EXPECT_THAT(out_, HasSubstr("Usage: twofold [OPTIONS] COMMAND\n"));
  EXPECT_EQ(Run("help topolgy"), 2);
  EXPECT_THAT(err_, HasSubstr("unknown command \"topolgy\"; did you mean topology?"));
  EXPECT_EQ(Run("help run fast"), 2);
  EXPECT_THAT(err_, HasSubstr("twofold run has no command \"fast\"; see twofold run --help"));
  ASSERT_EQ(Run("run --help"), 0);
  EXPECT_THAT(out_, HasSubstr("  --out=DIR "));
  EXPECT_THAT(out_, HasSubstr("  --set=FIELD=V "));
  EXPECT_THAT(out_, Not(HasSubstr("TEXT REQUIRED")));
}

TEST_F(Help, WrapsToTheWidth) {
  const auto lines = [&](int columns) {
    RunShell(StrCat("COLUMNS=", columns, " ", TWOFOLD_PROGRAM, " run --help >", At("stdout")));
    return LinesOf(ReadAll(At("stdout"))).size();
  };
  EXPECT_GT(lines(60), lines(80));
  EXPECT_GT(lines(80), lines(110));
}

TEST_F(Help, WritesAllManPages) {
  ASSERT_EQ(Run("man topology show"), 0) << err_;
  const std::string page = out_;
  ASSERT_EQ(Run(StrCat("man --out=", At("man1"))), 0) << err_;
  EXPECT_EQ(ReadAll(At("man1/twofold-topology-show.1")), page);
  EXPECT_THAT(page, StartsWith(".TH TWOFOLD\\-TOPOLOGY\\-SHOW 1 \"\" \"twofold 0."));
  EXPECT_THAT(page, HasSubstr("\n.SH SYNOPSIS\n.B twofold topology show [OPTIONS] CLUSTER\n"));
  EXPECT_EQ(Run(StrCat("man run --out=", At("man1"))), 2);
  EXPECT_EQ(Run(StrCat("man --out=", Write("file", ""))), 2);
  EXPECT_THAT(err_, HasSubstr("--out: "));
}

}  // namespace program_help_test
}  // namespace twofold
