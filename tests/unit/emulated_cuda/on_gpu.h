// Memory of the emulated GPU for a test, and a stream.
#pragma once

#include <cuda_runtime.h>

#include <cstdlib>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cuda/error.h"

namespace twofold::emulated_test {

inline const bool kKernelsAreLoaded =
    setenv("CUDA_MODULE_LOADING", "EAGER", 1) == 0;  // else the first launch of each waits for the GPU

template <class T>
class OnGpu {
 public:
  OnGpu(size_t count, T value) : OnGpu(std::vector<T>(count, value), nullptr) {}
  OnGpu(const std::vector<T>& values, cudaStream_t stream) : count_(values.size()) {
    cuda::Check(cudaMalloc(&address_, count_ * sizeof(T)));
    cuda::Check(cudaMemcpyAsync(address_, values.data(), count_ * sizeof(T), cudaMemcpyHostToDevice, stream));
    cuda::Check(cudaStreamSynchronize(stream));
  }
  ~OnGpu() { cudaFree(address_); }
  OnGpu(const OnGpu&) = delete;
  OnGpu& operator=(const OnGpu&) = delete;

  T* get() const { return address_; }
  std::vector<T> Download(cudaStream_t stream) const {
    std::vector<T> values(count_);
    cuda::Check(cudaMemcpyAsync(values.data(), address_, count_ * sizeof(T), cudaMemcpyDeviceToHost, stream));
    return values;
  }

 private:
  size_t count_;
  T* address_ = nullptr;
};

class EmulatedCuda : public ::testing::Test {
 protected:
  void SetUp() override {
    cuda::Check(cudaSetDevice(0));
    cuda::Check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
    RecordProperty("order", std::to_string(emulated::OrderSeed()));
  }
  void TearDown() override { cudaStreamDestroy(stream_); }

  cudaStream_t stream_ = nullptr;
};

}  // namespace twofold::emulated_test
