// `twofold schedule`, `topology` and `report`.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "core/base/strings.h"
#include "tests/integration/program.h"

namespace twofold {
namespace program_tools_test {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

TEST_F(Program, PrintsAndDrawsSchedules) {
  ASSERT_EQ(Run(StrCat("schedule GPIPE ONE_F_ONE_B --stages=2 --micro-batches=4 --out=", At("s.svg"))), 0) << err_;
  EXPECT_THAT(out_, HasSubstr("ONE_F_ONE_B: 15 forward passes long, bubble 20.0 %"));
  EXPECT_THAT(out_, HasSubstr("stage 0, at most 4 in flight: F0 F1 F2 F3 B3"));
  EXPECT_THAT(out_, HasSubstr("stage 1, at most 1 in flight: F0 B0 F1 B1 F2 B2 F3 B3"));
  EXPECT_THAT(ReadAll(At("s.svg")), HasSubstr("micro-batch 3"));
  ASSERT_EQ(Run("schedule"), 0) << err_;
  EXPECT_THAT(out_, HasSubstr("F3.1"));
  EXPECT_THAT(out_, HasSubstr("ZERO_BUBBLE_H1: 27 forward passes long"));
  EXPECT_EQ(Run("schedule ONE_B_ONE_F"), 2);
  EXPECT_THAT(err_, HasSubstr("unknown schedule \"ONE_B_ONE_F\"; did you mean ONE_F_ONE_B? (known: GPIPE, "));
  EXPECT_EQ(Run("schedule --stages=0"), 2);
  EXPECT_THAT(err_, HasSubstr("--stages must be from 1 to 4096 (got 0)"));
  EXPECT_EQ(Run("schedule INTERLEAVED_ONE_F_ONE_B --stages=4 --micro-batches=6"), 2);
  EXPECT_THAT(err_, HasSubstr("INTERLEAVED_ONE_F_ONE_B: "));
  EXPECT_EQ(out_, "");
  EXPECT_EQ(Run("schedule GPIPE --virtual-stages=3"), 2);
  EXPECT_THAT(err_, HasSubstr("--virtual-stages=3: is only for INTERLEAVED_ONE_F_ONE_B"));
  EXPECT_EQ(Run(StrCat("schedule --out=", folder_.string())), 2);
  EXPECT_THAT(err_, HasSubstr(StrCat("--out=", folder_.string(), ": cannot be written")));
  EXPECT_EQ(out_, "");
}

// Those that do not fit are left out where none was named.
TEST_F(Program, DrawsTheSchedulesThatFit) {
  ASSERT_EQ(Run(StrCat("schedule --stages=2 --micro-batches=3 --out=", At("s.svg"))), 0) << err_;
  EXPECT_THAT(out_, HasSubstr("GPIPE: "));
  EXPECT_THAT(out_, HasSubstr("ZERO_BUBBLE_H1: "));
  EXPECT_THAT(out_, Not(HasSubstr("INTERLEAVED")));
  EXPECT_THAT(err_, HasSubstr("left out: INTERLEAVED_ONE_F_ONE_B: an interleaved schedule with 2 stages needs a number "
                              "of micro-batches that is a multiple of 2"));
  EXPECT_TRUE(fs::exists(At("s.svg")));
}

TEST_F(Program, RefusesATopologyByTheOption) {
  const std::string folder = folder_.string(), xml = "tests/data/topologies/dgx-h100.nccl.xml";
  const std::pair<std::string, std::string> kWrong[] = {
      {"show dgx-h100 --nodes=0", "--nodes=0: "},
      {"show dgx-h100 --nodes=-2", "--nodes=-2: "},
      {"show dgxh100", "did you mean dgx-h100"},
      {"show dgx-h100 --out=" + folder, StrCat("--out=", folder, ": cannot be written")},
      {"show dgx-h100 --out=/no/folder/x.svg", "--out=/no/folder/x.svg: cannot be written"},
      {"export dgx-h100 --to=dot --out=" + folder, StrCat("--out=", folder, ": cannot be written")},
      {"import " + folder, folder + ": cannot be read: it is a folder"},
      {"import " + At("none.xml"), At("none.xml") + ": cannot be read: No such file or directory"},
      {StrCat("import ", xml, " --nodes=0"), "--nodes must be at least 1 (got 0)"},
      {StrCat("import ", xml, " --out=", folder), StrCat("--out=", folder, ": cannot be written")}};
  for (const auto& [arguments, message] : kWrong) {
    EXPECT_EQ(Run(StrCat("topology ", arguments)), 2) << arguments;
    EXPECT_THAT(err_, HasSubstr(message)) << arguments;
    EXPECT_THAT(out_, IsEmpty()) << arguments;
  }
}

TEST_F(Program, RefusesAPageThatCannotBeWritten) {
  ASSERT_EQ(Run(StrCat("run ", Write("small.textproto", kSmall), " --out=", At("run"))), 0) << err_;
  EXPECT_EQ(Run(StrCat("report ", At("run"), " --out=", At("run"))), 2);
  EXPECT_THAT(err_, HasSubstr(StrCat("--out=", At("run"), ": cannot be written")));
  EXPECT_THAT(out_, IsEmpty());
}

TEST_F(Program, NamesTheFolderWithoutAReport) {
  fs::create_directory(At("empty"));
  EXPECT_EQ(Run(StrCat("compare ", At("empty"), " ", At("none"))), 2);
  EXPECT_THAT(err_, HasSubstr(StrCat(At("empty"), "/report.json")));
  ASSERT_EQ(Run(StrCat("run ", Write("small.textproto", kSmall), " --out=", At("p"))), 0) << err_;
  fs::remove(At("p/spec.textproto"));
  EXPECT_EQ(Run(StrCat("compare ", At("p"), " ", At("p"))), 2);
  EXPECT_THAT(
      err_, HasSubstr(StrCat(
                At("p"),
                "/spec.textproto: cannot be read: No such file or directory; give a folder that `twofold run` wrote")));
}

// What NCCL writes of a DGX-1V gives what the catalogue's dgx-1v gives, and an import of NVIDIA's GPUs communicates by
// NCCL.

}  // namespace program_tools_test
}  // namespace twofold
