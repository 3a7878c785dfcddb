// One suite over every row of the registry: conformance_test [--fabric=NAME] [--list-fabrics] [GoogleTest's flags].
//
// A row whose ranks are processes is tested by this program once more: started under the row's launcher, most_ranks
// times at once. All of these processes run the same tests in the same order; the one that the fabric lets speak
// asserts what ranks found, the others that the run ended well, and only failures of theirs are printed.
#include <iostream>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "experiments/program/cli/command_line.h"
#include "gtest/gtest.h"
#include "tests/conformance/launch.h"
#include "tests/conformance/rows.h"

namespace twofold::conformance {
namespace conformance_test {

bool g_spoke = true;  // in the last test, this process had the results

class ConformanceTest : public testing::Test {
 public:
  ConformanceTest(const Row& row, const Case& c, int ranks) : row_(row), case_(c), ranks_(ranks) {}

 private:
  void TestBody() override {
    if (!row_.why_not.empty()) GTEST_SKIP() << row_.name << ": " << row_.why_not;
    auto fabric = row_.make(row_.spec);
    ASSERT_TRUE(fabric.ok()) << fabric.status();
    const Outcome outcome = RunCase(**fabric, case_, ranks_, row_.exact_reductions);
    g_spoke = outcome.speaks;
    ASSERT_TRUE(outcome.status.ok()) << outcome.status;
    if (!outcome.speaks) return;
    ASSERT_EQ(outcome.reports.size(), static_cast<size_t>(ranks_));
    for (const std::string& report : outcome.reports) EXPECT_TRUE(report == kFine) << report;
  }

  const Row& row_;
  const Case& case_;
  const int ranks_;
};

void Register(const Row& row, const std::vector<Case>& cases) {
  for (const Case& c : cases) {
    for (const int ranks : c.worlds) {
      if (ranks > row.most_ranks) continue;
      testing::RegisterTest(row.name.c_str(), StrCat(c.name, "_", ranks, "_ranks").c_str(), nullptr, nullptr, __FILE__,
                            __LINE__,
                            [&row, &c, ranks]() -> ConformanceTest* { return new ConformanceTest(row, c, ranks); });
    }
  }
}

// What one of several processes prints: its failures, and the course of the tests if it speaks.
class OneOfSeveralPrinter : public testing::EmptyTestEventListener {
  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (!result.failed()) return;
    std::cout << result.file_name() << ":" << result.line_number() << ": " << result.message() << std::endl;
  }
  void OnTestEnd(const testing::TestInfo& test) override {
    const bool failed = test.result()->Failed();
    if (!failed && !g_spoke) return;
    std::cout << (failed ? "[  FAILED  ] " : "[       OK ] ") << test.test_suite_name() << "." << test.name() << " ("
              << test.result()->elapsed_time() << " ms)" << std::endl;
  }
  void OnTestProgramEnd(const testing::UnitTest& program) override {
    if (!g_spoke) return;
    std::cout << program.successful_test_count() << " tests passed, " << program.failed_test_count() << " failed"
              << std::endl;
  }
};

struct Flags {
  std::string fabric;
  bool list = false, launched = false;
};

// "in_memory", "mpi processes", "mpi_cuda gpu processes": what CMake makes a test of, and its labels besides
// "conformance".
void ListRows() {
  for (const Row& row : Rows())
    std::cout << row.name << " " << row.label << (row.launcher.empty() ? "" : " processes") << "\n";
}

int RunRows(const Flags& flags, const std::vector<std::string>& arguments) {
  const std::vector<Case> cases = AllCases();
  std::vector<std::vector<std::string>> commands;
  for (const Row& row : Rows()) {
    if (!flags.fabric.empty() && row.name != flags.fabric) continue;
    if (flags.launched || row.launcher.empty() || !row.why_not.empty()) {
      Register(row, cases);
      continue;
    }
    commands.push_back(row.launcher);
    commands.back().insert(commands.back().end(), arguments.begin(), arguments.end());
    for (const std::string& flag : {StrCat("--fabric=", row.name), std::string("--launched")})
      commands.back().push_back(flag);
  }
  if (flags.launched) {
    auto& listeners = testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new OneOfSeveralPrinter);
  }
  int status = testing::UnitTest::GetInstance()->total_test_count() > 0 ? RUN_ALL_TESTS() : 0;
  for (const std::vector<std::string>& command : commands) {
    std::cout << absl::StrJoin(command, " ") << std::endl;
    const int ended = RunToItsEnd(command);
    if (ended != 0) std::cout << "exited with status " << ended << std::endl;
    status = status == 0 ? ended : status;
  }
  return status;
}

}  // namespace conformance_test
}  // namespace twofold::conformance

int main(int argc, char** argv) {
  using namespace twofold::conformance;
  using namespace twofold::conformance::conformance_test;
  const std::vector<std::string> arguments(argv, argv + argc);  // for processes that this one starts
  testing::InitGoogleTest(&argc, argv);
  std::vector<std::string> names;
  for (const Row& row : Rows()) names.push_back(row.name);
  Flags flags;
  twofold::CommandLine line("Runs one test suite on every fabric of the registry.", "conformance_test");
  line.root().AddOption("--fabric", flags.fabric, "run only this row").OneOf(names).LastCounts();
  line.root().AddFlag("--list-fabrics", flags.list, "print the rows and exit");
  line.root().AddFlag("--launched", flags.launched, "this process was started by a row's launcher");
  if (const absl::Status parsed = line.Parse(argc, argv); !parsed.ok()) {
    std::cerr << parsed.message() << std::endl;
    return 2;
  }
  if (flags.list) {
    ListRows();
    return 0;
  }
  return RunRows(flags, arguments);
}
