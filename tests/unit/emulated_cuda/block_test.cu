// Threads of a block as CUDA has them: barriers, exchanges of warps, shared memory, orders; and what is reported of
// wrong kernels.
#include <cstdint>
#include <numeric>
#include <set>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/reduce.h"
#include "tests/unit/emulated_cuda/on_gpu.h"

namespace twofold::cuda {
namespace {

using ::twofold::emulated_test::EmulatedCuda;
using ::twofold::emulated_test::OnGpu;

using Block = EmulatedCuda;

__global__ void Indices(int* out) {
  const unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  const unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  out[block * blockDim.x * blockDim.y * blockDim.z + thread] = static_cast<int>(block * 1000 + thread);
}

TEST_F(Block, EveryThreadOfEveryBlockRunsOnce) {
  OnGpu<int> out(2 * 3 * 2 * 5 * 3 * 7, -1);
  Launch(Indices, dim3(2, 3, 2), dim3(5, 3, 7), 0, stream_, out.get());
  const std::vector<int> got = out.Download(stream_);
  for (size_t i = 0; i < got.size(); ++i) ASSERT_EQ(got[i], static_cast<int>(i / 105 * 1000 + i % 105));
}

__global__ void Shuffles(int* out) {
  const int i = static_cast<int>(blockIdx.x * blockDim.x + threadIdx.x), value = i * 10;
  int* mine = out + i * 4;
  mine[0] = __shfl_xor_sync(kAllLanes, value, 3);
  mine[1] = __shfl_up_sync(kAllLanes, value, 2);
  mine[2] = __shfl_up_sync(kAllLanes, value, 1, 4);
  mine[3] = static_cast<int>(__shfl_xor_sync(kAllLanes, static_cast<double>(value), 31));
}

TEST_F(Block, LanesExchange) {
  constexpr int kThreads = 3 * 96;
  OnGpu<int> out(kThreads * 4, -1);
  Launch(Shuffles, 3, 96, 0, stream_, out.get());
  const std::vector<int> got = out.Download(stream_);
  for (int i = 0; i < kThreads; ++i) {
    const int lane = i % 32, warp = i - lane;
    const int* mine = &got[static_cast<size_t>(i) * 4];
    EXPECT_EQ(mine[0], (warp + (lane ^ 3)) * 10);
    EXPECT_EQ(mine[1], (lane < 2 ? i : i - 2) * 10);
    EXPECT_EQ(mine[2], (lane % 4 == 0 ? i : i - 1) * 10);
    EXPECT_EQ(mine[3], (warp + 31 - lane) * 10);
  }
}

__global__ void Votes(int* out) {
  const int i = static_cast<int>(threadIdx.x);
  out[i] = __any_sync(kAllLanes, i == 40);
}

TEST_F(Block, LanesVote) {
  OnGpu<int> out(96, -1);
  Launch(Votes, 1, 96, 0, stream_, out.get());
  const std::vector<int> got = out.Download(stream_);
  for (int i = 0; i < 96; ++i) EXPECT_EQ(got[static_cast<size_t>(i)], i / 32 == 1);
}

__global__ void Sums(const float* in, float* out, int columns) {
  float sum = 0;
  for (int i = static_cast<int>(threadIdx.x); i < columns; i += static_cast<int>(blockDim.x))
    sum += in[blockIdx.x * columns + i];
  sum = BlockSum(sum);
  const float largest = BlockReduce(sum, MaximumOf(), -1e30f);
  if (threadIdx.x == 0) out[blockIdx.x] = largest;
}

TEST_F(Block, ReductionsOfABlockFollowOneAnother) {
  for (const int threads : {32, 64, 1024}) {
    constexpr int kRows = 9, kColumns = 1337;
    std::vector<float> in(kRows * kColumns);
    std::iota(in.begin(), in.end(), 0.0f);
    for (float& x : in) x = static_cast<float>(static_cast<int>(x) % 17);
    OnGpu<float> of(in, stream_), out(kRows, 0);
    Launch(Sums, kRows, static_cast<unsigned>(threads), 0, stream_, of.get(), out.get(), kColumns);
    const std::vector<float> got = out.Download(stream_);
    for (int r = 0; r < kRows; ++r)
      EXPECT_EQ(got[r], std::accumulate(&in[r * kColumns], &in[r * kColumns] + kColumns, 0.0f));
  }
}

__global__ void Reverse(int* data, int* first_seen, bool barrier) {
  int* shared = DynamicShared<int>();
  const int i = static_cast<int>(threadIdx.x), n = static_cast<int>(blockDim.x);
  if (first_seen != nullptr && i == 0) *first_seen = shared[n - 1];
  if (first_seen != nullptr) __syncthreads();
  shared[i] = data[i];
  if (barrier) __syncthreads();
  data[i] = shared[n - 1 - i];
}

TEST_F(Block, DynamicSharedMemoryIsPoisonedAndShared) {
  std::vector<int> in(256);
  std::iota(in.begin(), in.end(), 0);
  OnGpu<int> data(in, stream_), seen(1, 0);
  Launch(Reverse, 1, 256, 256 * sizeof(int), stream_, data.get(), seen.get(), true);
  const std::vector<int> got = data.Download(stream_);
  for (int i = 0; i < 256; ++i) EXPECT_EQ(got[static_cast<size_t>(i)], 255 - i);
  EXPECT_EQ(seen.Download(stream_)[0], -1);  // 0xff bytes
}

__global__ void NoSyncWarp(int* out) {
  __shared__ int value[32];
  value[threadIdx.x] = static_cast<int>(threadIdx.x) + static_cast<int>(blockIdx.x) * 100;
  __threadfence_block();  // which orders memory, not threads
  out[blockIdx.x * 32 + threadIdx.x] = value[(threadIdx.x + 1) % 32];
  __syncwarp();
}

#ifdef __SANITIZE_THREAD__
TEST_F(Block, TheThreadSanitizerSeesAMissingBarrier) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  const auto run = [this](bool barrier) {
    OnGpu<int> data(std::vector<int>(256, 1), stream_);
    Launch(Reverse, 1, 256, 256 * sizeof(int), stream_, data.get(), static_cast<int*>(nullptr), barrier);
    Check(cudaStreamSynchronize(stream_));
    std::exit(0);
  };
  EXPECT_EXIT(run(true), testing::ExitedWithCode(0), "");
  EXPECT_EXIT(run(false), testing::ExitedWithCode(66), "data race");
  const auto run_warp = [this] {
    OnGpu<int> out(32 * 4, -1);
    Launch(NoSyncWarp, 4, 32, 0, stream_, out.get());
    Check(cudaStreamSynchronize(stream_));
    std::exit(0);
  };
  EXPECT_EXIT(run_warp(), testing::ExitedWithCode(66), "data race");
}
#else
// Threads run one after another, in an order of its own for each launch, so that some read what has not been written
// yet.
TEST_F(Block, AMissingBarrierChangesResults) {
  std::vector<int> in(256), right(256);
  std::iota(in.begin(), in.end(), 0);
  for (int i = 0; i < 256; ++i) right[static_cast<size_t>(i)] = 255 - i;
  for (int time = 0; time < 20; ++time) {
    OnGpu<int> data(in, stream_);
    Launch(Reverse, 1, 256, 256 * sizeof(int), stream_, data.get(), static_cast<int*>(nullptr), false);
    EXPECT_NE(data.Download(stream_), right);
  }
}

// A value, known to each warp, is read by the next one after exchanges within the warp alone.
__global__ void ReadAfterExchanges(int* out) {
  int* const shared = DynamicShared<int>();
  const int thread = static_cast<int>(threadIdx.x), threads = static_cast<int>(blockDim.x);
  __syncthreads();
  shared[thread] = thread;
  for (int i = 0; i < 20; ++i) __syncwarp();
  out[static_cast<int>(blockIdx.x) * threads + thread] = shared[(thread + 32) % threads];
}

// Warps have nothing that keeps them together but barriers, however often their lanes meet.
TEST_F(Block, AWarpMayBeFarBehindOthers) {
  constexpr int kBlocks = 64;  // in each, a warp is behind in every second run
  OnGpu<int> out(128 * kBlocks, 0);
  Launch(ReadAfterExchanges, kBlocks, 128, 128 * sizeof(int), stream_, out.get());
  const std::vector<int> got = out.Download(stream_);
  int unwritten = 0;
  for (const int i : got) unwritten += i == -1;
  EXPECT_GE(unwritten, 3 * 31);  // of several blocks
}

TEST_F(Block, LanesDoNotRunInStep) {
  OnGpu<int> out(32 * 4, -1);
  Launch(NoSyncWarp, 4, 32, 0, stream_, out.get());
  const std::vector<int> got = out.Download(stream_);
  int wrong = 0;
  for (int i = 0; i < 128; ++i) wrong += got[static_cast<size_t>(i)] != (i % 32 + 1) % 32 + i / 32 * 100;
  EXPECT_GT(wrong, 0);
}
#endif

__global__ void OrderOfBlocks(unsigned* next, unsigned* order) { order[atomicAdd(next, 1u)] = blockIdx.x; }

TEST_F(Block, BlocksRunInAnOrderOfTheirOwn) {
  std::set<std::vector<unsigned>> orders;
  for (int time = 0; time < 8; ++time) {
    OnGpu<unsigned> next(1, 0), order(37, 99);
    Launch(OrderOfBlocks, 37, 1, 0, stream_, next.get(), order.get());
    std::vector<unsigned> got = order.Download(stream_);
    orders.insert(got);
    std::sort(got.begin(), got.end());
    for (unsigned i = 0; i < 37; ++i) ASSERT_EQ(got[i], i);
  }
  EXPECT_GT(orders.size(), 1u);
}

__global__ void Atomics(unsigned* count) { atomicAdd(count, 1u); }

TEST_F(Block, Atomics) {
  OnGpu<unsigned> count(1, 0);
  Launch(Atomics, 7, 96, 0, stream_, count.get());
  EXPECT_EQ(count.Download(stream_)[0], 7u * 96u);
}

// ---- Wrong kernels ----

__global__ void ReturnsEarly(int threads) {
  if (static_cast<int>(threadIdx.x) >= threads) return;
  __syncthreads();
}
__global__ void HalfAWarp() {
  if (threadIdx.x % 32 < 16) __syncwarp();
}
__global__ void SomeLanes() { __syncwarp(0xffffu); }
__global__ void TwoKinds(int* out) {
  out[threadIdx.x] = threadIdx.x < 16 ? __shfl_xor_sync(kAllLanes, 1, 1) : __any_sync(kAllLanes, 1);
}
__global__ void WaitsForever(int* out) {
  if (threadIdx.x < 32) __syncthreads();
  out[threadIdx.x] = __shfl_xor_sync(kAllLanes, 1, 1);
}

class WrongKernel : public EmulatedCuda {
 protected:
  // Launches, waits, and returns what is said on stderr.
  template <class F>
  std::string Report(F launch) {
    testing::internal::CaptureStderr();
    const int before = emulated::Reports();
    launch();
    EXPECT_EQ(cudaStreamSynchronize(stream_), cudaErrorLaunchFailure);
    EXPECT_EQ(cudaGetLastError(), cudaErrorLaunchFailure);
    EXPECT_EQ(cudaGetLastError(), cudaErrorLaunchFailure) << "it stays";
    EXPECT_EQ(emulated::Reports(), before + 1);
    emulated::Recover();
    return testing::internal::GetCapturedStderr();
  }
};

TEST_F(WrongKernel, AThreadThatReturnsWhileOthersWait) {
  const std::string report = Report([&] { Launch(ReturnsEarly, dim3(2, 2), 64, 0, stream_, 40); });
  EXPECT_NE(report.find("ReturnsEarly"), std::string::npos) << report;
  EXPECT_NE(report.find("of (2, 2, 1), 64 threads: 40 wait at __syncthreads (the first is thread 0), 24 have returned "
                        "(the first is thread 40)"),
            std::string::npos)
      << report;
}
TEST_F(WrongKernel, LanesThatDoNotCome) {
  const std::string report = Report([&] { Launch(HalfAWarp, 1, 64, 0, stream_); });
  EXPECT_NE(report.find("32 wait at an exchange of their warp"), std::string::npos) << report;
}
TEST_F(WrongKernel, AMaskOfSomeLanes) {
  const std::string report = Report([&] { Launch(SomeLanes, 1, 64, 0, stream_); });
  EXPECT_NE(report.find("names lanes 0xffff; an exchange must name all 32"), std::string::npos) << report;
}
TEST_F(WrongKernel, LessThanAWarp) {
  const std::string report = Report([&] { Launch(HalfAWarp, 1, 40, 0, stream_); });
  EXPECT_TRUE(report.find("a warp of 8 threads") != std::string::npos ||
              report.find("wait at an exchange") != std::string::npos)
      << report;
}
TEST_F(WrongKernel, LanesAtDifferentExchanges) {
  OnGpu<int> out(32, 0);
  const std::string report = Report([&] { Launch(TwoKinds, 1, 32, 0, stream_, out.get()); });
  EXPECT_NE(report.find("different kinds of exchange"), std::string::npos) << report;
}
TEST_F(WrongKernel, ABarrierThatOneWarpAloneReaches) {
  OnGpu<int> out(64, 0);
  const std::string report = Report([&] { Launch(WaitsForever, 1, 64, 0, stream_, out.get()); });
  EXPECT_NE(report.find("32 wait at __syncthreads (the first is thread 0), 32 have returned"), std::string::npos)
      << report;
  // The stream and its fibers are good for the next kernel.
  OnGpu<int> indices(64, -1);
  Launch(Indices, 1, 64, 0, stream_, indices.get());
  EXPECT_EQ(indices.Download(stream_)[63], 63);
}

}  // namespace
}  // namespace twofold::cuda
