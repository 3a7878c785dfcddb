// What hangs in the emulated NCCL, as it would in NCCL, and that misuse is told.
#include <atomic>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "gmock/gmock.h"
#include "kernels/cuda/emulated/nccl/communicator.h"
#include "tests/unit/emulated_cuda/nccl_ranks.h"

namespace twofold::emulated_test {
namespace nccl_misuse_test {

using ::testing::HasSubstr;

// The number of reports in a test, and what they say.
class Reports {
 public:
  Reports() : before_(emulated::NcclReports()) { ::testing::internal::CaptureStderr(); }
  ~Reports() {
    if (!read_) ::testing::internal::GetCapturedStderr();
  }
  int count() const { return emulated::NcclReports() - before_; }
  std::string Read() {
    read_ = true;
    return ::testing::internal::GetCapturedStderr();
  }

 private:
  int before_;
  bool read_ = false;
};

// All ranks call `body`, which leaves their streams stuck; they abort once `seen`, and what hung ends.
void HangsUntilAborted(int size, const std::function<void(NcclRank&)>& body, const std::function<bool()>& seen) {
  std::atomic<int> called = 0;
  OnRanks(size, [&](NcclRank& r) {
    body(r);
    ++called;
    while (called != size) SleepMs(1);
    Await(seen);
    EXPECT_EQ(cudaStreamQuery(r.stream), cudaErrorNotReady) << "rank " << r.rank;
    EXPECT_EQ(ncclCommAbort(r.comm), ncclSuccess);
    EXPECT_TRUE(EndsSoon(r.stream));
    r.comm = nullptr;
  });
}

// Connects all ranks, so that later calls do not hold up the host.
void WarmUp(NcclRank& r) {
  OnGpu<float> small(1, 0), large(1 << 16, 0);
  for (const auto& [buffer, count] : {std::pair(small.get(), 1), std::pair(large.get(), 1 << 16)}) {
    const auto n = static_cast<size_t>(count);
    ASSERT_EQ(ncclAllReduce(buffer, buffer, n, ncclFloat32, ncclSum, r.comm, r.stream), ncclSuccess);
    ASSERT_EQ(ncclBroadcast(buffer, buffer, n, ncclFloat32, 0, r.comm, r.stream), ncclSuccess);
  }
  ncclGroupStart();
  for (int peer = 0; peer < r.size; ++peer) {
    ncclSend(small.get(), 1, ncclFloat32, peer, r.comm, r.stream);
    ncclRecv(large.get() + peer, 1, ncclFloat32, peer, r.comm, r.stream);
  }
  ASSERT_EQ(ncclGroupEnd(), ncclSuccess) << ncclGetLastError(r.comm);
  r.Synchronize();
}

// ---- Waiting for ever, and its end ----

TEST(NcclHangs, TheHostInAFirstCall) {
  OnRanks(2, [](NcclRank& r) {
    if (r.rank == 0) {
      OnGpu<float> x(1, 0);
      std::thread watch([&] {
        Await([&] { return emulated::Known(r.comm)->callers.load() > 0; });
        EXPECT_EQ(ncclCommAbort(r.comm), ncclSuccess);
      });
      EXPECT_EQ(ncclRecv(x.get(), 1, ncclFloat32, 1, r.comm, r.stream), ncclInternalError) << "rank 1 never sends";
      EXPECT_THAT(ncclGetLastError(nullptr), HasSubstr("aborted"));
      watch.join();
    } else {
      EXPECT_EQ(ncclCommAbort(r.comm), ncclSuccess);
    }
    r.comm = nullptr;
  });
}

// A call that had found the communicator when another thread aborted it: at whatever point it then is.
TEST(NcclHangs, TheHostInACallOfWhatIsAbortedJustThen) {
  OnRanks(1, [](NcclRank& r) {
    OnGpu<float> x(1, 0);
    const std::shared_ptr<ncclComm> found = emulated::Known(r.comm);
    const emulated::Operation send{
        .function = emulated::Function::kSend, .from = x.get(), .count = 1, .type = ncclFloat32, .stream = r.stream};
    EXPECT_EQ(ncclCommAbort(r.comm), ncclSuccess);
    r.comm = nullptr;
    for (const emulated::Outcome& outcome :
         {found->Connect({send}), found->Enqueue({send}), found->Split(0, 0, nullptr)}) {
      EXPECT_EQ(outcome.result, ncclInternalError);
      EXPECT_THAT(outcome.why, HasSubstr("aborted"));
    }
    r.Synchronize();
  });
}

TEST(NcclHangs, SendsBeforeReceives) {
  const auto hang = [](NcclRank& r) {
    WarmUp(r);
    float* address = nullptr;  // is not given back: cudaFree would wait
    cuda::Check(cudaMalloc(&address, 2 * sizeof(float)));
    ASSERT_EQ(ncclSend(address, 1, ncclFloat32, 1 - r.rank, r.comm, r.stream), ncclSuccess);
    ASSERT_EQ(ncclRecv(address + 1, 1, ncclFloat32, 1 - r.rank, r.comm, r.stream), ncclSuccess);
  };
  HangsUntilAborted(2, hang, [] {
    SleepMs(50);
    return true;
  });
}

// What two ranks call after they have connected, which does not fit: it hangs, and `speakers` of them say so.
void Mismatch(const std::function<void(NcclRank&, float*)>& call, const std::vector<std::string>& said,
              int speakers = 2) {
  Reports reports;
  const auto hang = [&](NcclRank& r) {
    WarmUp(r);
    float* address = nullptr;  // is not given back: cudaFree would wait
    cuda::Check(cudaMalloc(&address, 1024));
    call(r, address);
  };
  HangsUntilAborted(2, hang, [&] { return reports.count() >= speakers; });
  EXPECT_EQ(reports.count(), speakers);
  const std::string text = reports.Read();
  for (const std::string& part : said) EXPECT_THAT(text, HasSubstr(part));
}

TEST(NcclMismatch, OfFunctions) {
  Mismatch(
      [](NcclRank& r, float* x) {
        if (r.rank == 0)
          ASSERT_EQ(ncclAllReduce(x, x, 8, ncclFloat32, ncclSum, r.comm, r.stream), ncclSuccess);
        else
          ASSERT_EQ(ncclBroadcast(x, x, 8, ncclFloat32, 1, r.comm, r.stream), ncclSuccess);
      },
      {"emulated NCCL: rank 0 of 2: collectives differ: ncclAllReduce of 8 ncclFloat32, ncclSum; rank 1 calls "
       "ncclBroadcast of 8 ncclFloat32, root 1"});
}
TEST(NcclMismatch, OfCounts) {
  Mismatch(
      [](NcclRank& r, float* x) {
        ASSERT_EQ(ncclAllReduce(x, x, static_cast<size_t>(8 + r.rank), ncclFloat32, ncclSum, r.comm, r.stream),
                  ncclSuccess);
      },
      {"ncclAllReduce of 8 ncclFloat32, ncclSum; rank 1 calls ncclAllReduce of 9 ncclFloat32"});
}
TEST(NcclMismatch, OfTypes) {
  Mismatch(
      [](NcclRank& r, float* x) {
        ASSERT_EQ(ncclAllReduce(x, x, 8, r.rank == 0 ? ncclFloat32 : ncclInt32, ncclSum, r.comm, r.stream),
                  ncclSuccess);
      },
      {"ncclInt32"});
}
TEST(NcclMismatch, OfReductions) {
  Mismatch(
      [](NcclRank& r, float* x) {
        ASSERT_EQ(ncclAllReduce(x, x, 8, ncclFloat32, r.rank == 0 ? ncclMax : ncclSum, r.comm, r.stream), ncclSuccess);
      },
      {"ncclMax"});
}
TEST(NcclMismatch, OfRoots) {
  Mismatch([](NcclRank& r,
              float* x) { ASSERT_EQ(ncclBroadcast(x, x, 8, ncclFloat32, r.rank, r.comm, r.stream), ncclSuccess); },
           {"root 0", "root 1"});
}
TEST(NcclMismatch, OfGroups) {
  Mismatch(
      [](NcclRank& r, float* x) {
        if (r.rank == 0) ncclGroupStart();
        for (int i = 0; i < 2; ++i)
          ASSERT_EQ(ncclAllReduce(x + 8 * i, x + 8 * i, 8, ncclFloat32, ncclSum, r.comm, r.stream), ncclSuccess);
        if (r.rank == 0) {
          ASSERT_EQ(ncclGroupEnd(), ncclSuccess);
        }
      },
      {"1 of 2 in a group"});
}
TEST(NcclMismatch, OfMessages) {
  Mismatch(
      [](NcclRank& r, float* x) {
        if (r.rank == 0)
          ASSERT_EQ(ncclSend(x, 8, ncclFloat32, 1, r.comm, r.stream), ncclSuccess);
        else
          ASSERT_EQ(ncclRecv(x, 4, ncclFloat32, 0, r.comm, r.stream), ncclSuccess);
      },
      {"rank 1 of 2: messages differ: ncclRecv of 4 ncclFloat32 from 0, which calls ncclSend of 8 ncclFloat32"}, 1);
}

// ---- Misuse ----

TEST(NcclMisuse, OfMemory) {
  OnRanks(2, [](NcclRank& r) {
    OnGpu<float> x(16, 0);
    std::vector<float> host(16);
    const auto all_reduce = [&](const void* from, void* to, size_t count) {
      return ncclAllReduce(from, to, count, ncclFloat32, ncclSum, r.comm, r.stream);
    };
    EXPECT_EQ(all_reduce(host.data(), x.get(), 16), ncclInvalidArgument) << "the host's";
    EXPECT_THAT(ncclGetLastError(nullptr),
                HasSubstr("ncclAllReduce of 16 ncclFloat32, ncclSum: its input is not 64 bytes in the memory of GPU"));
    EXPECT_EQ(all_reduce(x.get(), x.get(), 17), ncclInvalidArgument) << "beyond its end";
    EXPECT_EQ(all_reduce(x.get(), x.get() + 4, 8), ncclInvalidArgument) << "overlapping";
    EXPECT_EQ(ncclBroadcast(x.get(), x.get(), 1, ncclFloat32, 2, r.comm, r.stream), ncclInvalidArgument)
        << "no such root";
    EXPECT_EQ(ncclBroadcast(x.get(), x.get(), 1, ncclFloat8e4m3, 0, r.comm, r.stream), ncclInvalidArgument)
        << "no such type";
    cuda::Check(cudaSetDevice(1 - r.rank));
    float* other = nullptr;
    cuda::Check(cudaMalloc(&other, 64));
    cuda::Check(cudaSetDevice(r.rank));
    EXPECT_EQ(all_reduce(x.get(), other, 16), ncclInvalidArgument) << "another GPU's";
    cuda::Check(cudaFree(other));
  });
}

TEST(NcclMisuse, AGroupWithAnErrorStartsNothing) {
  OnRanks(1, [](NcclRank& r) {
    OnGpu<float> x(4, 3.0f);
    ncclGroupStart();
    EXPECT_EQ(ncclReduce(x.get(), x.get(), 4, ncclFloat32, ncclProd, 0, r.comm, r.stream), ncclSuccess);
    EXPECT_EQ(ncclReduce(x.get(), x.get(), 4, ncclFloat32, ncclProd, 1, r.comm, r.stream), ncclInvalidArgument);
    EXPECT_EQ(ncclGroupEnd(), ncclInvalidArgument);
    ncclGroupStart();
    EXPECT_EQ(ncclSend(x.get(), 2, ncclFloat32, 0, r.comm, r.stream), ncclSuccess);
    EXPECT_EQ(ncclGroupEnd(), ncclInvalidUsage) << "a message to itself that nothing receives";
    EXPECT_TRUE(EndsSoon(r.stream));
  });
}

TEST(NcclMisuse, OfACommunicatorThatIsGone) {
  OnRanks(1, [](NcclRank& r) {
    Reports reports;
    OnGpu<float> x(1, 0);
    EXPECT_EQ(ncclCommDestroy(r.comm), ncclSuccess);
    EXPECT_EQ(ncclAllReduce(x.get(), x.get(), 1, ncclFloat32, ncclSum, r.comm, r.stream), ncclInvalidArgument);
    EXPECT_EQ(ncclCommDestroy(r.comm), ncclInvalidArgument);
    r.comm = nullptr;
    EXPECT_EQ(reports.count(), 2);
    EXPECT_THAT(reports.Read(), HasSubstr("ncclAllReduce after it was destroyed"));
  });
}

TEST(NcclMisuse, MemoryFreedInAGroup) {
  Reports reports;
  const ncclUniqueId id = NewId();
  OnThreads(1, [&](int) {
    ncclComm_t comm = nullptr;
    cudaStream_t stream;
    cuda::Check(cudaStreamCreate(&stream));
    ASSERT_EQ(ncclCommInitRank(&comm, 1, id, 0), ncclSuccess);
    float* x = nullptr;
    cuda::Check(cudaMalloc(&x, 4));
    ncclGroupStart();
    EXPECT_EQ(ncclAllReduce(x, x, 1, ncclFloat32, ncclSum, comm, stream), ncclSuccess);
    cuda::Check(cudaFree(x));
    EXPECT_EQ(ncclGroupEnd(), ncclSuccess);
    EXPECT_EQ(cudaStreamSynchronize(stream), cudaErrorIllegalAddress);
    emulated::Recover();
    EXPECT_EQ(ncclCommAbort(comm), ncclSuccess);
  });
  EXPECT_EQ(reports.count(), 1);
  EXPECT_THAT(reports.Read(), HasSubstr("memory was freed"));
}

TEST(NcclMisuse, TwoThreadsAtOnce) {
  Reports reports;
  OnRanks(2, [&](NcclRank& r) {
    OnGpu<float> x(1, 0);
    const auto all_reduce = [&] {
      EXPECT_EQ(ncclAllReduce(x.get(), x.get(), 1, ncclFloat32, ncclSum, r.comm, r.stream), ncclSuccess);
    };
    if (r.rank == 0) {
      std::thread first(all_reduce), second(all_reduce);  // both wait for rank 1
      first.join(), second.join();
    } else {
      Await([&] { return reports.count() > 0; });
      all_reduce(), all_reduce();
    }
    r.Synchronize();
  });
  EXPECT_EQ(reports.count(), 1);
  EXPECT_THAT(reports.Read(), HasSubstr("rank 0 of 2: called by two threads at once"));
}

void OnTwoStreams(bool ordered, const Reports& reports) {
  OnRanks(2, [&](NcclRank& r) {
    WarmUp(r);
    OnGpu<float> x(1, 1.0f);
    cudaStream_t second;
    cudaEvent_t event;
    cuda::Check(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
    cuda::Check(cudaEventCreate(&event));
    if (r.rank == 1 && ordered) SleepMs(50);
    if (r.rank == 1 && !ordered) Await([&] { return reports.count() > 0; });
    ASSERT_EQ(ncclAllReduce(x.get(), x.get(), 1, ncclFloat32, ncclSum, r.comm, r.stream), ncclSuccess);
    cuda::Check(cudaEventRecord(event, r.stream));
    if (ordered || r.rank == 1) cuda::Check(cudaStreamWaitEvent(second, event));
    ASSERT_EQ(ncclAllReduce(x.get(), x.get(), 1, ncclFloat32, ncclSum, r.comm, second), ncclSuccess);
    cuda::Check(cudaStreamSynchronize(second));
    cuda::Check(cudaEventDestroy(event));
    EXPECT_EQ(x.Download(r.stream)[0], 4);
  });
}
TEST(NcclMisuse, TwoStreamsAtOnce) {
  Reports reports;
  OnTwoStreams(true, reports);
  EXPECT_EQ(reports.count(), 0);
  OnTwoStreams(false, reports);
  EXPECT_EQ(reports.count(), 1);
  EXPECT_THAT(reports.Read(), HasSubstr("nothing orders the streams"));
}

TEST(NcclMisuse, DestroyedAndSplitWithWorkOutstanding) {
  Reports reports;
  OnRanks(2, [&](NcclRank& r) {
    WarmUp(r);
    OnGpu<float> x(1, 1.0f);
    ncclComm_t child = nullptr;
    if (r.rank == 0) {
      ASSERT_EQ(ncclSend(x.get(), 1, ncclFloat32, 1, r.comm, r.stream), ncclSuccess);
      ASSERT_EQ(ncclCommSplit(r.comm, NCCL_SPLIT_NOCOLOR, 0, &child, nullptr), ncclSuccess);
      EXPECT_EQ(ncclCommDestroy(r.comm), ncclSuccess);
      r.comm = nullptr;
    } else {
      ASSERT_EQ(ncclCommSplit(r.comm, NCCL_SPLIT_NOCOLOR, 0, &child, nullptr), ncclSuccess);
      Await([&] { return reports.count() == 2; });
      ASSERT_EQ(ncclRecv(x.get(), 1, ncclFloat32, 0, r.comm, r.stream), ncclSuccess);
      r.Synchronize();
    }
  });
  EXPECT_EQ(reports.count(), 2);
  const std::string text = reports.Read();
  EXPECT_THAT(text, HasSubstr("split with operations outstanding"));
  EXPECT_THAT(text, HasSubstr("destroyed with operations outstanding"));
}

}  // namespace nccl_misuse_test
}  // namespace twofold::emulated_test
