// How communicators of the emulated NCCL come to be and end.
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <string>

#include "gmock/gmock.h"
#include "tests/unit/emulated_cuda/nccl_ranks.h"

namespace twofold::emulated_test {
namespace nccl_communicators_test {

using ::testing::HasSubstr;

ncclResult_t Settled(ncclComm_t comm) {
  ncclResult_t state = ncclInProgress;
  while (state == ncclInProgress) {
    SleepMs(1);
    EXPECT_EQ(ncclCommGetAsyncError(comm, &state), ncclSuccess);
  }
  return state;
}
ncclConfig_t NonBlocking() {
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 0;
  return config;
}

class Environment {
 public:
  Environment(const char* name, const char* value) : name_(name) { setenv(name, value, 1); }
  ~Environment() { unsetenv(name_); }

 private:
  const char* name_;
};

// ---- Coming to be ----

TEST(NcclCommunicator, VersionAndTexts) {
  int version = 0;
  EXPECT_EQ(ncclGetVersion(&version), ncclSuccess);
  EXPECT_EQ(version, 22809);
  const Environment old("TWOFOLD_EMULATED_NCCL_VERSION", "21602");
  EXPECT_EQ(ncclGetVersion(&version), ncclSuccess);
  EXPECT_EQ(version, 21602);
  EXPECT_STREQ(ncclGetErrorString(ncclSuccess), "no error");
  EXPECT_STREQ(ncclGetErrorString(ncclInProgress), "NCCL operation in progress");
}

TEST(NcclCommunicator, KnowsItsPlace) {
  OnRanks(3, [](NcclRank& r) {
    int count = 0, rank = -1;
    EXPECT_EQ(ncclCommCount(r.comm, &count), ncclSuccess);
    EXPECT_EQ(ncclCommUserRank(r.comm, &rank), ncclSuccess);
    EXPECT_EQ(count, 3);
    EXPECT_EQ(rank, r.rank);
  });
}

TEST(NcclCommunicator, RefusesBadArguments) {
  ncclComm_t comm = nullptr;
  const ncclUniqueId id = NewId();
  EXPECT_EQ(ncclCommInitRank(&comm, 2, id, 2), ncclInvalidArgument);
  EXPECT_THAT(ncclGetLastError(nullptr), HasSubstr("2/2"));
  EXPECT_EQ(ncclCommInitRank(&comm, 0, id, 0), ncclInvalidArgument);
  EXPECT_EQ(ncclCommInitRank(&comm, 1, ncclUniqueId{}, 0), ncclInvalidArgument);
  EXPECT_EQ(comm, nullptr);
  ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
  config.blocking = 2;
  EXPECT_EQ(ncclCommInitRankConfig(&comm, 1, id, 0, &config), ncclInvalidArgument);
  ncclConfig_t nothing = {};
  EXPECT_EQ(ncclCommInitRankConfig(&comm, 1, id, 0, &nothing), ncclInvalidArgument);
  EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage);
}

TEST(NcclCommunicator, AnIdIsForOneMeeting) {
  const ncclUniqueId id = NewId();
  ncclComm_t comm = nullptr, again = nullptr;
  ASSERT_EQ(ncclCommInitRank(&comm, 1, id, 0), ncclSuccess);
  EXPECT_EQ(ncclCommInitRank(&again, 1, id, 0), ncclSystemError) << ncclGetLastError(nullptr);
  EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
}

TEST(NcclCommunicator, ARankComesOnce) {
  const ncclUniqueId id = NewId();
  ncclConfig_t config = NonBlocking();
  ncclComm_t first = nullptr, second = nullptr, third = nullptr;
  ASSERT_EQ(ncclCommInitRankConfig(&first, 2, id, 0, &config), ncclInProgress);
  ASSERT_EQ(ncclCommInitRankConfig(&second, 2, id, 0, &config), ncclInProgress);
  ncclResult_t of_first = ncclInProgress, of_second = ncclInProgress;
  Await([&] {
    ncclCommGetAsyncError(first, &of_first);
    ncclCommGetAsyncError(second, &of_second);
    return of_first != ncclInProgress || of_second != ncclInProgress;
  });
  const ncclComm_t taken = of_first == ncclInProgress ? first : second, refused = taken == first ? second : first;
  EXPECT_EQ(refused == first ? of_first : of_second, ncclInternalError);
  EXPECT_THAT(ncclGetLastError(refused), HasSubstr("already checked in"));
  ASSERT_EQ(ncclCommInitRankConfig(&third, 3, id, 1, &config), ncclInProgress);
  EXPECT_EQ(Settled(third), ncclInternalError);
  EXPECT_THAT(ncclGetLastError(third), HasSubstr("rank count"));
  ncclResult_t state = ncclSuccess;
  EXPECT_EQ(ncclCommGetAsyncError(taken, &state), ncclSuccess);
  EXPECT_EQ(state, ncclInProgress) << "rank 1 never comes";
  for (ncclComm_t comm : {first, second, third}) EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
}

TEST(NcclCommunicator, OneRankAGpu) {
  const auto two_on_gpu_0 = [](ncclResult_t expected) {
    const ncclUniqueId id = NewId();
    OnThreads(2, [&](int rank) {
      cuda::Check(cudaSetDevice(0));
      ncclComm_t comm = nullptr;
      EXPECT_EQ(ncclCommInitRank(&comm, 2, id, rank), expected);
      if (expected == ncclSuccess) {
        EXPECT_EQ(ncclCommDestroy(comm), ncclSuccess);
      } else {
        EXPECT_EQ(comm, nullptr);
        EXPECT_THAT(ncclGetLastError(nullptr), HasSubstr("Duplicate GPU detected"));
      }
    });
  };
  two_on_gpu_0(ncclInvalidUsage);
  const Environment enabled("NCCL_MULTI_RANK_GPU_ENABLE", "1");
  two_on_gpu_0(ncclInvalidUsage);
  const Environment later("TWOFOLD_EMULATED_NCCL_VERSION", "23004");
  two_on_gpu_0(ncclSuccess);
}

TEST(NcclCommunicator, AllOfAProcessAtOnce) {
  std::vector<ncclComm_t> comms(3);
  const ncclUniqueId id = NewId();
  ncclGroupStart();
  for (int i = 0; i < 3; ++i) {
    cuda::Check(cudaSetDevice(i));
    ncclCommInitRank(&comms[static_cast<size_t>(i)], 3, id, i);
  }
  ASSERT_EQ(ncclGroupEnd(), ncclSuccess) << ncclGetLastError(nullptr);
  std::vector<cudaStream_t> streams(3);
  std::vector<float*> buffers(3);
  const float one = 1;
  for (int i = 0; i < 3; ++i) {
    const auto at = static_cast<size_t>(i);
    cuda::Check(cudaSetDevice(i));
    cuda::Check(cudaStreamCreate(&streams[at]));
    cuda::Check(cudaMalloc(&buffers[at], sizeof(float)));
    cuda::Check(cudaMemcpyAsync(buffers[at], &one, sizeof(float), cudaMemcpyHostToDevice, streams[at]));
  }
  ncclGroupStart();
  for (size_t i = 0; i < 3; ++i) ncclAllReduce(buffers[i], buffers[i], 1, ncclFloat32, ncclSum, comms[i], streams[i]);
  ASSERT_EQ(ncclGroupEnd(), ncclSuccess) << ncclGetLastError(nullptr);
  for (int i = 0; i < 3; ++i) {
    const auto at = static_cast<size_t>(i);
    cuda::Check(cudaSetDevice(i));
    float sum = 0;
    cuda::Check(cudaMemcpyAsync(&sum, buffers[at], sizeof(float), cudaMemcpyDeviceToHost, streams[at]));
    EXPECT_EQ(sum, 3);
    cuda::Check(cudaFree(buffers[at]));
  }
  ncclGroupStart();
  for (ncclComm_t comm : comms) ncclCommDestroy(comm);
  EXPECT_EQ(ncclGroupEnd(), ncclSuccess);
  cuda::Check(cudaSetDevice(0));
}

TEST(NcclCommunicator, NonBlockingOnesDoItLater) {
  const ncclUniqueId id = NewId();
  std::atomic<bool> seen = false;
  OnThreads(2, [&](int rank) {
    ncclConfig_t config = NonBlocking();
    ncclComm_t comm = nullptr;
    while (rank == 1 && !seen) SleepMs(1);
    ASSERT_EQ(ncclCommInitRankConfig(&comm, 2, id, rank, &config), ncclInProgress);
    int count = 0;
    if (rank == 0) {
      EXPECT_EQ(ncclCommCount(comm, &count), ncclInvalidArgument) << "it is not ready";
      seen = true;
    }
    ASSERT_EQ(Settled(comm), ncclSuccess) << ncclGetLastError(comm);
    cudaStream_t stream;
    cuda::Check(cudaStreamCreate(&stream));
    {
      OnGpu<float> x(10, 2.0f);
      ASSERT_EQ(ncclAllReduce(x.get(), x.get(), 10, ncclFloat32, ncclSum, comm, stream), ncclInProgress);
      ASSERT_EQ(Settled(comm), ncclSuccess) << ncclGetLastError(comm);
      EXPECT_EQ(x.Download(stream), std::vector<float>(10, 4.0f));
    }
    ncclComm_t child = nullptr;
    ASSERT_EQ(ncclCommSplit(comm, 0, -rank, &child, nullptr), ncclInProgress);
    ASSERT_EQ(Settled(child), ncclSuccess) << ncclGetLastError(child);
    ASSERT_EQ(Settled(comm), ncclSuccess) << ncclGetLastError(comm);
    int child_rank = -1;
    EXPECT_EQ(ncclCommUserRank(child, &child_rank), ncclSuccess);
    EXPECT_EQ(child_rank, 1 - rank);
    for (ncclComm_t c : {child, comm}) {
      ASSERT_EQ(ncclCommFinalize(c), ncclInProgress);
      ASSERT_EQ(Settled(c), ncclSuccess);
      EXPECT_EQ(ncclCommDestroy(c), ncclSuccess);
    }
    cuda::Check(cudaStreamDestroy(stream));
  });
}

TEST(NcclCommunicator, Splits) {
  OnRanks(4, [](NcclRank& r) {
    for (int round = 0; round < 3; ++round) {
      // Ranks 0, 1 and 3 in backward order; 2 in none.
      ncclComm_t child = nullptr;
      ASSERT_EQ(ncclCommSplit(r.comm, r.rank == 2 ? NCCL_SPLIT_NOCOLOR : 7, -r.rank, &child, nullptr), ncclSuccess)
          << ncclGetLastError(r.comm);
      if (r.rank == 2) {
        EXPECT_EQ(child, nullptr);
        continue;
      }
      int rank = -1, count = 0;
      EXPECT_EQ(ncclCommUserRank(child, &rank), ncclSuccess);
      EXPECT_EQ(ncclCommCount(child, &count), ncclSuccess);
      EXPECT_EQ(count, 3);
      EXPECT_EQ(rank, r.rank == 3 ? 0 : 2 - r.rank);
      OnGpu<int32_t> x(1, r.rank);
      ASSERT_EQ(ncclBroadcast(x.get(), x.get(), 1, ncclInt32, 0, child, r.stream), ncclSuccess);
      EXPECT_EQ(x.Download(r.stream)[0], 3);
      EXPECT_EQ(ncclCommDestroy(child), ncclSuccess);
    }
  });
}

TEST(NcclCommunicator, FinalizeWaitsForAllRanks) {
  std::atomic<bool> last_has_come = false;
  OnRanks(3, [&](NcclRank& r) {
    if (r.rank == 2) {
      SleepMs(50);
      last_has_come = true;
    }
    EXPECT_EQ(ncclCommFinalize(r.comm), ncclSuccess);
    EXPECT_TRUE(last_has_come);
  });
}

}  // namespace nccl_communicators_test
}  // namespace twofold::emulated_test
