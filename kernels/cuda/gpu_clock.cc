#include "kernels/cuda/gpu_clock.h"

#include <chrono>
#include <limits>
#include <utility>

namespace twofold::cuda {
namespace {

double Now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

}  // namespace

GpuClock::~GpuClock() {
  if (stream_ != nullptr) cudaStreamDestroy(stream_);
}

GpuClock::Interval GpuClock::Of(cudaEvent_t start, cudaEvent_t end) {
  std::lock_guard lock(mutex_);
  if (stream_ == nullptr || Now() - time_ > 1) Set();
  const auto time = [this](cudaEvent_t event) { return time_ + ElapsedMs(event_.get(), event) * 1e-3; };
  return {time(start), time(end)};
}

// If the host is delayed in between, it sees the event late. So several readings are taken, and the quickest one
// counts.
void GpuClock::Set() {
  MakeCurrent(gpu_);
  if (stream_ == nullptr) Check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
  double least = std::numeric_limits<double>::infinity();
  for (int look = 0; look < 3; ++look) {
    const double before = Now();
    EventPool::Entry event = timed_->Record(stream_);
    Check(cudaEventSynchronize(event.get()));
    const double after = Now();
    if (after - before >= least) continue;
    least = after - before, time_ = (before + after) / 2;
    std::swap(event_, event);
  }
}

}  // namespace twofold::cuda
