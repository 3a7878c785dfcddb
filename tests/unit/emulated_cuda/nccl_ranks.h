// Ranks as threads of this process, with a GPU and a stream each.
#pragma once

#include <nccl.h>

#include <chrono>
#include <functional>
#include <thread>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cuda/error.h"
#include "tests/unit/emulated_cuda/on_gpu.h"

namespace twofold::emulated_test {

struct NcclRank {
  int rank, size;
  ncclComm_t comm;
  cudaStream_t stream;

  void Synchronize() const { cuda::Check(cudaStreamSynchronize(stream)); }
};

inline ncclUniqueId NewId() {
  ncclUniqueId id;
  EXPECT_EQ(ncclGetUniqueId(&id), ncclSuccess) << ncclGetLastError(nullptr);
  return id;
}

// `body` on `size` threads, rank r on GPU r.
inline void OnThreads(int size, const std::function<void(int rank)>& body) {
  std::vector<std::thread> threads;
  for (int r = 0; r < size; ++r) {
    threads.emplace_back([&, r] {
      cuda::Check(cudaSetDevice(r));
      body(r);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// With a communicator of all, which is destroyed afterwards unless body gives it up by setting it to null.
inline void OnRanks(int size, const std::function<void(NcclRank&)>& body) {
  const ncclUniqueId id = NewId();
  OnThreads(size, [&](int r) {
    NcclRank rank{.rank = r, .size = size, .comm = nullptr, .stream = nullptr};
    cuda::Check(cudaStreamCreateWithFlags(&rank.stream, cudaStreamNonBlocking));
    ASSERT_EQ(ncclCommInitRank(&rank.comm, size, id, r), ncclSuccess) << ncclGetLastError(nullptr);
    body(rank);
    if (rank.comm != nullptr) {
      EXPECT_EQ(ncclCommDestroy(rank.comm), ncclSuccess) << ncclGetLastError(nullptr);
    }
    EXPECT_EQ(cudaStreamDestroy(rank.stream), cudaSuccess);
  });
}

inline void SleepMs(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }

// Returns when `holds` does, which another thread is about to see to; after 20 s whether or not it does, for what
// follows to fail.
template <class F>
bool Await(F holds) {
  for (int i = 0; i < 20000; ++i) {
    if (holds()) return true;
    SleepMs(1);
  }
  return false;
}

// Whether the stream has done all that it was given, or does soon.
inline bool EndsSoon(cudaStream_t stream) {
  return Await([&] { return cudaStreamQuery(stream) == cudaSuccess; });
}

}  // namespace twofold::emulated_test
