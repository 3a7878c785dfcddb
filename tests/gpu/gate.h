// Blocks a stream of a GPU, so that a test can observe the state meanwhile.
#pragma once

#include <chrono>
#include <cstdlib>
#include <future>
#include <utility>

#include "kernels/cuda/streams.h"
#include "tests/tries.h"

namespace twofold {

// While a stream is blocked, nothing else may wait for it by accident: neither a kernel's first launch, which may wait
// for the whole GPU if kernels are loaded lazily, nor a stream that shares a hardware queue with it. Must be set before
// the first CUDA call.
inline const bool kNothingElseWaits =
    setenv("CUDA_MODULE_LOADING", "EAGER", 1) == 0 && setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 1) == 0;

// Later work of the stream waits until the gate is opened, or for kPatience in case the test itself waits for that
// work. CUDA may run all host functions of streams on one thread, in order, so of two gates the one made first must be
// opened first. Do not allocate or free memory while a gate is closed: that may wait for the GPU.
class Gate {
 public:
  static constexpr std::chrono::seconds kPatience{20};
  explicit Gate(Stream& stream) : stream_(stream) {
    cuda::Check(cudaLaunchHostFunc(
        static_cast<cuda::CudaStream&>(stream).raw(),
        [](void* gate) { static_cast<Gate*>(gate)->opened_.wait_for(kPatience); }, this));
  }
  ~Gate() {
    Open();
    stream_.Synchronize();  // the host function has returned
  }
  void Open() {
    if (!std::exchange(open_, true)) open_it_.set_value();
  }

 private:
  Stream& stream_;
  bool open_ = false;
  std::promise<void> open_it_;
  std::shared_future<void> opened_ = open_it_.get_future().share();
};

}  // namespace twofold
