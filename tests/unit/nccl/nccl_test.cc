// What needs no other process: who may have which GPU, and what NCCL's errors say.
#include <cstdlib>
#include <cstring>
#include <memory>
#include <thread>

#include "backends/host/cuda.h"
#include "backends/nccl/api.h"
#include "backends/nccl/communicator.h"
#include "backends/nccl/fabric.h"
#include "backends/nccl/session.h"
#include "core/base/errors.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "kernels/cuda/streams.h"

namespace twofold::nccl {
namespace nccl_test {

using testing::AllOf;
using testing::HasSubstr;

Member On(const std::string& host, const std::string& bus_id) {
  return {.host = host, .bus_id = bus_id, .gpu_name = "NVIDIA H200", .trouble = ""};
}

TEST(CheckOwnGpus, AGpuForEach) {
  EXPECT_TRUE(
      CheckOwnGpus({On("a 1", "0000:01:00.0"), On("a 1", "0000:02:00.0"), On("b 2", "0000:01:00.0")}, 22809, false)
          .ok());
  // Containers of one name on two machines.
  EXPECT_TRUE(CheckOwnGpus({On("box 1", "0000:01:00.0"), On("box 2", "0000:01:00.0")}, 22809, false).ok());
}

TEST(CheckOwnGpus, NamesBothRanksAndTheGpu) {
  const std::vector<Member> members = {On("a 1", "0000:01:00.0"), On("a 1", "0000:02:00.0"), On("a 1", "0000:01:00.0")};
  const absl::Status old = CheckOwnGpus(members, 22809, true);
  EXPECT_EQ(old.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(old.message()),
              AllOf(HasSubstr("ranks 0 and 2 are both on GPU 0000:01:00.0 (NVIDIA H200) of a"),
                    HasSubstr("NCCL 2.28.9 needs a GPU for each rank"), HasSubstr("cuda.gpus")));
  EXPECT_THAT(std::string(CheckOwnGpus(members, 23000, false).message()),
              HasSubstr("set NCCL_MULTI_RANK_GPU_ENABLE=1"));
  EXPECT_TRUE(CheckOwnGpus(members, 23000, true).ok());
}

TEST(Api, ErrorsNameTheCallAndTheVersion) {
  const absl::StatusOr<const Api*> api = FindNccl();
  if (!api.ok() && !host::GpusAreEmulated()) GTEST_SKIP() << api.status();
  ASSERT_TRUE(api.ok()) << api.status();
  EXPECT_GE((*api)->version, 21800);
  try {
    (*api)->Check(ncclInvalidUsage, "ncclAllReduce");
    FAIL();
  } catch (const NcclError& e) {
    EXPECT_THAT(e.what(), AllOf(HasSubstr("ncclAllReduce: "), HasSubstr("NCCL " + VersionText((*api)->version))));
  }
  EXPECT_EQ(VersionText(22809), "2.28.9");
}

// NCCL reads NCCL_COMM_BLOCKING over what a communicator is made with; every call would then return before it is done.
TEST(Api, CommunicatorsAreBlockingOnes) {
  PrepareNccl();
  EXPECT_STREQ(std::getenv("NCCL_COMM_BLOCKING"), "1");
  PrepareNccl(/*elastic=*/true);
  EXPECT_STREQ(std::getenv("NCCL_COMM_BLOCKING"), "0");
}

// Kernels of several communicators on a GPU could otherwise wait for each other in a cycle.
TEST(Api, SeveralCommunicatorsLaunchInTheHostsOrder) {
  unsetenv("NCCL_LAUNCH_ORDER_IMPLICIT"), unsetenv("NCCL_LAUNCH_RACE_FATAL");
  PrepareNccl();
  EXPECT_STREQ(std::getenv("NCCL_LAUNCH_ORDER_IMPLICIT"), "1");
  EXPECT_STREQ(std::getenv("NCCL_LAUNCH_RACE_FATAL"), "0") << "calls in which ranks connect have threads of their own";
  setenv("NCCL_LAUNCH_ORDER_IMPLICIT", "0", 1);
  PrepareNccl();
  EXPECT_STREQ(std::getenv("NCCL_LAUNCH_ORDER_IMPLICIT"), "0") << "the user's choice counts";
  unsetenv("NCCL_LAUNCH_ORDER_IMPLICIT"), unsetenv("NCCL_LAUNCH_RACE_FATAL");
}

TEST(Api, AlltoAllIsNcclsOwnFrom228On) {
  const absl::StatusOr<const Api*> api = FindNccl();
  if (!api.ok() && !host::GpusAreEmulated()) GTEST_SKIP() << api.status();
  ASSERT_TRUE(api.ok()) << api.status();
  EXPECT_EQ((*api)->AlltoAll != nullptr, (*api)->version >= 22800);
}

TEST(Session, TheIdOrWhyThereIsNoneReachesAll) {
  ncclUniqueId id{};
  for (size_t i = 0; i < sizeof id.internal; ++i) id.internal[i] = static_cast<char>(7 * i);
  const absl::StatusOr<ncclUniqueId> same = FromCard(ToCard(id));
  ASSERT_TRUE(same.ok()) << same.status();
  EXPECT_EQ(std::memcmp(same->internal, id.internal, sizeof id.internal), 0);
  const absl::StatusOr<ncclUniqueId> none =
      FromCard(ToCard(absl::InternalError("ncclGetUniqueId: no socket interface")));
  EXPECT_EQ(none.status(), absl::InternalError("fabric.nccl: rank 0: ncclGetUniqueId: no socket interface"));
  EXPECT_FALSE(FromCard("").ok());
}

class CommunicatorTest : public testing::Test {
 protected:
  void SetUp() override {
    const absl::StatusOr<const Api*> api = FindNccl();
    if (!api.ok() && !host::GpusAreEmulated()) GTEST_SKIP() << api.status();
    ASSERT_TRUE(api.ok()) << api.status();
    if (const std::string why = host::WhyNoCuda(); !why.empty()) GTEST_SKIP() << why;
    cuda::MakeCurrent(0);
    ncclUniqueId id;
    ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
    Nccl().Check(Nccl().GetUniqueId(&id), "ncclGetUniqueId");
    Nccl().Check(Nccl().CommInitRankConfig(&raw_, 1, id, 0, &config), "ncclCommInitRankConfig");
    communicator_ = std::make_unique<Communicator>(raw_, true, 1, 0, "pair [0 1]");
  }
  ncclComm_t raw_ = nullptr;
  std::unique_ptr<Communicator> communicator_;
};

TEST_F(CommunicatorTest, IsNotAbortedFromUnderACall) {
  {
    const Communicator::InCall in_call(*communicator_);
    std::thread([&] { communicator_->Abort(); }).join();
    EXPECT_TRUE(communicator_->aborted());
    int count = 0;  // the call goes on to use it
    EXPECT_EQ(Nccl().CommCount(in_call.raw(), &count), ncclSuccess);
    EXPECT_EQ(count, 1);
  }
  EXPECT_THROW(Communicator::InCall{*communicator_}, NcclError);
  EXPECT_EQ(communicator_->AsyncError(), "");
}

// Who still knows a call of a run may keep its communicators longer than the run. They are looked at ten times a
// second, and the address sanitizer sees who touches the run then.
TEST_F(CommunicatorTest, NobodyLooksForErrorsOfARunThatIsOver) {
  auto run = std::make_unique<host::RunState>(1, 60.0);
  Communicators communicators(*run, 0, /*blocking=*/true);
  const std::shared_ptr<Communicator> world = communicators.Add(raw_, 1, 0, "world");
  communicators.StopLooking();
  run.reset();
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  world->Destroy(host::RunState(1, 60.0));
}

TEST_F(CommunicatorTest, EndsOnce) {
  communicator_->Destroy(host::RunState(1, 60.0));
  communicator_->Abort();  // a run that fails as it ends
  EXPECT_THROW(Communicator::InCall{*communicator_}, NcclError);
}

// In an elastic run no call may wait for a rank that is lost. Here the other rank never comes.
TEST_F(CommunicatorTest, ANonBlockingCallIsGivenUpWhenItsGenerationEnds) {
  ncclUniqueId id;
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  Nccl().Check(Nccl().GetUniqueId(&id), "ncclGetUniqueId");
  ncclComm_t raw = nullptr;
  Nccl().Check(Nccl().CommInitRankConfig(&raw, 2, id, 0, &config), "ncclCommInitRankConfig");
  Communicator pair(raw, /*blocking=*/false, 2, 0, "pair [0 1]");
  host::RunState run(2, 60.0);
  std::thread loses([&run] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    run.Fail(1, RankFailure::Kind::kPeerLost, "lost rank 1");
  });
  EXPECT_THROW(pair.Settle(run, 0, "connecting"), PeerLost);
  loses.join();
  EXPECT_TRUE(pair.aborted());
  EXPECT_THROW(Communicator::InCall{pair}, NcclError);
}

}  // namespace nccl_test
}  // namespace twofold::nccl
