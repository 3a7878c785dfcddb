// Holds up a stream of a GPU, so that a test sees what goes on meanwhile.
#pragma once

#include <chrono>
#include <cstdlib>
#include <future>
#include <utility>

#include "kernels/cuda/streams.h"
#include "tests/tries.h"

namespace twofold {

// While a stream is held up, nothing else may wait for it by the way: neither a kernel's first launch, which may wait for the whole GPU
// where kernels are loaded one by one, nor a stream that shares a queue of the hardware with it. Set before CUDA is called first.
inline const bool kNothingElseWaits = setenv("CUDA_MODULE_LOADING", "EAGER", 1) == 0 && setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 1) == 0;

// Behind it nothing of the stream happens until it is opened; or, where a test waits for what it holds up, for kPatience. CUDA may do what
// streams have the host do on one thread, in order: of two gates the one made first is to be opened first. Nor is memory taken or
// given back behind one, which may wait for the GPU.
class Gate {
 public:
  static constexpr std::chrono::seconds kPatience{20};
  explicit Gate(Stream& stream) : stream_(stream) {
    cuda::Check(cudaLaunchHostFunc(
        static_cast<cuda::CudaStream&>(stream).raw(), [](void* gate) { static_cast<Gate*>(gate)->opened_.wait_for(kPatience); }, this));
  }
  ~Gate() {
    Open();
    stream_.Synchronize();  // it has left
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
