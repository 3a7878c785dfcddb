// The program over NCCL, a process a rank, on emulated GPUs: it benches every operation, trains, and reports where.
#include <gmock/gmock.h>

#include "tests/integration/models.h"
#include "tests/integration/program.h"

namespace twofold {
namespace nccl_program_test {

using ::testing::HasSubstr;

class ProgramOnNccl : public Program {
 protected:
  void SetUp() override {
    setenv("TWOFOLD_EMULATED_GPUS", "3", 1);
    setenv("TWOFOLD_EMULATED_GPU_MIB", "1024", 1);
  }
};

TEST_F(ProgramOnNccl, BenchesEveryOperation) {
  for (const char* operation : {"all_reduce", "all_gather", "reduce_scatter", "broadcast", "reduce", "gather",
                                "scatter", "all_to_all", "send_recv"}) {
    ASSERT_EQ(
        Run(StrCat("launch --ranks=3 --fabric=nccl -- bench ", operation, " --json -b 12 -e 192K -f 128 -n 2 -w 1")), 0)
        << err_;
    EXPECT_EQ(err_.find("emulated NCCL"), std::string::npos) << err_;
    const nlohmann::json bench = nlohmann::json::parse(out_);
    EXPECT_EQ(bench["fabric"], "nccl");
    EXPECT_EQ(bench["device"], "cuda");
    EXPECT_EQ(bench["ranks"], 3);
    EXPECT_EQ(bench["out_of_bounds"], 0) << operation;
    ASSERT_EQ(bench["results"].size(), 3u) << operation;
    for (const nlohmann::json& row : bench["results"]) {
      const nlohmann::json& timing = row["in_place"].is_null() ? row["out_of_place"] : row["in_place"];
      const double bytes = row["size"], microseconds = timing["time"], bandwidth = timing["alg_bw"];
      EXPECT_NEAR(bandwidth / (bytes / microseconds * 1e-3), 1, 1e-9) << operation;
    }
  }
}

TEST_F(ProgramOnNccl, TrainsAndSaysWhere) {
  const std::string spec =
      Write("small.textproto",
            StrCat(test::kTinyMlp, "train { steps: 5 }\nparallel { dp: 2 sharding: ZERO_3 }\ndevice: CUDA\n"));
  ASSERT_EQ(Run(StrCat("launch --ranks=2 --fabric=nccl -- run ", spec, " --quiet --out=", At("nccl"))), 0) << err_;
  ASSERT_EQ(Run(StrCat("run ", spec, " --quiet --fabric=in_memory --out=", At("threads"))), 0) << err_;
  const nlohmann::json nccl = Report(At("nccl")), threads = Report(At("threads"));
  EXPECT_EQ(nccl["fabric"], "nccl");
  EXPECT_THAT(nccl["notes"].dump(), HasSubstr("NCCL 2.28.9 (emulated)"));
  ASSERT_EQ(nccl["steps"].size(), 5u);
  for (size_t i = 0; i < 5; ++i) {
    const double a = nccl["steps"][i]["loss"], b = threads["steps"][i]["loss"];
    EXPECT_NEAR(a, b, 1e-5 * b);
  }
  for (size_t r = 0; r < 2; ++r) {
    for (const char* field : {"peak_bytes", "reserved_bytes"})
      EXPECT_EQ(nccl["ranks"][r][field], threads["ranks"][r][field]) << field << " of rank " << r;
  }
}

// The losses are those of threads with the same members.
TEST_F(ProgramOnNccl, GoesOnAsThreadsDoIfARankIsKilled) {
  for (const char* layout : {"", "sharding: ZERO_1", "sharding: ZERO_3"}) {
    SCOPED_TRACE(layout);
    const std::string spec =
        Write("elastic.textproto",
              StrCat(test::kTinyMlp, "train { steps: 9 warmup_steps: 0 global_batch: 12 micro_batch: 1 elastic { ",
                     *layout == '\0' ? "" : "shard_copies: 1 ", "events { step: 4 lose: [1] } } }\n",
                     "parallel { dp: 3 ", layout, " }\nfabric { timeout_s: 60 }\ndevice: CUDA\n"));
    ASSERT_EQ(Run(StrCat("launch --ranks=3 --fabric=nccl -- run ", spec, " --quiet --out=", At("nccl"))), 0) << err_;
    EXPECT_EQ(err_.find("emulated NCCL"), std::string::npos) << err_;
    ASSERT_EQ(Run(StrCat("run ", spec, " --quiet --fabric=in_memory --set=device=CPU --out=", At("threads"))), 0)
        << err_;
    const nlohmann::json nccl = Report(At("nccl")), threads = Report(At("threads"));
    EXPECT_EQ(nccl["outcome"], "OK");
    ASSERT_EQ(nccl["generations"].size(), 2u);
    EXPECT_EQ(nccl["generations"][1]["members"], nlohmann::json({0, 2}));
    EXPECT_EQ(nccl["generations"][1]["from"], "peers");
    ASSERT_EQ(nccl["steps"].size(), 9u);
    for (size_t i = 0; i < 9; ++i) EXPECT_NEAR(nccl["steps"][i]["loss"], threads["steps"][i]["loss"], 1e-4) << i;
  }
}

// Within a step; then a rank that stands by takes the lost one's place.
TEST_F(ProgramOnNccl, GoesOnIfARankIsKilledAtAnyTime) {
  const std::string spec =
      Write("elastic.textproto",
            StrCat(test::kTinyMlp, "train { steps: 150 warmup_steps: 0 global_batch: 12 micro_batch: 1 elastic { ",
                   "spare_replicas: 1 events { at_s: 0.4 lose: [1] } } }\nparallel { dp: 2 }\n",
                   "fabric { timeout_s: 60 }\ndevice: CUDA\n"));
  ASSERT_EQ(Run(StrCat("launch --ranks=3 --fabric=nccl -- run ", spec, " --quiet --out=", At("nccl"))), 0) << err_;
  EXPECT_EQ(err_.find("emulated NCCL"), std::string::npos) << err_;
  const nlohmann::json nccl = Report(At("nccl"));
  EXPECT_EQ(nccl["outcome"], "OK");
  ASSERT_EQ(nccl["generations"].size(), 2u) << nccl["generations"].dump();
  EXPECT_EQ(nccl["generations"][1]["members"], nlohmann::json({0, 2}));
  EXPECT_EQ(nccl["generations"][1]["dp"], 2);
  EXPECT_EQ(nccl["steps"].size(), 150u);
}

TEST_F(ProgramOnNccl, RefusesOtherDevices) {
  const std::string spec = Write("small.textproto", StrCat(test::kTinyMlp, "parallel { dp: 2 }\n"));
  EXPECT_EQ(Run(StrCat("launch --ranks=2 --fabric=nccl -- run ", spec)), 2);
  EXPECT_THAT(err_, HasSubstr("device: CPU"));
  EXPECT_THAT(err_, HasSubstr("CUDA"));
  EXPECT_EQ(Run("bench all_reduce --fabric=nccl --device=cpu"), 2);
  EXPECT_THAT(err_, HasSubstr("--device=cpu: nccl moves the memory of GPUs only"));
}

}  // namespace nccl_program_test
}  // namespace twofold
