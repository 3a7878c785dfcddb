#include "kernels/cuda/streams.h"

#include "core/base/strings.h"
#include "core/tensor/dtype.h"

namespace twofold::cuda {
namespace {

constexpr size_t kMostWaitsKept = 256;  // more than this many are counted even if nobody asks

std::string Describe(const ops::KernelKey& key) {
  std::string text =
      StrCat(std::string(key.name), " of ", std::string(DTypeName(key.dtype)), ", ", key.dims[0], " x ", key.dims[1]);
  if (key.dims[2] != 0) StrAppend(&text, " x ", key.dims[2]);
  return text;
}

}  // namespace

void LastLaunched::Check(cudaError_t status) const {
  if (status == cudaSuccess) [[likely]]
    return;
  Throw(StrCat(cudaGetErrorName(status), ": ", cudaGetErrorString(status)));
}

void LastLaunched::Throw(const std::string& what) const {
  std::lock_guard lock(mutex_);
  const std::string last =
      key_.name.empty() ? "no operation had been launched"
                        : StrCat("the last operation launched was ", Describe(key_),
                                 " (set CUDA_LAUNCH_BLOCKING=1 to get errors from the operation that causes them)");
  throw CudaError(StrCat("rank ", rank_, " on GPU ", gpu_, ": ", what, "; ", last));
}

// ---- Events ----

bool CudaEvent::Done() {
  try {
    MakeCurrent(of_->gpu);  // without this, a thread without a current GPU would get a context on the first GPU
    return Happened(event_.get());
  } catch (const CudaError&) {
    return true;  // Wait reports the error
  }
}

void CudaEvent::Wait() {
  of_->last.Naming([this] {
    MakeCurrent(of_->gpu);
    Check(cudaEventSynchronize(event_.get()));
  });
}

// ---- Streams ----

CudaStream::CudaStream(std::shared_ptr<StreamsOfDevice> of, Waits waits) : of_(std::move(of)), waits_are_(waits) {
  MakeCurrent(of_->gpu);
  of_->last.Check(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking));
}

CudaStream::~CudaStream() {
  cudaStreamSynchronize(stream_);
  cudaStreamDestroy(stream_);
}

Event CudaStream::Record() {
  if (flush_) flush_();
  return Event(of_->last.Naming([this] {
    MakeCurrent(of_->gpu);
    return std::make_shared<CudaEvent>(of_, of_->events->Record(stream_));
  }));
}

void CudaStream::WaitFor(const Event& event) {
  if (flush_) flush_();                   // also if the event has happened: sections must not depend on time
  if (event.Done()) return event.Wait();  // throws errors from before that point
  const auto wait = [&] {
    if (const auto* point = dynamic_cast<CudaEvent*>(event.state()))
      of_->last.Check(cudaStreamWaitEvent(stream_, point->get(), 0));
    else
      event.Wait();
  };
  if (waits_are_ == Waits::kNotTimed) return wait();
  const auto mark = [this] {
    return of_->last.Naming([this] {
      MakeCurrent(of_->gpu);
      return of_->timed->Record(stream_);
    });
  };
  EventPool::Entry reached = mark();
  wait();
  waits_.push_back({std::move(reached), mark(), wait_observer_ ? wait_observer_() : nullptr});
  if (waits_.size() > kMostWaitsKept) stalled();
}

void CudaStream::Synchronize() {
  if (flush_) flush_();
  of_->last.Naming([this] {
    MakeCurrent(of_->gpu);
    Check(cudaStreamSynchronize(stream_));
  });
}

Seconds CudaStream::stalled() {
  of_->last.Naming([this] {
    while (!waits_.empty() && Happened(waits_.front().end.get())) {
      const Waiting wait = std::move(waits_.front());
      waits_.pop_front();
      stalled_ += Seconds(ElapsedMs(wait.begin.get(), wait.end.get()) * 1e-3);
      if (wait.counted) wait.counted(wait.begin.get(), wait.end.get());
    }
  });
  return stalled_;
}

}  // namespace twofold::cuda
