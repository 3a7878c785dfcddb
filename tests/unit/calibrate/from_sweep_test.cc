// Constants of a cluster's links, from tables of collectives that a cluster with known constants would have measured.
#include "experiments/program/calibrate/from_sweep.h"

#include <google/protobuf/text_format.h>

#include <filesystem>
#include <fstream>

#include "core/base/strings.h"
#include "experiments/program/bench/plan.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "topologies/catalogue.h"

namespace twofold {
namespace from_sweep_test {

using testing::HasSubstr;

std::string Path(const std::string& name) { return StrCat(testing::TempDir(), "/", name); }

// The rows that `cluster` would give: 4 KiB to 2 GiB.
std::string RowsOf(const std::string& cluster, const std::string& collective, int ranks, int nodes) {
  absl::StatusOr<bench::Plan> plan = bench::MakePlan({.operation = collective,
                                                      .least = "4K",
                                                      .most = "2G",
                                                      .factor = 2,
                                                      .fabric = "simulated",
                                                      .ranks = ranks,
                                                      .nodes = nodes,
                                                      .cluster = cluster});
  EXPECT_TRUE(plan.ok()) << plan.status();
  EXPECT_TRUE(bench::Run(*plan).ok());
  std::string rows;
  for (const bench::Row& row : plan->bench.rows)
    StrAppend(&rows, collective, ",", ranks, ",", nodes, ",", row.bytes, ",",
              1e6 * (row.out_of_place ? row.out_of_place : row.in_place)->seconds, "\n");
  return rows;
}

// Of one node. program_calibrate_test has several.
TEST(FromSweepTest, FindsTheConstantsOfTheNodeThatMeasured) {
  cluster::Cluster truth = *FindCluster("dgx-a100");
  cluster::Nccl& nccl = *truth.mutable_library()->mutable_nccl();
  nccl.set_nvlink_efficiency(0.6), nccl.set_call_us(9);
  std::string text;
  google::protobuf::TextFormat::PrintToString(truth, &text);
  const std::string measured = Path("truth.textproto"), table = Path("sweep.csv"), out = Path("fitted.textproto");
  std::ofstream(measured) << text;
  std::ofstream(table) << "collective,ranks,nodes,bytes,us\n" << RowsOf(measured, "all_reduce", 4, 1);
  const absl::Status status = calibrate::CalibrateSweep({.table = table, .cluster = "dgx-a100", .out = out});
  ASSERT_TRUE(status.ok()) << status;
  const absl::StatusOr<cluster::Cluster> fitted = FindCluster(out);
  ASSERT_TRUE(fitted.ok()) << fitted.status();
  EXPECT_NEAR(fitted->library().nccl().nvlink_efficiency(), 0.6, 0.012);
  EXPECT_FALSE(fitted->library().nccl().has_network_efficiency()) << "no row is of several nodes";
  EXPECT_NEAR(fitted->library().nccl().call_us(), 9, 1);
  EXPECT_THAT(fitted->source(), HasSubstr("fitted to sweep.csv"));
  EXPECT_EQ(fitted->device().name(), truth.device().name());
  EXPECT_FALSE(std::filesystem::exists(out + ".fit.textproto"));
}

TEST(FromSweepTest, RefusesWhatItCannotFit) {
  const auto refused = [](const std::string& rows, calibrate::FromSweep options = {}) {
    options.table = Path("refused.csv");
    std::ofstream(options.table) << rows;
    if (options.cluster.empty()) options.cluster = "dgx-a100";
    if (options.out.empty()) options.out = Path("refused.textproto");
    return std::string(calibrate::CalibrateSweep(options).message());
  };
  const std::string header = "collective,ranks,nodes,bytes,us\n";
  EXPECT_THAT(refused("m,n,k,us\n1,2,3,4\n"),
              HasSubstr("has the columns m, n, k, us; a table of collectives has collective"));
  EXPECT_THAT(refused(header + "all_reduce,8,1,1024,20\n"), HasSubstr("has 1 usable rows; a fit needs 20 or more"));
  EXPECT_THAT(refused(header + "reduce_all,8,1,1024,20\n"), HasSubstr("row 1: collective: \"reduce_all\""));
  EXPECT_THAT(refused(header + "all_reduce,8,3,1024,20\n"), HasSubstr("row 1: nodes: 3: does not divide ranks = 8"));
  EXPECT_THAT(refused(header + "all_reduce,8,1,1024,0\n"), HasSubstr("row 1: us: 0: must be greater than 0"));
  EXPECT_THAT(refused(header, {.cluster = "dgx-a10"}), HasSubstr("did you mean dgx-a100"));
  EXPECT_THAT(refused(header, {.cluster = "star-a100"}), HasSubstr("constants of nccl and rccl are fitted"));
  EXPECT_THAT(refused(header, {.out = Path("cluster.csv")}), HasSubstr("must end in .textproto"));
  std::string rows = header;
  for (int i = 0; i < 20; ++i) StrAppend(&rows, "all_reduce,32,2,", 1024 << i, ",50\n");
  EXPECT_THAT(refused(rows), HasSubstr("all_reduce, 32 ranks on 2 nodes: --ranks-per-node=16: a node of cluster"));
  EXPECT_FALSE(std::filesystem::exists(Path("refused.textproto")));
}

}  // namespace from_sweep_test
}  // namespace twofold
