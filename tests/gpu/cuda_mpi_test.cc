// Training on GPUs over MPI, through the program: the losses of the CPU, the memory that was predicted, and what
// becomes of buffers that MPI cannot reach. In mode EMULATED no thread of the host reaches a GPU's memory, so that a
// buffer which is passed on by mistake ends the run.
#include <gmock/gmock.h>

#include <cmath>

#include "backends/host/cuda.h"
#include "tests/gpu/against_cpu.h"
#include "tests/integration/models.h"
#include "tests/integration/program.h"
#include "tests/unit/mpi/job.h"

namespace twofold {
namespace cuda_mpi_test {

using ::testing::AllOf;
using ::testing::HasSubstr;

// "" where these tests can run.
std::string WhyNot(const char* program) {
  if (const std::string why = host::WhyNoCuda(); !why.empty()) return StrCat("skipped without a GPU: ", why);
  if (!fs::exists(program)) return StrCat("skipped: ", program, " is not there");
  return std::system("command -v mpirun > /dev/null") == 0 ? "" : "skipped without mpirun";
}

class CudaMpi : public Program {
 protected:
  void SetUp() override {
    if (const std::string why = WhyNot(TWOFOLD_PROGRAM); !why.empty()) GTEST_SKIP() << why;
  }
  // "" on success.
  std::string Launch(int ranks, const std::string& words) {
    const int status = Run(StrCat("launch --ranks=", ranks, " -- ", words));
    return status == 0 ? "" : StrCat("status ", status, ": ", err_);
  }
};

constexpr char kStaged[] = "fabric { mpi { gpu_buffers: STAGED } timeout_s: 300 }\ndevice: CUDA\n";
constexpr char kPredicted[] =
    "fabric { simulated { cluster: \"star-h100\" links: \"staged\" } timeout_s: 300 }\ndevice: CUDA\n";

struct Layout {
  const char* name;
  int ranks;
  const char* parallel;
  const char* train = "";
};
void PrintTo(const Layout& layout, std::ostream* out) { *out << layout.name; }

class CudaMpiLayouts : public CudaMpi, public ::testing::WithParamInterface<Layout> {};

TEST_P(CudaMpiLayouts, TrainAsOnTheCpuInTheMemoryThatWasPredicted) {
  const Layout& l = GetParam();
  const std::string text = StrCat(test::kTinyGpt, "train { steps: 4 micro_batch: 2 global_batch: 8 ", l.train,
                                  " }\nparallel { ", l.parallel, " }\n");
  const std::string gpu = Write("gpu.textproto", text + kStaged), cpu = Write("cpu.textproto", text);
  const std::string predicted = Write("predicted.textproto", text + kPredicted);
  ASSERT_EQ(Launch(l.ranks, StrCat("run ", gpu, " --quiet --out=", At("mpi"))), "");
  ASSERT_EQ(Run(StrCat("run ", cpu, " --quiet --fabric=in_memory --out=", At("threads"))), 0) << err_;
  ASSERT_EQ(Run(StrCat("run ", predicted, " --quiet --out=", At("predicted"))), 0) << err_;
  ASSERT_EQ(Run(StrCat("memory ", gpu, " --out=", At("replayed"))), 0) << err_;

  const nlohmann::json mpi = Report(At("mpi")), threads = Report(At("threads"));
  ASSERT_EQ(mpi["steps"].size(), 4u);
  for (size_t i = 0; i < 4; ++i) {
    const double a = mpi["steps"][i]["loss"], b = threads["steps"][i]["loss"];
    EXPECT_NEAR(a, b, 1e-4 * b) << "step " << i;
  }
  EXPECT_THAT(mpi["notes"].dump(),
              HasSubstr("buffers on GPUs are staged: each group copies through 4096 KiB of pinned host memory"));

  const nlohmann::json measured = mpi["ranks"], simulated = Report(At("predicted"))["ranks"],
                       replayed = Report(At("replayed"))["ranks"];
  ASSERT_EQ(static_cast<int>(measured.size()), l.ranks);
  for (const nlohmann::json& prediction : {simulated, replayed}) {
    ASSERT_EQ(prediction.size(), measured.size());
    for (size_t r = 0; r < measured.size(); ++r) {
      for (const char* field : {"peak_bytes", "reserved_bytes", "categories", "host_peak_bytes", "host_reserved_bytes",
                                "host_categories"}) {
        EXPECT_EQ(prediction[r][field], measured[r][field]) << field << ", rank " << r;
      }
    }
  }
  EXPECT_GE(measured[0]["host_peak_bytes"], 4 << 20);
}

INSTANTIATE_TEST_SUITE_P(Layouts, CudaMpiLayouts,
                         ::testing::Values(Layout{"Ddp", 2, "dp: 2 bucket_mib: 0.01"},
                                           Layout{"Zero3", 2, "dp: 2 sharding: ZERO_3 offload: OFFLOAD_OPTIMIZER"},
                                           Layout{"Tensor", 2, "tp: 2"},
                                           Layout{"PipelineData", 4, "pp: 2 dp: 2 sharding: ZERO_1",
                                                  "activation_checkpointing {}"}),
                         [](const auto& info) { return std::string(info.param.name); });

// By itself it is staged where MPI has no CUDA, as here, and said so.
TEST_F(CudaMpi, PassesOnWhatMpiReachesAndStagesTheRest) {
  const std::string spec =
      Write("spec.textproto",
            StrCat(test::kTinyMlp, "train { steps: 2 }\nparallel { dp: 2 }\nfabric { mpi {} }\ndevice: CUDA\n"));
  ASSERT_EQ(Launch(2, StrCat("run ", spec, " --quiet --out=", At("mpi"))), "");
  const std::string notes = Report(At("mpi"))["notes"].dump();
  const bool staged = notes.find("buffers on GPUs are staged") != std::string::npos;
  EXPECT_EQ(staged, notes.find("is not CUDA-aware") != std::string::npos || host::GpusAreEmulated()) << notes;
  EXPECT_EQ(!staged, notes.find("buffers on GPUs are passed on to ") != std::string::npos) << notes;
  const std::string insisting =
      StrCat("run ", spec, " --quiet --set=fabric.mpi.gpu_buffers=PASSED_ON --out=", At("insisting"));
  EXPECT_EQ(Run(StrCat("launch --ranks=2 -- ", insisting)) == 0, !staged);
  if (!staged) return;
  EXPECT_THAT(err_,
              AllOf(HasSubstr("fabric.mpi.gpu_buffers: PASSED_ON, but Open MPI v"), HasSubstr("use STAGED or AUTO")));
}

// ---- How it ends ----

class CudaMpiFailures : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = WhyNot(TWOFOLD_SCENARIO); !why.empty()) GTEST_SKIP() << why;
  }
  void ExpectFailure(const std::string& scenario, absl::StatusCode code, ::testing::Matcher<std::string> message) {
    Job job;
    const Outcome outcome = job.Run(scenario + "_on_gpu", 3);
    EXPECT_EQ(outcome.code, static_cast<int>(code)) << outcome.output;
    EXPECT_THAT(outcome.message, message) << outcome.output;
    EXPECT_EQ(job.LeftBehind(), "");
  }
};

// Staged or passed on, a message of another size is found out by who receives it.
TEST_F(CudaMpiFailures, SizesThatDiffer) {
  using Code = absl::StatusCode;
  for (const char* scenario : {"message_too_short", "message_too_long"}) {
    ExpectFailure(scenario, Code::kInvalidArgument, AllOf(HasSubstr("recv"), HasSubstr("40 were expected")));
  }
  ExpectFailure("all_to_all_v", Code::kInvalidArgument, AllOf(HasSubstr("all_to_all_v"), HasSubstr("expect")));
}

TEST_F(CudaMpiFailures, ARankThatDiesEndsTheOthers) {
  ExpectFailure("kill", absl::StatusCode::kUnavailable, HasSubstr("rank 1"));
  ExpectFailure("deadlock", absl::StatusCode::kDeadlineExceeded, HasSubstr("send of f32[1048576]"));
}

}  // namespace cuda_mpi_test
}  // namespace twofold
