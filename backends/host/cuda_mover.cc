#include "backends/host/cuda_mover.h"

#include <utility>

#include "core/base/check.h"
#include "core/base/status.h"
#include "kernels/cuda/collectives.h"
#include "kernels/cuda/streams.h"

namespace twofold::host {
namespace {

using cuda::CudaEvent;
using cuda::StreamsOfDevice;

int Attribute(cudaDeviceAttr attribute, int gpu) {
  int value = 0;
  cuda::Check(cudaDeviceGetAttribute(&value, attribute, gpu));
  return value;
}

class CudaMover : public Mover {
  // Makes the GPU current on this thread, and adds its name to errors.
  template <class F>
  auto Do(F&& call) {
    return of_->last.Naming([&] {
      cuda::MakeCurrent(of_->gpu);
      return call();
    });
  }

 public:
  explicit CudaMover(std::shared_ptr<StreamsOfDevice> of)
      : of_(std::move(of)), stream_(of_), multiprocessors_(Attribute(cudaDevAttrMultiProcessorCount, of_->gpu)) {}
  bool on_host() const override { return false; }

  void Copy(void* to, const void* from, int64_t bytes) override {
    if (bytes == 0 || to == from) return;
    Do([&] { cuda::Check(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyDefault, stream_.raw())); });
  }
  void CopyToAll(std::span<char* const> to, const char* from, int64_t bytes) override {
    Do([&] { cuda::CopyToAll(to, from, bytes, multiprocessors_, stream_.raw()); });
  }
  void Reduce(std::span<const void* const> inputs, std::span<void* const> outputs, DType dtype, ReduceOp op,
              int64_t first, int64_t count) override {
    Do([&] { cuda::ReduceSlices(inputs, outputs, dtype, op, first, count, multiprocessors_, stream_.raw()); });
  }
  void Divide(void* data, DType dtype, int64_t count, int by) override {
    Do([&] { cuda::DivideAll(data, dtype, count, by, multiprocessors_, stream_.raw()); });
  }

  void Begin(const Event& after) override {
    WaitFor(after);
    Do([&] { began_ = of_->timed->Record(stream_.raw()); });
  }
  void WaitFor(const Event& event) override {
    if (event.state() == nullptr) return;
    const auto* point = dynamic_cast<CudaEvent*>(event.state());
    TWOFOLD_CHECK(point != nullptr, "the point is an event of a GPU");
    Do([&] { cuda::Check(cudaStreamWaitEvent(stream_.raw(), point->get(), 0)); });
  }
  Event Record() override {
    return Event(Do([&] { return std::make_shared<CudaEvent>(of_, of_->events->Record(stream_.raw())); }));
  }
  Times Finish() override {
    return Do([&] {
      const cuda::EventPool::Entry end = of_->ends->Record(stream_.raw());
      cuda::Check(cudaEventSynchronize(end.get()));
      const auto times = of_->clock.Of(began_.get(), end.get());
      return Times{times.start, times.end};
    });
  }

 private:
  const std::shared_ptr<StreamsOfDevice> of_;
  cuda::CudaStream stream_;
  const int multiprocessors_;
  cuda::EventPool::Entry began_;
};

}  // namespace

std::unique_ptr<Mover> MakeCudaMover(Device& device) {
  return std::make_unique<CudaMover>(static_cast<cuda::CudaStream&>(device.compute()).of());
}

namespace {

absl::Status Connect(int from, int to) {
  int can = 0;
  cuda::Check(cudaDeviceCanAccessPeer(&can, from, to));
  if (can == 0) {
    return FailedPrecondition("cuda.gpus: GPU ", from, " cannot access the memory of GPU ", to,
                              ", which fabric in_memory needs; list GPUs that can access each other, or only one");
  }
  cuda::MakeCurrent(from);
  const cudaError_t status = cudaDeviceEnablePeerAccess(to, 0);
  if (status == cudaErrorPeerAccessAlreadyEnabled)
    cudaGetLastError();
  else
    cuda::Check(status);
  return absl::OkStatus();
}

}  // namespace

absl::Status ConnectGpus(std::span<const int> gpus, int ranks) {
  if (ranks > cuda::kMostArrays) {
    return InvalidArgument("fabric.in_memory: device CUDA allows at most ", cuda::kMostArrays, " ranks (got ", ranks,
                           ")");
  }
  try {
    for (const int from : gpus) {
      for (const int to : gpus) {
        if (from == to) continue;
        if (const absl::Status status = Connect(from, to); !status.ok()) return status;
      }
    }
  } catch (const cuda::CudaError& e) {
    return Internal("connecting GPUs: ", e.what());
  }
  return absl::OkStatus();
}

}  // namespace twofold::host
