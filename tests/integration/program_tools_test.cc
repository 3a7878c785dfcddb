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

// A fat tree of 256 nodes grows to as many as 3 levels of its switches join.
TEST_F(Program, GrowsFatTreesAndRefusesNodesThatAClusterCannotHave) {
  const std::string small =
      Write("small.textproto", "model { mlp { inputs: 8 hidden: [16] classes: 4 } }\nfabric { simulated {} }\n");
  const std::string cluster = " --set=fabric.simulated.cluster=dgx-h100";
  const std::string refusal =
      "cluster dgx-h100 can have 8,192 nodes at most, as a fat tree of 3 levels of switches with "
      "64 ports, with an oversubscription of 1 at the leaves and of 1 between pods; use 1 to "
      "8192";
  for (const char* command : {"run --check ", "memory "}) {
    EXPECT_EQ(Run(StrCat(command, small, cluster, " --set=fabric.simulated.nodes=8193")), 2);
    EXPECT_THAT(err_, HasSubstr("--set fabric.simulated.nodes=8193: fabric.simulated.nodes: 8193: " + refusal));
    for (const int nodes : {256, 8192})
      EXPECT_EQ(Run(StrCat(command, small, cluster, " --set=fabric.simulated.nodes=", nodes)), 0) << err_;
    EXPECT_EQ(Run(StrCat(command, small, " --set=fabric.simulated.cluster=alps --set=fabric.simulated.nodes=2689")), 2);
    EXPECT_THAT(err_, HasSubstr("cluster alps has 2,688 nodes; use 1 to 2688"));
  }
  EXPECT_EQ(Run("bench all_reduce --fabric=simulated --cluster=dgx-h100 --nodes=8193"), 2);
  EXPECT_THAT(err_, HasSubstr("--nodes=8193: " + refusal));
  EXPECT_EQ(Run("bench all_reduce --fabric=simulated --cluster=dgx-h100 --nodes=257 -b 1M -e 1M"), 0) << err_;
  EXPECT_EQ(Run(StrCat("topology show dgx-h100 --nodes=8193 --out=", At("t.svg"))), 2);
  EXPECT_THAT(err_, HasSubstr("--nodes=8193: " + refusal));
}

TEST_F(Program, ChangesTheOversubscriptionOfFatTrees) {
  const std::string spec =
      Write("wide.textproto",
            "model { mlp { inputs: 64 hidden: [65536] classes: 4 } }\nparallel { dp: 512 }\n"
            "train { steps: 1 micro_batch: 1 global_batch: 512 }\n"
            "fabric { simulated { cluster: 'dgx-h100' algorithm: 'ring' placement { policy: RANDOM } } }\n");
  const auto seconds = [&](const std::string& set) {
    EXPECT_EQ(Run(StrCat("run ", spec, set, " --notes=full --out=", At("wide"))), 0) << err_;
    return Report(At("wide"))["median_step_seconds"].get<double>();
  };
  const double full = seconds("");
  EXPECT_GT(seconds(" --set=fabric.simulated.oversubscription=8"), full);
  EXPECT_THAT(out_, HasSubstr("cluster dgx-h100 has another oversubscription than its description: a fat tree of"));
  EXPECT_EQ(Run(StrCat("run --check ", spec, " --set=fabric.simulated.oversubscription=100")), 2);
  EXPECT_THAT(err_, HasSubstr("fabric.simulated.oversubscription: 100: cluster dgx-h100 cannot be built with it: "));
  EXPECT_EQ(Run(StrCat("run --check ", spec, " --set=fabric.simulated.cluster=alps",
                       " --set=fabric.simulated.top_oversubscription=2")),
            2);
  EXPECT_THAT(err_,
              HasSubstr("fabric.simulated.top_oversubscription: 2: the network of cluster alps is not a fat tree"));
}

// A catalogue cluster, exported and read again, predicts the same.
TEST_F(Program, ExportsAClusterToEdit) {
  const std::string file = At("mine.textproto");
  ASSERT_EQ(Run(StrCat("topology export dgx-h100 --to=cluster --nodes=1024 --out=", file)), 0) << err_;
  const auto bench = [&](const std::string& cluster) {
    EXPECT_EQ(Run(StrCat("bench all_reduce --fabric=simulated -b 1M -e 1M --nodes=1024 --cluster=", cluster)), 0)
        << err_;
    return out_.substr(out_.find("     1048576  "), 80);
  };
  EXPECT_EQ(bench("dgx-h100"), bench(file));
}

}  // namespace program_tools_test
}  // namespace twofold
