#include <algorithm>
#include <numeric>

#include "backends/host/cuda.h"
#include "core/base/status.h"
#include "core/base/strings.h"
#include "kernels/cuda/cuda_device.h"

namespace twofold::host {
namespace {

class CountedGpuSource : public cuda::GpuSource {
 public:
  CountedGpuSource(int gpu, Bytes limit, GpuReserved& reserved)
      : GpuSource(gpu, limit), gpu_(gpu), reserved_(reserved) {}
  std::optional<Address> Reserve(Bytes size) override {
    const auto address = GpuSource::Reserve(size);
    if (address) reserved_.Add(gpu_, size);
    return address;
  }
  void Release(Address address, Bytes size) override {
    GpuSource::Release(address, size);
    reserved_.Add(gpu_, Bytes(0) - size);
  }

 private:
  const int gpu_;
  GpuReserved& reserved_;
};

cuda::AttentionKernels KernelsOf(spec::Cuda::Attention attention) {
  switch (attention) {
    case spec::Cuda::OWN: return cuda::AttentionKernels::kOwn;
    case spec::Cuda::CUDNN: return cuda::AttentionKernels::kCudnn;
    case spec::Cuda::HOPPER: return cuda::AttentionKernels::kHopper;
    default: return cuda::AttentionKernels::kAuto;
  }
}

}  // namespace

std::string WhyNoCuda() {
  const std::string why = WhyNoGpu();
  return why.empty() ? why : StrCat("there is no GPU: ", why);
}

int GpusHere() { return GpuCount(); }

bool GpusAreEmulated() {
#ifdef TWOFOLD_EMULATED_CUDA
  return true;
#else
  return false;
#endif
}

std::string DescribeGpu(int gpu) {
  const GpuFacts facts = FactsOfGpu(gpu);
  return StrCat("GPU ", gpu, ": ", facts.name, ", ", facts.sizes, "; ", facts.software);
}

std::vector<std::string> DescribeGpuLibraries() { return GpuLibraries(); }
std::string NameOfGpu(int gpu) { return FactsOfGpu(gpu).name; }
GpuFigures FiguresOfGpu(int gpu) {
  const GpuFacts facts = FactsOfGpu(gpu);
  return {.software = facts.software,
          .memory_bytes = facts.memory_bytes,
          .multiprocessors = facts.multiprocessors,
          .l2_bytes = facts.l2_bytes,
          .clock_hz = facts.clock_hz,
          .compute_capability = facts.compute_capability};
}
Bytes FreeMemoryOf(int gpu) { return MemoryOf(gpu).free; }

absl::StatusOr<CudaChoice> ChooseCuda(const spec::Spec& spec) {
  if (!WhyNoCuda().empty()) return CudaCannotBeHad();
  CudaChoice choice{.gpus = {spec.cuda().gpus().begin(), spec.cuda().gpus().end()},
                    .tf32 = spec.cuda().tf32(),
                    .time_algorithms = spec.cuda().time_algorithms(),
                    .graphs = spec.cuda().graphs(),
                    .fp8 = spec.train().precision().matmul() == spec::Precision::FP8,
                    .own_fp8 = spec.cuda().fp8() == spec::Cuda::Fp8::OWN,
                    .attention = spec.cuda().attention()};
  if (const std::string why = choice.attention == spec::Cuda::CUDNN ? WhyNoCudnnAttention() : ""; !why.empty()) {
    return FailedPrecondition("cuda.attention: CUDNN is not available: ", why, "; use AUTO or OWN");
  }
  if (choice.gpus.empty()) {
    choice.gpus.resize(static_cast<size_t>(GpuCount()));
    std::iota(choice.gpus.begin(), choice.gpus.end(), 0);
  }
  for (size_t i = 0; i < choice.gpus.size(); ++i) {
    if (choice.gpus[i] >= 0 && choice.gpus[i] < GpuCount()) continue;
    return InvalidArgument("cuda.gpus[", i, "]: this machine has no GPU ", choice.gpus[i], "; use 0 to ",
                           GpuCount() - 1);
  }
  for (const int gpu : choice.gpus) {
    const std::string why = choice.attention == spec::Cuda::HOPPER ? WhyNoHopperAttention(gpu) : "";
    if (!why.empty())
      return FailedPrecondition("cuda.attention: HOPPER is not available on GPU ", gpu, ": ", why,
                                "; use AUTO or OWN, or list the GPUs to use in cuda.gpus");
  }
  return choice;
}

Bytes UsedBeyond(const GpuReserved& reserved, int gpu) {
  const GpuMemory memory = MemoryOf(gpu);
  return Bytes(std::max<int64_t>(0, (memory.total - memory.free - reserved.Of(gpu)).value()));
}

std::unique_ptr<MemorySource> NewGpuSource(int gpu, Bytes limit, GpuReserved& reserved) {
  return std::make_unique<CountedGpuSource>(gpu, limit, reserved);
}

std::unique_ptr<MemorySource> NewPinnedSource(int gpu, Bytes limit) {
  return std::make_unique<cuda::PinnedSource>(gpu, limit);
}

CudaRank NewCudaDevice(CachingAllocator& allocator, CachingAllocator& host, const CudaChoice& choice, int gpu, int rank,
                       CudaObservers observers) {
  auto device = std::make_unique<CudaDevice>(allocator, host, gpu, rank,
                                             CudaDevice::Options{.tf32 = choice.tf32,
                                                                 .attention = KernelsOf(choice.attention),
                                                                 .time_algorithms = choice.time_algorithms,
                                                                 .own_fp8 = choice.own_fp8,
                                                                 .graphs = choice.graphs});
  device->SetObserver(std::move(observers.operation));
  device->SetTransferObserver(std::move(observers.transfer));
  device->SetWaitObserver(std::move(observers.wait));
  if (const std::string why = choice.fp8 ? WhyFp8IsWidened(gpu) : ""; !why.empty() && observers.note)
    observers.note(
        StrCat("FP8 products: our own kernels widen codes to F16, which is exact, but no faster than F16 (", why, ")"));
  device->SetNote(std::move(observers.note));
  CudaDevice* raw = device.get();
  return {std::move(device), [raw] { raw->TellObserved(); }};
}

}  // namespace twofold::host
