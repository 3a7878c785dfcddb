// From options to a fabric and a request: defaults, and what is refused by which name.
#include "experiments/program/bench/plan.h"

#include <functional>

#include "backends/registry.h"
#include "core/base/machine.h"
#include "core/base/strings.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace twofold::bench {
namespace plan_test {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::Not;
using testing::StartsWith;

Options On(std::string operation, std::string fabric = "in_memory") {
  Options o;
  o.operation = std::move(operation);
  o.fabric = std::move(fabric);
  return o;
}
Options Simulated(std::string operation, std::string cluster = "star-a100") {
  Options o = On(std::move(operation), "simulated");
  o.cluster = std::move(cluster);
  return o;
}
bool CanSimulate() { return FindBackend("simulated")->why_not().empty(); }

std::string Refusal(const Options& o) {
  const absl::StatusOr<Plan> plan = MakePlan(o);
  EXPECT_FALSE(plan.ok());
  return plan.ok() ? "" : std::string(plan.status().message());
}
std::string Refusal(Options o, const std::function<void(Options&)>& change) {
  change(o);
  return Refusal(o);
}

TEST(Plan, DefaultsOfARealFabric) {
  const Plan plan = MakePlan(On("all_reduce")).value();
  EXPECT_EQ(plan.bench.ranks, 2);
  EXPECT_FALSE(plan.bench.predicted);
  EXPECT_EQ(plan.bench.fabric, "in_memory");
  EXPECT_EQ(plan.bench.cluster, "");
  const Request& r = plan.bench.request;
  EXPECT_EQ(r.iterations, 20);
  EXPECT_EQ(r.warmup, 5);
  EXPECT_TRUE(r.check);
  EXPECT_FALSE(r.last_rank);
  EXPECT_EQ(r.dtype, DType::kF32);
  EXPECT_EQ(r.blocks.front(), 2);
  EXPECT_EQ(r.blocks.back(), 16 << 20);
  EXPECT_EQ(r.blocks.size(), 24u);
  EXPECT_FALSE(plan.bench.rounded);
}

TEST(Plan, DeviceIsTheFabricsOrTheUsers) {
  EXPECT_EQ(MakePlan(On("all_reduce")).value().bench.device, "cpu");
  Options o = On("all_reduce");
  o.device = "gpu";
  EXPECT_THAT(Refusal(o), HasSubstr("--device must be cpu or cuda (got \"gpu\")"));
  if (CanSimulate()) {
    EXPECT_THAT(Refusal(Simulated("all_reduce"), [](Options& s) { s.device = "cuda"; }),
                HasSubstr("the cluster determines the simulated device"));
  }
  if (!FindBackend("nccl")->why_not().empty()) return;
  o.device = "cpu", o.fabric = "nccl";
  EXPECT_THAT(Refusal(o), HasSubstr("--device=cpu: nccl moves the memory of GPUs only"));
}

// By the option that was given.
TEST(Plan, ReasonsOfAFabricAreBlamedOnWhatWasAskedFor) {
  if (const absl::StatusOr<Plan> plan = MakePlan([] {
        Options o = On("all_reduce");
        o.device = "cuda";
        return o;
      }());
      !plan.ok()) {
    EXPECT_THAT(std::string(plan.status().message()), StartsWith("--device=cuda: device: CUDA is not available: "));
  }
  if (!FindBackend("mpi")->why_not().empty()) GTEST_SKIP() << FindBackend("mpi")->why_not();
  const std::string alone = Refusal(On("all_reduce", "mpi"));
  EXPECT_THAT(alone, AllOf(StartsWith("--fabric=mpi: "), HasSubstr("`mpirun -n 2 twofold ...`"),
                           Not(HasSubstr("run ...")), Not(HasSubstr("--ranks=2:"))));
  EXPECT_THAT(Refusal(On("all_reduce", "mpi"), [](Options& o) { o.ranks = 3; }), StartsWith("--ranks=3: "));
}

TEST(Plan, DefaultsOfAPrediction) {
  if (!CanSimulate()) GTEST_SKIP() << FindBackend("simulated")->why_not();
  Options o = Simulated("all_reduce");
  Plan plan = MakePlan(o).value();
  EXPECT_EQ(plan.bench.ranks, 8);
  EXPECT_TRUE(plan.bench.predicted);
  EXPECT_EQ(plan.bench.cluster, "star-a100");
  EXPECT_EQ(plan.bench.algorithm, "auto");
  EXPECT_EQ(plan.bench.request.iterations, 1);
  EXPECT_EQ(plan.bench.request.warmup, 0);
  EXPECT_FALSE(plan.bench.request.check);
  EXPECT_TRUE(plan.bench.request.last_rank);
  EXPECT_FALSE(plan.bench.request.wait);
  EXPECT_EQ(MakePlan(Simulated("broadcast")).value().bench.request.iterations, 20);  // successive calls overlap
  Options waiting = Simulated("broadcast");
  waiting.wait = true;
  EXPECT_EQ(MakePlan(waiting).value().bench.request.iterations, 1);
  o.nodes = 4;
  EXPECT_EQ(MakePlan(o).value().bench.ranks, 4);  // what they hold
  o.iterations = 3, o.warmup = 2;
  plan = MakePlan(o).value();
  EXPECT_EQ(plan.bench.request.iterations, 3);
  EXPECT_EQ(plan.bench.request.warmup, 2);
}

TEST(Plan, NodesHoldAllTheirDevices) {
  if (!CanSimulate()) GTEST_SKIP() << FindBackend("simulated")->why_not();
  Options o = Simulated("all_reduce", "dgx-h100");
  EXPECT_EQ(MakePlan(o).value().bench.ranks, 8);
  EXPECT_EQ(MakePlan(o).value().bench.protocol, "auto");
  o.nodes = 2;
  EXPECT_EQ(MakePlan(o).value().bench.ranks, 16);
  o.algorithm = "tree", o.protocol = "LL128";
  EXPECT_EQ(MakePlan(o).value().bench.protocol, "LL128");
  EXPECT_THAT(Refusal(o, [](Options& o) { o.ranks = 17; }), AllOf(HasSubstr("--ranks=17"), HasSubstr("16")));
  EXPECT_THAT(Refusal(o, [](Options& o) { o.nodes = 8193; }), AllOf(HasSubstr("--nodes=8193"), HasSubstr("1 to 8192")));
}

TEST(Plan, ProtocolsAreNcclS) {
  if (!CanSimulate()) GTEST_SKIP() << FindBackend("simulated")->why_not();
  const Options sum = Simulated("all_reduce", "dgx-h100");
  EXPECT_THAT(Refusal(sum, [](Options& o) { o.protocol = "LL64"; }),
              AllOf(HasSubstr("--protocol=LL64"), HasSubstr("auto, LL, LL128, Simple")));
  EXPECT_THAT(Refusal(sum, [](Options& o) { o.algorithm = "nvls", o.protocol = "LL"; }),
              AllOf(HasSubstr("--protocol=LL"), HasSubstr("nvls")));
  EXPECT_THAT(Refusal(Simulated("send_recv", "dgx-h100"), [](Options& o) { o.protocol = "LL"; }),
              HasSubstr("--protocol=LL"));
  EXPECT_THAT(Refusal(Simulated("all_reduce"), [](Options& o) { o.protocol = "LL"; }),
              AllOf(HasSubstr("--protocol=LL"), HasSubstr("no protocols")));
  EXPECT_EQ(MakePlan(Simulated("all_reduce")).value().bench.protocol, "");
}

TEST(Plan, TakesTypesByBothNames) {
  for (const auto& [name, dtype] : {std::pair("half", DType::kF16),
                                    {"f16", DType::kF16},
                                    {"bfloat16", DType::kBF16},
                                    {"double", DType::kF64},
                                    {"int32", DType::kI32},
                                    {"uint8", DType::kU8}}) {
    Options o = On("reduce");
    o.dtype = name, o.reduce = "prod", o.root = 1;
    const Request r = MakePlan(o).value().bench.request;
    EXPECT_EQ(r.dtype, dtype) << name;
    EXPECT_EQ(r.reduce, ReduceOp::kProduct);
    EXPECT_EQ(r.root, 1);
  }
}

TEST(Plan, LeavesOutSizesThatHoldNothing) {
  Options o = On("all_gather");
  o.ranks = 3, o.most = "64";
  Plan plan = MakePlan(o).value();
  EXPECT_THAT(plan.bench.request.blocks,
              ElementsAre(1, 2, 5));  // of 16, 32 and 64 bytes; 8 hold less than three floats
  EXPECT_TRUE(plan.bench.rounded);
  o.least = "12", o.most = "20", o.step = "1";
  EXPECT_THAT(MakePlan(o).value().bench.request.blocks, ElementsAre(1));  // once, not nine times
  o.least = "1", o.most = "8";
  EXPECT_THAT(Refusal(o), AllOf(HasSubstr("--maxbytes=8"), HasSubstr("use 12 or more")));
}

TEST(Plan, ALargeLeastSizeIsItsOwnRange) {
  Options o = On("all_reduce");
  o.least = "1G";
  EXPECT_THAT(MakePlan(o).value().bench.request.blocks, ElementsAre(1 << 28));
}

TEST(Plan, RefusesByName) {
  EXPECT_THAT(Refusal(On("all_sing")), AllOf(HasSubstr("all_sing"), HasSubstr("all_reduce, all_gather")));
  EXPECT_THAT(Refusal(On("allreduce")), HasSubstr("unknown operation \"allreduce\"; did you mean all_reduce"));
  EXPECT_THAT(Refusal(On("all_reduce", "telepathy")), AllOf(HasSubstr("--fabric=telepathy"), HasSubstr("in_memory")));
  const Options sum = On("all_reduce");
  EXPECT_THAT(Refusal(sum, [](Options& o) { o.protocol = "LL"; }),
              HasSubstr("--protocol=LL: is only for simulated clusters"));
  EXPECT_THAT(Refusal(sum, [](Options& o) { o.cluster = "star-a100"; }), HasSubstr("--cluster=star-a100"));
  EXPECT_THAT(Refusal(sum, [](Options& o) { o.nodes = 2; }), HasSubstr("--nodes=2"));
  EXPECT_THAT(Refusal(sum, [](Options& o) { o.algorithm = "ring"; }), HasSubstr("--algorithm=ring"));
  EXPECT_THAT(Refusal(sum, [](Options& o) { o.ranks = 0; }), HasSubstr("--ranks must be from 1 to 1048576 (got 0)"));
  const int64_t most = MostThreads().threads / 2;  // a rank's own thread and one that communicates
  if (most < 1 << 20) {
    EXPECT_THAT(
        Refusal(sum, [most](Options& o) { o.ranks = static_cast<int>(most + 1); }),
        AllOf(HasSubstr(StrCat("--ranks=", most + 1, ": fabric.in_memory: ", most + 1, " ranks need 2 threads each")),
              HasSubstr(StrCat("use 1 to ", most, " ranks"))));
  }
  EXPECT_THAT(Refusal(sum, [](Options& o) { o.least = "12Q"; }), HasSubstr("--minbytes: \"12Q\""));
  EXPECT_THAT(Refusal(sum, [](Options& o) { o.most = "4"; }), HasSubstr("--minbytes=8"));
  EXPECT_THAT(Refusal(sum, [](Options& o) { o.step = "8", o.factor = 2; }),
              HasSubstr("--stepfactor and --stepbytes are both given"));
  EXPECT_THAT(Refusal(sum, [](Options& o) { o.iterations = 0; }),
              HasSubstr("--iters must be from 1 to 1048576 (got 0)"));
  EXPECT_THAT(Refusal(sum, [](Options& o) { o.warmup = -1; }),
              HasSubstr("--warmup_iters must be from 0 to 1048576 (got -1)"));
  EXPECT_THAT(Refusal(sum, [](Options& o) { o.check = 2; }), HasSubstr("--check must be from 0 to 1 (got 2)"));
  EXPECT_THAT(Refusal(sum, [](Options& o) { o.dtype = "quad"; }),
              AllOf(HasSubstr("(got \"quad\")"), HasSubstr("bfloat16")));
  EXPECT_THAT(Refusal(sum, [](Options& o) { o.reduce = "xor"; }),
              HasSubstr("--op must be sum, prod, min, max or avg (got \"xor\")"));
  EXPECT_THAT(Refusal(sum, [](Options& o) { o.root = 0; }), HasSubstr("--root=0: all_reduce has no root"));
  EXPECT_THAT(Refusal(sum, [](Options& o) { o.out = "/no such folder/x.csv"; }),
              HasSubstr("--out=/no such folder/x.csv"));
  EXPECT_THAT(Refusal(On("gather"), [](Options& o) { o.reduce = "sum"; }),
              HasSubstr("--op=sum: gather does not reduce"));
  EXPECT_THAT(Refusal(On("reduce"), [](Options& o) { o.root = 2; }),
              HasSubstr("--root must be a rank, from 0 to 1 (got 2)"));
  EXPECT_THAT(Refusal(On("send_recv"), [](Options& o) { o.ranks = 1; }), HasSubstr("--ranks=1"));
}

TEST(Plan, RefusesWhatTheSimulatorCannot) {
  if (!CanSimulate()) GTEST_SKIP() << FindBackend("simulated")->why_not();
  const Options sum = Simulated("all_reduce");
  EXPECT_THAT(Refusal(Simulated("all_reduce", "moon")),
              AllOf(HasSubstr("--cluster"), HasSubstr("moon"), HasSubstr("star-a100")));
  EXPECT_THAT(Refusal(sum, [](Options& o) { o.ranks = 20000; }), AllOf(HasSubstr("--ranks=20000"), HasSubstr("16384")));
  EXPECT_THAT(Refusal(sum, [](Options& o) { o.nodes = 4, o.ranks = 5; }), HasSubstr("--ranks=5"));
  EXPECT_THAT(Refusal(sum, [](Options& o) { o.nodes = 20000; }), HasSubstr("--nodes=20000"));
  EXPECT_THAT(Refusal(Simulated("all_reduce", "this-machine"), [](Options& o) { o.nodes = 2; }),
              HasSubstr("--nodes=2"));
  EXPECT_THAT(Refusal(sum, [](Options& o) { o.check = 1; }), HasSubstr("--check=1"));
  EXPECT_THAT(Refusal(sum, [](Options& o) { o.algorithm = "rong"; }),
              AllOf(HasSubstr("--algorithm=rong"), HasSubstr("ring")));
  EXPECT_THAT(Refusal(sum, [](Options& o) { o.algorithm = "shared_memory"; }), HasSubstr("--algorithm=shared_memory"));
  EXPECT_THAT(Refusal(Simulated("gather"), [](Options& o) { o.algorithm = "ring"; }),
              AllOf(HasSubstr("--algorithm=ring: cannot run gather"), HasSubstr("auto, tree, direct")));
  EXPECT_THAT(Refusal(Simulated("send_recv"), [](Options& o) { o.algorithm = "ring"; }),
              HasSubstr("send_recv uses no collective algorithm"));
}

}  // namespace plan_test
}  // namespace twofold::bench
