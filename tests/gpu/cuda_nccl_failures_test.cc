// How a run over NCCL ends when a rank fails, on whatever GPUs and NCCL there are: every process ends in time, and the
// cause is named. NCCL itself waits for ever for a rank that is lost or that calls something else. Each case is a job
// of its own, launched by variables; tests/unit/nccl has more of them, by MPI.
#include <cstdio>

#include "backends/registry.h"
#include "core/base/errors.h"
#include "gmock/gmock.h"
#include "tests/gpu/against_cpu.h"
#include "tests/gpu/nccl_job.h"

namespace twofold {
namespace cuda_nccl_failures_test {

using test::NcclJob;
using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::HasSubstr;
using Body = std::function<void(RankContext&)>;

constexpr double kTimeout = 5;  // fabric.timeout_s, seconds
constexpr double kBound = 30;   // of what a lost rank may cost the others, seconds

// ---- The ranks ----

Tensor Floats(RankContext& c, int64_t n) {
  Tensor t = c.device().NewTensor(Shape{n}, DType::kF32, Category::kOther);
  c.device().Upload(t, [](std::span<std::byte> bytes) { std::fill(bytes.begin(), bytes.end(), std::byte{0}); });
  return t;
}
void Reduce(RankContext& c, int64_t n = 10) {
  Tensor t = Floats(c, n);
  c.world().AllReduce(t).Wait();
}
void Forever(RankContext& c) {
  while (true) Reduce(c);
}
// After a good call rank 1 does what is wrong; the others go on.
Body Culprit(Body culprit) {
  return [culprit](RankContext& c) {
    Reduce(c);
    if (c.rank() == 1) culprit(c);
    Forever(c);
  };
}
// After one good call, rank 0 does `a`, the others `b`.
Body Differ(Body a, Body b) {
  return [a, b](RankContext& c) {
    Reduce(c);
    (c.rank() == 0 ? a : b)(c);
    Forever(c);
  };
}
void Die() {
  std::this_thread::sleep_for(std::chrono::seconds(1));  // until the others are in their next call
  raise(SIGKILL);
}

const std::map<std::string, Body> kScenarios = {
    {"well", [](RankContext& c) { Reduce(c); }},
    {"throw", Culprit([](RankContext&) { throw std::runtime_error("injected"); })},
    {"kill", Culprit([](RankContext&) { Die(); })},
    {"kill_first",
     [](RankContext& c) {
       Reduce(c);
       if (c.rank() == 0) Die();
       Forever(c);
     }},
    {"kill_before_the_first_call",
     [](RankContext& c) {
       if (c.rank() == 1) Die();
       Forever(c);
     }},
    {"kill_while_communicators_are_made",  // on a thread of their own, which the others are then in
     [](RankContext& c) {
       if (c.rank() == 1) raise(SIGKILL);
       Forever(c);
     }},
    {"kill_in_a_message",
     [](RankContext& c) {
       Tensor t = Floats(c, 1 << 20);
       Reduce(c);
       if (c.rank() == 1) Die();
       if (c.rank() == 0) c.world().Recv(t, 1, 4).Wait();
       Forever(c);
     }},
    {"kill_in_a_split",
     [](RankContext& c) {
       Reduce(c);
       if (c.rank() == 1) Die();
       c.world().Split(0, 0, "half");
       Forever(c);
     }},
    {"hang", Culprit([](RankContext&) {
       while (true) std::this_thread::sleep_for(std::chrono::milliseconds(5));
     })},
    {"count", Differ([](RankContext& c) { Reduce(c, 10); }, [](RankContext& c) { Reduce(c, 11); })},
};

int RunScenario(const std::vector<std::string>& arguments) {
  spec::Spec spec;
  spec.set_device(spec::CUDA);
  spec.mutable_fabric()->mutable_nccl();
  spec.mutable_fabric()->set_timeout_s(kTimeout);
  spec.mutable_fabric()->mutable_rendezvous()->set_timeout_s(arguments.size() > 2 ? std::stod(arguments[2]) : 60);
  auto fabric = MakeFabric(spec);
  if (!fabric.ok())
    return std::printf("code %d\nmessage %s\n", static_cast<int>(fabric.status().code()),
                       std::string(fabric.status().message()).c_str()),
           2;
  const int ranks = std::stoi(arguments[1]);
  if (const absl::Status accepts = (*fabric)->Accepts(ranks); !accepts.ok()) {
    return std::printf("code %d\nmessage %s\n", static_cast<int>(accepts.code()),
                       std::string(accepts.message()).c_str()),
           2;
  }
  const RunResult result = (*fabric)->Run(ranks, [&](RankContext& c) -> std::string {
    kScenarios.at(arguments[0])(c);
    return "";
  });
  std::printf("code %d\nmessage %s\n", static_cast<int>(result.status.code()),
              std::string(result.status.message()).c_str());
  std::fflush(stdout);
  return result.status.ok() ? 0 : 1;
}

// ---- Those who start them ----

class NcclFailures : public GpuTest {
 protected:
  void SetUp() override {
    GpuTest::SetUp();
    if (IsSkipped()) return;
    if (const std::string why = test::WhyNotNccl(3); !why.empty()) GTEST_SKIP() << why;
  }

  // All ranks but those that are `lost` end with `message`, in time. Rank 1 of a job is the one that fails.
  void Expect(const char* scenario, const ::testing::Matcher<const std::string&>& message, int lost = -1,
              double patience = 0) {
    SCOPED_TRACE(scenario);
    NcclJob job;
    const auto ended = job.Run(3, {scenario, "3"}, kTimeout + patience + 2 * kBound);
    std::string first;  // what the first of the others says, who speaks for all
    for (int r = 0; r < 3; ++r) {
      const NcclJob::Ended& rank = ended[static_cast<size_t>(r)];
      if (r == lost) continue;
      EXPECT_NE(rank.status, 0) << rank.output;
      EXPECT_LT(rank.status, 128) << "rank " << r << " had to be killed, or crashed: " << rank.output;
      if (first.empty()) first = rank.output;
    }
    EXPECT_THAT(first, message);
    if (lost < 0) return;
    double last = 0;
    for (int r = 0; r < 3; ++r) {
      const double after = ended[static_cast<size_t>(r)].seconds - ended[static_cast<size_t>(lost)].seconds;
      if (r == lost) continue;
      EXPECT_LT(after, kBound) << "rank " << r << " ended so many seconds after the lost one";
      last = std::max(last, after);
    }
    RecordProperty(scenario, StrCat("the others ended after ", last, " s"));
  }
};

TEST_F(NcclFailures, NoneEndsWell) {
  NcclJob job;
  for (const NcclJob::Ended& rank : job.Run(3, {"well", "3"})) EXPECT_EQ(rank.status, 0) << rank.output;
}

TEST_F(NcclFailures, AKilledRankEndsTheOthersWhoNameIt) {
  constexpr char kCall[] = "all_reduce(sum) of f32[10] (40 bytes), collective ";
  Expect("kill",
         AllOf(HasSubstr("lost rank 1: its process (process "), HasSubstr("has ended"), HasSubstr(kCall),
               HasSubstr("2 of group world")),
         1);
  Expect("kill_first", AllOf(HasSubstr("lost rank 0"), HasSubstr(kCall)), 0);
  Expect("kill_before_the_first_call", HasSubstr("lost rank 1"), 1);
  Expect("kill_while_communicators_are_made", HasSubstr("lost rank 1"), 1);
  Expect("kill_in_a_message", AllOf(HasSubstr("lost rank 1"), HasSubstr("recv of f32[1048576] from rank 1, tag 4")), 1);
  Expect("kill_in_a_split", HasSubstr("lost rank 1"), 1);
}

TEST_F(NcclFailures, AnExceptionIsTheCause) { Expect("throw", HasSubstr("rank 1: std::runtime_error: injected")); }

TEST_F(NcclFailures, AHangTimesOutAndNamesWhoIsMissing) {
  Expect(
      "hang",
      AllOf(HasSubstr("collective 2 of group world has waited 5 s (fabric.timeout_s) for rank 1, which is computing")));
}

TEST_F(NcclFailures, AMismatchIsNamed) {
  Expect("count",
         AllOf(HasSubstr("collective mismatch in group world, collective 2"),
               HasSubstr("rank 0 calls all_reduce(sum) of f32[10]"), HasSubstr("calls all_reduce(sum) of f32[11]")));
}

// ---- What is wrong before the run ----

TEST_F(NcclFailures, WrongEnvironmentsAreNamed) {
  const auto says = [](int ranks, const std::function<void(int, test::Variables&)>& change,
                       const ::testing::Matcher<const std::string&>& message,
                       std::vector<std::string> arguments = {"well", "2"}) {
    NcclJob job;
    const auto ended = job.Run(ranks, std::move(arguments), 2 * kBound, change);
    for (const NcclJob::Ended& rank : ended) EXPECT_THAT(rank.status, AnyOf(1, 2)) << rank.output;
    EXPECT_THAT(ended[0].output, message);
  };
  says(
      1,
      [](int, test::Variables& v) {
        v.erase("MASTER_ADDR");
        v["WORLD_SIZE"] = "2";
      },
      HasSubstr("MASTER_ADDR"));
  says(
      1, [](int, test::Variables& v) { v["WORLD_SIZE"] = "2"; }, HasSubstr("ranks on other hosts cannot reach it"));
  says(1, [](int, test::Variables& v) { v["WORLD_SIZE"] = v["LOCAL_WORLD_SIZE"] = "2"; },
       AllOf(HasSubstr("rank 1"), HasSubstr("within 2 s")), {"well", "2", "2"});
  says(
      1, [](int, test::Variables& v) { v["RANK"] = "2", v["WORLD_SIZE"] = "2"; }, HasSubstr("RANK"));
  says(1, nullptr, HasSubstr("2 ranks"));
#ifdef TWOFOLD_EMULATED_CUDA
  says(
      2, [](int, test::Variables& v) { v["TWOFOLD_EMULATED_GPUS"] = "1"; },
      AllOf(HasSubstr("ranks 0 and 1 are both on GPU"), HasSubstr("NCCL 2.28.9 needs a GPU for each rank"),
            HasSubstr("cuda.gpus")));
  says(
      2, [](int, test::Variables& v) { v["TWOFOLD_EMULATED_NCCL_VERSION"] = "21602"; },
      AllOf(HasSubstr("2.16.2"), HasSubstr("2.18")));
#endif
}

#ifdef TWOFOLD_EMULATED_CUDA
TEST_F(NcclFailures, SeveralRanksShareAGpuWhereNcclCan) {
  NcclJob job;
  const auto share = [](int, test::Variables& v) {
    v["TWOFOLD_EMULATED_GPUS"] = "1", v["TWOFOLD_EMULATED_NCCL_VERSION"] = "23004";
  };
  for (const NcclJob::Ended& rank : job.Run(3, {"well", "3"}, 2 * kBound, share))
    EXPECT_EQ(rank.status, 0) << rank.output;
}
#endif

}  // namespace cuda_nccl_failures_test
}  // namespace twofold

int main(int argc, char** argv) {
  if (const auto arguments = twofold::test::AsRank(argc, argv))
    return twofold::cuda_nccl_failures_test::RunScenario(*arguments);
  ::testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
