// The emulated NCCL between processes: each rank is this program again, which runs one of the tests named DISABLED_
// below.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <string>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "gmock/gmock.h"
#include "tests/deadline.h"
#include "tests/unit/emulated_cuda/nccl_ranks.h"

namespace twofold::emulated_test {
namespace nccl_processes_test {

using ::testing::HasSubstr;

// ---- Those who start ranks ----

pid_t StartRank(const char* test, const ncclUniqueId& id, int rank, int size) {
  const pid_t pid = fork();
  if (pid != 0) return pid;
  setenv("RANK", std::to_string(rank).c_str(), 1);
  setenv("WORLD_SIZE", std::to_string(size).c_str(), 1);
  setenv("NCCL_ID", absl::BytesToHexString(std::string(id.internal, sizeof(id.internal))).c_str(), 1);
  setenv("TWOFOLD_EMULATED_NCCL_LOST_PEERS", "ERROR", 1);
  const std::string filter = absl::StrCat("--gtest_filter=", test);
  execl("/proc/self/exe", "rank", "--gtest_also_run_disabled_tests", filter.c_str(), nullptr);
  _exit(127);
}
bool EndsWell(pid_t pid) {
  const int status = AwaitProcess(pid, "a rank");
  return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}
std::vector<pid_t> StartRanks(const char* test, int size) {
  const ncclUniqueId id = NewId();
  std::vector<pid_t> pids;
  for (int r = 0; r < size; ++r) pids.push_back(StartRank(test, id, r, size));
  return pids;
}

TEST(NcclProcesses, Communicate) {
  for (const int size : {2, 4}) {
    for (const pid_t pid : StartRanks("NcclRanks.DISABLED_Communicate", size)) EXPECT_TRUE(EndsWell(pid));
  }
}

TEST(NcclProcesses, ALostPeerIsWaitedForAndNamed) {
  const std::vector<pid_t> pids = StartRanks("NcclRanks.DISABLED_LastIsKilled", 3);
  EXPECT_TRUE(EndsWell(pids[0]));
  EXPECT_TRUE(EndsWell(pids[1]));
  const int status = AwaitProcess(pids[2], "the last rank");
  EXPECT_TRUE(WIFSIGNALED(status));
}

// Threads here, which leave closer to each other. (Where only its lock is looked at last, it is missed in about two of
// three runs of this.)
TEST(NcclProcesses, ARankThatLeavesIsNotLost) {
  setenv("TWOFOLD_EMULATED_NCCL_LOST_PEERS", "ERROR", 1);
  for (int round = 0; round < 1500 && !HasFailure(); ++round) {
    std::atomic<int> left = 0;
    OnRanks(3, [&](NcclRank& r) {
      ncclResult_t error = ncclSuccess;
      while (r.rank == 0 && left < 2 && error == ncclSuccess) ncclCommGetAsyncError(r.comm, &error);
      EXPECT_EQ(error, ncclSuccess) << ncclGetLastError(r.comm);
      EXPECT_EQ(ncclCommAbort(std::exchange(r.comm, nullptr)), ncclSuccess);
      ++left;
    });
  }
  unsetenv("TWOFOLD_EMULATED_NCCL_LOST_PEERS");
}

TEST(NcclProcesses, AnIdEndsWithItsMaker) {
  int to_parent[2];
  ASSERT_EQ(pipe(to_parent), 0);
  const pid_t maker = fork();
  if (maker == 0) {
    const ncclUniqueId id = NewId();
    _exit(write(to_parent[1], &id, sizeof(id)) == sizeof(id) ? 0 : 1);
  }
  ncclUniqueId id;
  ASSERT_EQ(read(to_parent[0], &id, sizeof(id)), static_cast<ssize_t>(sizeof(id)));
  EXPECT_TRUE(EndsWell(maker));
  ncclComm_t comm = nullptr;
  EXPECT_EQ(ncclCommInitRank(&comm, 1, id, 0), ncclSystemError);
  EXPECT_THAT(ncclGetLastError(nullptr), HasSubstr("is gone"));
  close(to_parent[0]), close(to_parent[1]);
}

// ---- The ranks ----

class NcclRanks : public ::testing::Test {
 protected:
  void SetUp() override {
    if (std::getenv("NCCL_ID") == nullptr) GTEST_SKIP() << "the tests above start this";
    rank_ = {.rank = std::atoi(std::getenv("RANK")),
             .size = std::atoi(std::getenv("WORLD_SIZE")),
             .comm = nullptr,
             .stream = nullptr};
    const std::string bytes = absl::HexStringToBytes(std::getenv("NCCL_ID"));
    ncclUniqueId id;
    std::memcpy(id.internal, bytes.data(), sizeof(id.internal));
    cuda::Check(cudaSetDevice(rank_.rank));
    cuda::Check(cudaStreamCreateWithFlags(&rank_.stream, cudaStreamNonBlocking));
    ASSERT_EQ(ncclCommInitRank(&rank_.comm, rank_.size, id, rank_.rank), ncclSuccess) << ncclGetLastError(nullptr);
  }

  NcclRank rank_;
};

TEST_F(NcclRanks, DISABLED_Communicate) {
  const NcclRank& r = rank_;
  const int next = (r.rank + 1) % r.size, before = (r.rank + r.size - 1) % r.size;
  OnGpu<int32_t> x(100000, r.rank), y(100000, -1);
  ASSERT_EQ(ncclAllReduce(x.get(), y.get(), 100000, ncclInt32, ncclSum, r.comm, r.stream), ncclSuccess)
      << ncclGetLastError(r.comm);
  EXPECT_EQ(y.Download(r.stream), std::vector<int32_t>(100000, r.size * (r.size - 1) / 2));
  ncclComm_t pair = nullptr;  // 0 and 1, 2 and 3
  ASSERT_EQ(ncclCommSplit(r.comm, r.rank / 2, r.rank, &pair, nullptr), ncclSuccess) << ncclGetLastError(r.comm);
  ASSERT_EQ(ncclBroadcast(x.get(), y.get(), 100000, ncclInt32, 1, pair, r.stream), ncclSuccess)
      << ncclGetLastError(pair);
  EXPECT_EQ(y.Download(r.stream), std::vector<int32_t>(100000, r.rank / 2 * 2 + 1));
  ncclGroupStart();
  ncclSend(x.get(), 100000, ncclInt32, next, r.comm, r.stream);
  ncclRecv(y.get(), 100000, ncclInt32, before, r.comm, r.stream);
  ASSERT_EQ(ncclGroupEnd(), ncclSuccess) << ncclGetLastError(r.comm);
  EXPECT_EQ(y.Download(r.stream), std::vector<int32_t>(100000, before));
  EXPECT_EQ(ncclCommDestroy(pair), ncclSuccess);
  EXPECT_EQ(ncclCommDestroy(r.comm), ncclSuccess);
  EXPECT_EQ(emulated::NcclReports(), 0);
}

TEST_F(NcclRanks, DISABLED_LastIsKilled) {
  const NcclRank& r = rank_;
  float* x = nullptr;
  cuda::Check(cudaMalloc(&x, 4));
  ASSERT_EQ(ncclAllReduce(x, x, 1, ncclFloat32, ncclSum, r.comm, r.stream), ncclSuccess);
  r.Synchronize();
  if (r.rank == r.size - 1) raise(SIGKILL);
  ASSERT_EQ(ncclAllReduce(x, x, 1, ncclFloat32, ncclSum, r.comm, r.stream), ncclSuccess);
  ncclResult_t error = ncclSuccess;
  for (int i = 0; i < 10000 && error == ncclSuccess; ++i) {
    SleepMs(5);
    ASSERT_EQ(ncclCommGetAsyncError(r.comm, &error), ncclSuccess);
  }
  EXPECT_EQ(error, ncclRemoteError);
  EXPECT_THAT(ncclGetLastError(r.comm), HasSubstr("the process of rank 2 is gone"));
  EXPECT_EQ(cudaStreamQuery(r.stream), cudaErrorNotReady);
  EXPECT_EQ(ncclCommAbort(r.comm), ncclSuccess);
  EXPECT_TRUE(EndsSoon(r.stream));
}

}  // namespace nccl_processes_test
}  // namespace twofold::emulated_test
