// Holds up a stream of a GPU, so that a test sees what goes on meanwhile.
#pragma once

#include <chrono>
#include <future>
#include <utility>

#include "kernels/cuda/streams.h"

namespace twofold {

// Behind it nothing of the stream happens until it is opened; or, where a test waits for what it holds up, for kPatience.
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
