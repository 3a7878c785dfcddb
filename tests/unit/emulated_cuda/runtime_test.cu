// CUDA's runtime as CUDA has it: memory and its kinds, what streams and events order and what they do not, errors.
#include <sys/mman.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cuda/launch.h"
#include "tests/unit/emulated_cuda/on_gpu.h"

namespace twofold::cuda {
namespace {

using ::testing::ExitedWithCode;
using ::twofold::emulated_test::EmulatedCuda;
using ::twofold::emulated_test::OnGpu;

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

constexpr size_t kMiB = 1 << 20;

__global__ void Increment(int* x) { ++*x; }
__global__ void Copy(const int* from, int* to) { *to = *from; }
__global__ void Nothing() {}

// ---- Memory ----

class Memory : public EmulatedCuda {};

size_t Free() {
  size_t free = 0, total = 0;
  Check(cudaMemGetInfo(&free, &total));
  return free;
}

TEST_F(Memory, IsFilledWithFf) {
  unsigned char* device = nullptr;
  ASSERT_EQ(cudaMalloc(&device, 1000), cudaSuccess);
  std::vector<unsigned char> host(1000);
  ASSERT_EQ(cudaMemcpyAsync(host.data(), device, 1000, cudaMemcpyDeviceToHost, stream_), cudaSuccess);
  for (const unsigned char c : host) ASSERT_EQ(c, 0xff);
  EXPECT_EQ(cudaFree(device), cudaSuccess);
}

TEST_F(Memory, IsAccountedByPages) {
  const size_t before = Free();
  void* a = nullptr;
  ASSERT_EQ(cudaMalloc(&a, 3 * kMiB), cudaSuccess);
  EXPECT_EQ(before - Free(), 4 * kMiB);
  EXPECT_EQ(cudaFree(a), cudaSuccess);
  EXPECT_EQ(Free(), before);
}

TEST_F(Memory, IsBounded) {
  void* a = nullptr;
  EXPECT_EQ(cudaMalloc(&a, Free() + kMiB), cudaErrorMemoryAllocation);
  EXPECT_EQ(a, nullptr);
  EXPECT_EQ(cudaGetLastError(), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess) << "it does not stay";
}

TEST_F(Memory, KindsAreChecked) {
  OnGpu<int> device(256, 1), other(256, 2);
  std::vector<int> host(256);
  const auto copy = [&](void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
    const cudaError_t error = cudaMemcpyAsync(to, from, bytes, kind, stream_);
    EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
    return error;
  };
  EXPECT_EQ(copy(host.data(), device.get(), 1024, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  EXPECT_EQ(copy(device.get(), host.data(), 1024, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
  EXPECT_EQ(copy(device.get(), host.data(), 1024, cudaMemcpyDeviceToDevice), cudaErrorInvalidValue);
  EXPECT_EQ(copy(device.get(), other.get(), 1024, cudaMemcpyHostToHost), cudaErrorInvalidValue);
  EXPECT_EQ(copy(device.get(), host.data(), 1028, cudaMemcpyHostToDevice), cudaErrorInvalidValue) << "beyond its end";
  EXPECT_EQ(copy(device.get() + 1, device.get(), 512, cudaMemcpyDeviceToDevice), cudaErrorInvalidValue) << "overlaps";
  EXPECT_EQ(copy(device.get(), other.get(), 1024, cudaMemcpyDeviceToDevice), cudaSuccess);
  EXPECT_EQ(copy(host.data(), device.get(), 1024, cudaMemcpyDefault), cudaSuccess);
  EXPECT_EQ(host, std::vector<int>(256, 2));
  EXPECT_EQ(cudaMemsetAsync(host.data(), 0, 4, stream_), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFree(host.data()), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFreeHost(device.get()), cudaErrorInvalidValue);
  cudaGetLastError();
}

using MemoryDeathTest = Memory;

TEST_F(MemoryDeathTest, IsOutOfTheHostsReach) {
  if (kSanitized) GTEST_SKIP() << "under a sanitizer, GPUs' memory is the host's";
  if (const int key = pkey_alloc(0, 0); key < 0)
    GTEST_SKIP() << "this processor or kernel has no protection keys";
  else
    pkey_free(key);
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_DEATH(
      {
        int* device = nullptr;
        Check(cudaMalloc(&device, 4));
        *device = 1;
      },
      "");
}

// ---- Streams ----

class Streams : public EmulatedCuda {
 protected:
  void SetUp() override {
    EmulatedCuda::SetUp();
    Check(cudaStreamCreateWithFlags(&other_, cudaStreamNonBlocking));
    Check(cudaEventCreateWithFlags(&event_, cudaEventDisableTiming));
  }
  void TearDown() override {
    cudaStreamDestroy(other_);
    cudaEventDestroy(event_);
    EmulatedCuda::TearDown();
  }
  // A stream that does nothing until Open().
  void Hold(cudaStream_t stream) {
    Check(cudaLaunchHostFunc(
        stream,
        [](void* gate) {
          while (!static_cast<std::atomic<bool>*>(gate)->load())
            std::this_thread::sleep_for(std::chrono::microseconds(100));
        },
        &gate_));
  }
  void Open() { gate_ = true; }

  cudaStream_t other_ = nullptr;
  cudaEvent_t event_ = nullptr;
  std::atomic<bool> gate_{false};
};

TEST_F(Streams, DoInOrderWhatTheyAreGiven) {
  OnGpu<int> x(1, 0), y(1, 0);
  for (int i = 0; i < 1000; ++i) Launch(Increment, 1, 1, 0, stream_, x.get());
  Launch(Copy, 1, 1, 0, stream_, x.get(), y.get());
  for (int i = 0; i < 1000; ++i) Launch(Increment, 1, 1, 0, stream_, x.get());
  EXPECT_EQ(y.Download(stream_)[0], 1000);
  EXPECT_EQ(x.Download(stream_)[0], 2000);
}

TEST_F(Streams, RunBesideTheHostAndEachOther) {
  OnGpu<int> x(1, 0), y(1, 0);
  Hold(stream_);
  Launch(Increment, 1, 1, 0, stream_, x.get());
  EXPECT_EQ(cudaStreamQuery(stream_), cudaErrorNotReady);
  cudaGetLastError();
  Launch(Increment, 1, 1, 0, other_, y.get());
  EXPECT_EQ(y.Download(other_)[0], 1);  // while the first waits
  Open();
  EXPECT_EQ(x.Download(stream_)[0], 1);
  EXPECT_EQ(cudaStreamQuery(stream_), cudaSuccess);
}

TEST_F(Streams, WaitForEventsAsTheyWereRecorded) {
  OnGpu<int> x(1, 0), y(1, -1), z(1, -1);
  EXPECT_EQ(cudaEventQuery(event_), cudaSuccess) << "never recorded";
  EXPECT_EQ(cudaStreamWaitEvent(other_, event_), cudaSuccess);
  Hold(stream_);
  Launch(Increment, 1, 1, 0, stream_, x.get());
  ASSERT_EQ(cudaEventRecord(event_, stream_), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(event_), cudaErrorNotReady);
  cudaGetLastError();
  ASSERT_EQ(cudaStreamWaitEvent(other_, event_), cudaSuccess);
  // Recorded again: who waits already waits for the first.
  Launch(Copy, 1, 1, 0, other_, x.get(), y.get());
  Open();
  ASSERT_EQ(cudaStreamSynchronize(other_), cudaSuccess);
  Launch(Increment, 1, 1, 0, stream_, x.get());
  ASSERT_EQ(cudaEventRecord(event_, stream_), cudaSuccess);
  ASSERT_EQ(cudaStreamWaitEvent(other_, event_), cudaSuccess);
  Launch(Copy, 1, 1, 0, other_, x.get(), z.get());
  EXPECT_EQ(y.Download(other_)[0], 1);
  EXPECT_EQ(z.Download(other_)[0], 2);
  EXPECT_EQ(cudaEventSynchronize(event_), cudaSuccess);
}

__global__ void LoadedLate(int* x) { ++*x; }

// The first launch of a kernel may wait for all that its GPU has been given.
TEST_F(Streams, AKernelIsLoadedWhenItIsLaunchedFirst) {
#ifdef __SANITIZE_THREAD__
  GTEST_SKIP() << "all are loaded, so that nothing is ordered";
#endif
  OnGpu<int> x(1, 0), y(1, 0);
  setenv("CUDA_MODULE_LOADING", "LAZY", 1);
  Hold(stream_);
  std::thread opener([this] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    Open();
  });
  Launch(LoadedLate, 1, 1, 0, other_, y.get());
  EXPECT_EQ(cudaStreamQuery(stream_), cudaSuccess) << "the host has waited";
  opener.join();
  setenv("CUDA_MODULE_LOADING", "EAGER", 1);
  gate_ = false;
  Hold(stream_);
  Launch(LoadedLate, 1, 1, 0, other_, y.get());
  EXPECT_EQ(y.Download(other_)[0], 2) << "loaded already";
  Open();
}

// The thread sanitizer sees this one (and the test is left out there); here the value shows it.
TEST_F(Streams, AMissingWaitChangesResults) {
  if (kSanitized) GTEST_SKIP() << "a race, on purpose";
  OnGpu<int> x(1, 0), y(1, -1);
  Hold(stream_);
  Launch(Increment, 1, 1, 0, stream_, x.get());
  ASSERT_EQ(cudaEventRecord(event_, stream_), cudaSuccess);
  Launch(Copy, 1, 1, 0, other_, x.get(), y.get());
  EXPECT_EQ(y.Download(other_)[0], 0);
  Open();
}

#ifdef __SANITIZE_THREAD__
using StreamsDeathTest = Streams;

// As seen from a process of its own, which the sanitizer ends with its exit code.
TEST_F(StreamsDeathTest, TheThreadSanitizerSeesAMissingWait) {
  testing::FLAGS_gtest_death_test_style = "threadsafe";
  const auto run = [this](bool wait) {
    OnGpu<int> x(1, 0), y(1, -1);
    for (int i = 0; i < 20; ++i) {
      Launch(Increment, 1, 1, 0, stream_, x.get());
      Check(cudaEventRecord(event_, stream_));
      if (wait) Check(cudaStreamWaitEvent(other_, event_));
      Launch(Copy, 1, 1, 0, other_, x.get(), y.get());
      Check(cudaEventRecord(event_, other_));
      Check(cudaStreamWaitEvent(stream_, event_));
    }
    Check(cudaDeviceSynchronize());
  };
  EXPECT_EXIT(
      {
        run(true);
        std::exit(0);
      },
      ExitedWithCode(0), "");
  EXPECT_EXIT(
      {
        run(false);
        std::exit(0);
      },
      ExitedWithCode(66), "data race");
  // The host that reads pinned memory before the copy is known to be done.
  const auto read = [this](bool wait) {
    OnGpu<int> x(1, 5);
    int* pinned = nullptr;
    Check(cudaHostAlloc(reinterpret_cast<void**>(&pinned), 4, cudaHostAllocDefault));
    Check(cudaMemcpyAsync(pinned, x.get(), 4, cudaMemcpyDeviceToHost, stream_));
    if (wait) Check(cudaStreamSynchronize(stream_));
    std::this_thread::sleep_for(std::chrono::milliseconds(300));  // it is there, but nothing says so
    Launch(Nothing, 1, 1, 0, stream_);
    std::this_thread::sleep_for(std::chrono::milliseconds(300));
    std::exit(*pinned == 5 ? 0 : 1);
  };
  EXPECT_EXIT(read(true), ExitedWithCode(0), "");
  EXPECT_EXIT(read(false), ExitedWithCode(66), "data race");
}
#endif

TEST_F(Streams, FinishWhatTheyWereGivenWhenDestroyed) {
  OnGpu<int> x(1, 0);
  cudaStream_t stream = nullptr;
  ASSERT_EQ(cudaStreamCreate(&stream), cudaSuccess);
  Hold(stream);
  for (int i = 0; i < 10; ++i) Launch(Increment, 1, 1, 0, stream, x.get());
  ASSERT_EQ(cudaEventRecord(event_, stream), cudaSuccess);
  EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  EXPECT_EQ(cudaStreamSynchronize(stream), cudaErrorInvalidResourceHandle);
  cudaGetLastError();
  Open();
  EXPECT_EQ(cudaEventSynchronize(event_), cudaSuccess);
  EXPECT_EQ(x.Download(stream_)[0], 10);
}

TEST_F(Streams, MayBeDestroyedWhileAnotherThreadWaitsForAll) {
  std::atomic<bool> over = false;
  std::thread other([&over] {
    while (!over) Check(cudaDeviceSynchronize());
  });
  for (int i = 0; i < 300; ++i) {
    cudaStream_t stream = nullptr;
    ASSERT_EQ(cudaStreamCreate(&stream), cudaSuccess);
    Launch(Nothing, 1, 1, 0, stream);
    EXPECT_EQ(cudaStreamDestroy(stream), cudaSuccess);
  }
  over = true;
  other.join();
}

TEST_F(Streams, TheNullStreamWaitsForBlockingOnesAndTheyForIt) {
  OnGpu<int> x(1, 0), y(1, -1), z(1, -1);
  cudaStream_t blocking = nullptr;
  ASSERT_EQ(cudaStreamCreate(&blocking), cudaSuccess);
  Hold(blocking);
  Launch(Increment, 1, 1, 0, blocking, x.get());
  Launch(Copy, 1, 1, 0, nullptr, x.get(), y.get());
  Launch(Increment, 1, 1, 0, nullptr, x.get());
  Launch(Copy, 1, 1, 0, blocking, x.get(), z.get());
  Open();
  EXPECT_EQ(z.Download(blocking)[0], 2);
  EXPECT_EQ(y.Download(nullptr)[0], 1);
  EXPECT_EQ(cudaStreamDestroy(blocking), cudaSuccess);
}

TEST_F(Streams, PageableMemoryIsTheCallersAgain) {
  OnGpu<int> x(1, 0);
  Hold(stream_);
  int value = 7;
  ASSERT_EQ(cudaMemcpyAsync(x.get(), &value, 4, cudaMemcpyHostToDevice, stream_), cudaSuccess);
  value = 8;
  Open();
  EXPECT_EQ(x.Download(stream_)[0], 7);
}

TEST_F(Streams, PinnedMemoryIsReadWhenTheStreamGetsThere) {
  if (kSanitized) GTEST_SKIP() << "a race, on purpose";
  OnGpu<int> x(1, 0);
  int* pinned = nullptr;
  ASSERT_EQ(cudaMallocHost(&pinned, 4), cudaSuccess);
  Hold(stream_);
  *pinned = 7;
  ASSERT_EQ(cudaMemcpyAsync(x.get(), pinned, 4, cudaMemcpyHostToDevice, stream_), cudaSuccess);
  *pinned = 8;
  Open();
  EXPECT_EQ(x.Download(stream_)[0], 8);
  EXPECT_EQ(cudaFreeHost(pinned), cudaSuccess);
}

TEST_F(Streams, ManyThreadsEnqueue) {
  constexpr int kThreads = 4, kEach = 200;
  OnGpu<int> x(1, 0);
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      for (int n = 0; n < kEach; ++n) Launch(Increment, 1, 1, 0, stream_, x.get());
    });
  }
  for (std::thread& t : threads) t.join();
  EXPECT_EQ(x.Download(stream_)[0], kThreads * kEach);
}

TEST_F(Streams, TimeIsThatOfTheStream) {
  cudaEvent_t start = nullptr, end = nullptr;
  Check(cudaEventCreate(&start));
  Check(cudaEventCreate(&end));
  Check(cudaEventRecord(start, stream_));
  Check(cudaLaunchHostFunc(
      stream_, [](void*) { std::this_thread::sleep_for(std::chrono::milliseconds(20)); }, nullptr));
  Check(cudaEventRecord(end, stream_));
  float ms = 0;
  EXPECT_EQ(cudaEventElapsedTime(&ms, start, end), cudaErrorNotReady);
  cudaGetLastError();
  Check(cudaEventSynchronize(end));
  ASSERT_EQ(cudaEventElapsedTime(&ms, start, end), cudaSuccess);
  EXPECT_GE(ms, 20);
  EXPECT_EQ(cudaEventElapsedTime(&ms, start, event_), cudaErrorInvalidResourceHandle) << "made without timing";
  cudaGetLastError();
  cudaEventDestroy(start);
  cudaEventDestroy(end);
}

// ---- Errors ----

class Errors : public EmulatedCuda {};

TEST_F(Errors, LaunchesThatNoGpuTakes) {
  EXPECT_THROW(Launch(Nothing, 1, 1025, 0, stream_), CudaError);
  EXPECT_THROW(Launch(Nothing, 1, dim3(1, 1, 65), 0, stream_), CudaError);
  EXPECT_THROW(Launch(Nothing, dim3(1, 65536), 1, 0, stream_), CudaError);
  EXPECT_THROW(Launch(Nothing, dim3(1, 1, 65536), 1, 0, stream_), CudaError);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidConfiguration);
  EXPECT_THROW(Launch(Nothing, 1, 1, (227 << 10) + 1, stream_), CudaError);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidValue);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
  Launch(Nothing, dim3(2, 3, 4), 1024, 227 << 10, stream_);
  Launch(Nothing, 0, 1, 0, stream_);
  EXPECT_EQ(cudaStreamSynchronize(stream_), cudaSuccess);
}

__global__ void AlsoNothing() {}

TEST_F(Errors, SharedMemoryThatWasNotAskedFor) {
  const auto enqueue = [this](void (*kernel)(), size_t shared) {
    return emulated::Enqueue(stream_, 1, 1, shared, reinterpret_cast<const void*>(kernel), [] {});
  };
  EXPECT_EQ(enqueue(AlsoNothing, 48 << 10), cudaSuccess);
  EXPECT_EQ(enqueue(AlsoNothing, (48 << 10) + 1), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFuncSetAttribute(AlsoNothing, cudaFuncAttributeMaxDynamicSharedMemorySize, 100 << 10), cudaSuccess);
  EXPECT_EQ(enqueue(AlsoNothing, 100 << 10), cudaSuccess);
  EXPECT_EQ(enqueue(AlsoNothing, (100 << 10) + 1), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFuncSetAttribute(AlsoNothing, cudaFuncAttributeMaxDynamicSharedMemorySize, 228 << 10),
            cudaErrorInvalidValue);
  cudaGetLastError();
}

TEST_F(Errors, ThatComeLaterStay) {
  OnGpu<int> x(1, 0);
  Launch(Increment, 1, 1, 0, stream_, x.get());
  emulated::FailLater(stream_, cudaErrorIllegalAddress);
  try {
    Launch(Increment, 1, 1, 0, stream_, x.get());  // left out, if it is taken at all
  } catch (const CudaError&) {
  }
  EXPECT_EQ(cudaStreamSynchronize(stream_), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaGetLastError(), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaPeekAtLastError(), cudaErrorIllegalAddress);
  void* a = nullptr;
  EXPECT_EQ(cudaMalloc(&a, 4), cudaErrorIllegalAddress);
  emulated::Recover();
  cudaGetLastError();
  EXPECT_EQ(x.Download(stream_)[0], 1);
}

TEST_F(Errors, HostFunctionsMustNotCallCuda) {
  cudaError_t error = cudaSuccess;
  Check(cudaLaunchHostFunc(
      stream_, [](void* to) { *static_cast<cudaError_t*>(to) = cudaDeviceSynchronize(); }, &error));
  Check(cudaStreamSynchronize(stream_));
  EXPECT_EQ(error, cudaErrorNotPermitted);
}

TEST_F(Errors, HaveNames) {
  EXPECT_STREQ(cudaGetErrorName(cudaErrorMemoryAllocation), "cudaErrorMemoryAllocation");
  EXPECT_STREQ(cudaGetErrorString(cudaErrorMemoryAllocation), "out of memory");
  EXPECT_EQ(cudaSetDevice(100), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidDevice);
}

}  // namespace
}  // namespace twofold::cuda
