#include "kernels/cuda/cuda_device.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <deque>
#include <utility>
#include <variant>
#include <vector>

#include "core/base/strings.h"
#include "core/tensor/visit_type.h"
#include "kernels/cuda/capability.h"
#include "kernels/cuda/error.h"
#include "kernels/cuda/graphs.h"
#include "kernels/cuda/kernels.h"
#include "kernels/cuda/libraries.h"
#include "kernels/cuda/streams.h"

namespace twofold {
namespace {

using cuda::CudaStream;
using cuda::EventPool;

constexpr auto kClockRate = static_cast<cudaDeviceAttr>(13);  // cudaDevAttrClockRate; an emulated GPU has none

int Attribute(cudaDeviceAttr attribute, int gpu) {
  int value = 0;
  cuda::Check(cudaDeviceGetAttribute(&value, attribute, gpu));
  return value;
}

// 13000 -> "13.0".
std::string Version(int version) { return StrCat(version / 1000, ".", version % 1000 / 10); }

// The GPUs found, or CUDA's error.
struct Found {
  int gpus = 0;
  std::string why_none;
};
Found FindGpus() {
  int count = 0, driver = 0, runtime = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess) {
    cudaGetLastError();
    cudaDriverGetVersion(&driver), cudaRuntimeGetVersion(&runtime);
    return {
        0, StrCat(cudaGetErrorName(status), ": ", cudaGetErrorString(status), " (CUDA runtime ", Version(runtime),
                  ", driver ", driver == 0 ? std::string("not installed") : StrCat("for CUDA ", Version(driver)), ")")};
  }
  if (count == 0) return {0, "CUDA sees no GPU"};
  for (int gpu = 0; gpu < count; ++gpu) {
    const cuda::Capability capability = cuda::CapabilityOf(gpu);
    if (cuda::RunsOn(TWOFOLD_CUDA_ARCHITECTURES, capability)) continue;
    return {0, StrCat("GPU ", gpu, " has compute capability ", capability.major, ".", capability.minor,
                      ", but this build has kernels for ", TWOFOLD_CUDA_ARCHITECTURES,
                      " (CMAKE_CUDA_ARCHITECTURES; 80 is the oldest; CUDA_VISIBLE_DEVICES can leave this GPU out)")};
  }
  return {count, ""};
}

const Found& Gpus() {
  static const Found found = FindGpus();
  return found;
}

std::byte* BytesAt(const Tensor& t) { return reinterpret_cast<std::byte*>(t.address()); }

// The value of a tensor's single element in memory.
double Value(const std::byte* at, DType type) {
  TWOFOLD_CHECK(IsFloat(type), "the tensor has a float type");
  return VisitType(type, [at]<class T>() {
    T value;
    std::memcpy(&value, at, sizeof value);
    return ConvertTo<double>(value);
  });
}

// Pinned memory of a fixed size, accessible to host and GPU.
class Pinned {
 public:
  explicit Pinned(size_t bytes) { cuda::Check(cudaHostAlloc(&at_, bytes, cudaHostAllocPortable)); }
  ~Pinned() { cudaFreeHost(at_); }
  Pinned(const Pinned&) = delete;
  Pinned& operator=(const Pinned&) = delete;
  std::byte* get() const { return static_cast<std::byte*>(at_); }

 private:
  void* at_ = nullptr;
};

// The staging memory of uploads: eight pieces of pinned memory used in turn, each until its copy is done.
class Staging {
 public:
  static constexpr size_t kPieceBytes = size_t{1} << 20;

  // Uploads the bytes that write(bytes, first) produces, piece by piece.
  template <class Write>
  void Upload(CudaStream& stream, EventPool& events, std::byte* to, size_t bytes, Write&& write) {
    for (size_t first = 0; first < bytes; first += kPieceBytes) {
      Piece& piece = pieces_[next_];
      next_ = (next_ + 1) % pieces_.size();
      if (piece.memory == nullptr) piece.memory = std::make_unique<Pinned>(kPieceBytes);
      if (piece.copied.get() != nullptr) cuda::Check(cudaEventSynchronize(piece.copied.get()));
      const size_t n = std::min(kPieceBytes, bytes - first);
      write(std::span(piece.memory->get(), n), first);
      cuda::Check(cudaMemcpyAsync(to + first, piece.memory->get(), n, cudaMemcpyDefault, stream.raw()));
      piece.copied = events.Record(stream.raw());
    }
  }

 private:
  struct Piece {
    std::unique_ptr<Pinned> memory;  // made on first use
    EventPool::Entry copied;
  };
  std::array<Piece, 8> pieces_;
  size_t next_ = 0;
};

class NamedStream : public CudaStream {
 public:
  NamedStream(std::shared_ptr<cuda::StreamsOfDevice> of, std::string_view name)
      : CudaStream(std::move(of)), name_(name) {}
  const std::string& name() const { return name_; }

 private:
  const std::string name_;
};

}  // namespace

int GpuCount() { return Gpus().gpus; }
std::string WhyNoGpu() { return Gpus().why_none; }

GpuMemory MemoryOf(int gpu) {
  cuda::MakeCurrent(gpu);
  size_t free = 0, total = 0;
  cuda::Check(cudaMemGetInfo(&free, &total));
  return {Bytes(static_cast<int64_t>(free)), Bytes(static_cast<int64_t>(total))};
}

GpuFacts FactsOfGpu(int gpu) {
  cudaDeviceProp properties;
  int driver = 0, runtime = 0;
  cuda::Check(cudaGetDeviceProperties(&properties, gpu));
  cuda::Check(cudaDriverGetVersion(&driver));
  cuda::Check(cudaRuntimeGetVersion(&runtime));
  int kilohertz = 0;
  if (cudaDeviceGetAttribute(&kilohertz, kClockRate, gpu) != cudaSuccess) kilohertz = 0, cudaGetLastError();
  const auto tenths = static_cast<int64_t>(std::round(static_cast<double>(properties.totalGlobalMem) / (1 << 30) * 10));
  return {.name = properties.name,
          .software = StrCat("CUDA ", Version(runtime), " (driver for ", Version(driver), ")"),
          .sizes = StrCat("compute capability ", properties.major, ".", properties.minor, ", ",
                          properties.multiProcessorCount, " multiprocessors, ", tenths / 10, ".", tenths % 10, " GiB"),
          .memory_bytes = static_cast<int64_t>(properties.totalGlobalMem),
          .multiprocessors = properties.multiProcessorCount,
          .l2_bytes = properties.l2CacheSize,
          .clock_hz = 1e3 * kilohertz,
          .compute_capability = (10 * properties.major + properties.minor) / 10.0};
}

std::vector<std::string> GpuLibraries() { return cuda::LibraryVersions(); }
std::string WhyNoCudnnAttention() { return cuda::WhyNoCudnnAttention(); }
std::string WhyNoHopperAttention(int gpu) {
  return cuda::WhyNoHopperAttention(TWOFOLD_CUDA_ARCHITECTURES, cuda::CapabilityOf(gpu));
}
std::string WhyFp8IsWidened(int gpu) {
#if defined(CUDART_VERSION) && CUDART_VERSION < 12040
  return "this build's nvcc is older than 12.4";
#endif
  return cuda::WhyFp8IsWidened(TWOFOLD_CUDA_ARCHITECTURES, cuda::CapabilityOf(gpu));
}

class CudaDevice::Implementation {
 public:
  Implementation(int gpu, int rank, const Options& options)
      : streams(std::make_shared<cuda::StreamsOfDevice>(rank, gpu)),
        compute((cuda::MakeCurrent(gpu), streams), CudaStream::Waits::kTimed),
        multiprocessors(Attribute(cudaDevAttrMultiProcessorCount, gpu)),
        libraries({.tf32 = options.tf32,
                   .time_algorithms = options.time_algorithms,
                   .attention = options.attention,
                   .own_fp8 = options.own_fp8}),
        item(sizeof(double)) {}
  // the stream may still read members that are destroyed first
  ~Implementation() { cudaStreamSynchronize(compute.raw()); }

  // Calls launch() on `stream` between two timed events, and later reports their times to `observed`.
  template <class F>
  void Timed(CudaStream& stream, Observed observed, F&& launch) {
    if (!observed) return launch();
    Pending pending{.observed = std::move(observed), .begin = streams->timed->Record(stream.raw())};
    launch();
    pending.end = streams->timed->Record(stream.raw());
    (&stream == &compute ? on_compute : beside).push_back(std::move(pending));
  }

  // Enqueues an operation.
  void Compute(CudaStream& on, const ops::Op& op, const Tensor& workspace) {
    streams->last.Set(ops::Key(op));
    const cuda::Context context{
        .stream = on.raw(),
        .workspace = workspace.empty() ? nullptr : BytesAt(workspace),
        .workspace_bytes = workspace.empty() ? 0 : static_cast<size_t>(workspace.bytes().value()),
        .multiprocessors = multiprocessors,
        .libraries = libraries};
    std::visit([&context](const auto& o) { cuda::Compute(o, context); }, op.any());
  }

  void Keep(const ops::Op& op, const Tensor& workspace) {
    graphs->Add(op, workspace);
    last_kept = ops::Key(op);
    if (graphs->full()) Flush();
  }

  // Launches what graphs keep. After an error nothing is kept: the next call would find the same error.
  void Flush() {
    if (!graphs) return;
    streams->last.Naming([this] {
      cuda::MakeCurrent(streams->gpu);
      try {
        graphs->Flush();
        if (!last_kept.name.empty()) streams->last.Set(std::exchange(last_kept, {}));
      } catch (...) {
        graphs->Drop();
        throw;
      }
    });
    if (!told && note && !graphs->why_not().empty()) {
      told = true;
      note(StrCat("cuda.graphs: some operations are launched one by one, because CUDA could not capture or update ",
                  "them: ", graphs->why_not()));
    }
  }

  // Reports the observed work that is done by now; with `all`, waits for the rest.
  void Tell(bool all) {
    Flush();
    for (auto* line : {&on_compute, &beside}) {
      while (!line->empty() && (all || cuda::Happened(line->front().end.get()))) {
        const Pending done = std::move(line->front());
        line->pop_front();
        cuda::Check(cudaEventSynchronize(done.end.get()));
        TellTimes(done.observed, done.begin.get(), done.end.get());
      }
    }
    if (all) cuda::Check(cudaStreamSynchronize(compute.raw()));
    compute.stalled();  // reports waits
  }

  void TellTimes(const Observed& observed, cudaEvent_t begin, cudaEvent_t end) {
    const cuda::GpuClock::Interval times = streams->clock.Of(begin, end);
    observed(times.start, times.end);
  }

  struct Pending {
    Observed observed;
    EventPool::Entry begin, end;
  };
  const std::shared_ptr<cuda::StreamsOfDevice> streams;
  CudaStream compute;
  const int multiprocessors;
  cuda::Libraries libraries;
  Staging staging;
  Pinned item;
  Observer observer;
  TransferObserver transfer_observer;
  std::deque<Pending> on_compute, beside;
  std::function<void(std::string note)> note;
  bool told = false;                     // why graphs could not be made
  ops::KernelKey last_kept = {};         // by graphs
  std::unique_ptr<cuda::Graphs> graphs;  // null without Options::graphs
};

CudaDevice::CudaDevice(CachingAllocator& allocator, CachingAllocator& host, int gpu, int rank, const Options& options)
    : allocator_(allocator), host_(host), implementation_(std::make_unique<Implementation>(gpu, rank, options)) {
  if (options.attention == cuda::AttentionKernels::kHopper) {
    if (const std::string why = WhyNoHopperAttention(gpu); !why.empty())
      throw cuda::CudaError(StrCat("cuda.attention is HOPPER, but GPU ", gpu, " cannot run its kernel: ", why));
  }
  if (!options.graphs) return;
  Implementation& d = *implementation_;
  d.graphs = std::make_unique<cuda::Graphs>(
      d.compute.raw(), [&d](const ops::Op& op, const Tensor& workspace) { d.Compute(d.compute, op, workspace); });
  d.compute.SetFlush([&d] { d.Flush(); });
  allocator_.SetBeforeRelease([&d] { d.Flush(); });
}

CudaDevice::~CudaDevice() {
  if (implementation_->graphs) allocator_.SetBeforeRelease(nullptr);
}

CudaDevice::GraphCounts CudaDevice::graph_counts() const {
  if (!implementation_->graphs) return {};
  const cuda::Graphs::Counts& c = implementation_->graphs->counts();
  return {c.graphs, c.replays, c.replayed, c.one_by_one, c.updates, implementation_->graphs->why_not()};
}

Stream& CudaDevice::compute() { return implementation_->compute; }
int CudaDevice::gpu() const { return implementation_->streams->gpu; }

std::unique_ptr<Stream> CudaDevice::NewStream(std::string_view name) {
  return std::make_unique<NamedStream>(implementation_->streams, name);
}

void CudaDevice::Run(Stream& stream, const ops::Op& op, Tensor workspace) {
  Implementation& d = *implementation_;
  auto& on = static_cast<CudaStream&>(stream);
  Observed observed = d.observer ? d.observer(op) : nullptr;
  if (d.graphs && &on == &d.compute) {
    if (!observed) return d.Keep(op, workspace);
    d.Flush();
  }
  d.streams->last.Set(ops::Key(op));
  d.streams->last.Naming([&] {
    cuda::MakeCurrent(d.streams->gpu);
    d.Timed(on, std::move(observed), [&] { d.Compute(on, op, workspace); });
  });
}

void CudaDevice::Copy(Stream& stream, Tensor from, Tensor to) {
  Implementation& d = *implementation_;
  auto& on = static_cast<NamedStream&>(stream);
  d.streams->last.Naming([&] {
    cuda::MakeCurrent(d.streams->gpu);
    d.Timed(on, d.transfer_observer ? d.transfer_observer(on.name(), from.bytes()) : nullptr, [&] {
      cuda::Check(cudaMemcpyAsync(BytesAt(to), BytesAt(from), static_cast<size_t>(from.bytes().value()),
                                  cudaMemcpyDefault, on.raw()));
    });
  });
}

void CudaDevice::Upload(Tensor& dst, absl::FunctionRef<void(std::span<std::byte>)> fill) {
  Implementation& d = *implementation_;
  d.Flush();  // first, so that the GPU works while the host fills
  const auto bytes = static_cast<size_t>(dst.bytes().value());
  std::vector<std::byte> whole;  // used if one piece of pinned memory is too small
  if (bytes == 0 || bytes > Staging::kPieceBytes) {
    whole.resize(bytes);
    fill(whole);
  }
  d.streams->last.Naming([&] {
    cuda::MakeCurrent(d.streams->gpu);
    d.staging.Upload(d.compute, *d.streams->events, BytesAt(dst), bytes, [&](std::span<std::byte> to, size_t first) {
      if (whole.empty()) return fill(to);
      std::memcpy(to.data(), whole.data() + first, to.size());
    });
  });
}

void CudaDevice::Download(const Tensor& src, std::span<std::byte> dst) {
  TWOFOLD_CHECK_EQ(static_cast<size_t>(src.bytes().value()), dst.size());
  Implementation& d = *implementation_;
  d.Flush();
  d.streams->last.Naming([&] {
    cuda::MakeCurrent(d.streams->gpu);
    if (!dst.empty())
      cuda::Check(cudaMemcpyAsync(dst.data(), BytesAt(src), dst.size(), cudaMemcpyDefault, d.compute.raw()));
    cuda::Check(cudaStreamSynchronize(d.compute.raw()));
    d.Tell(false);
  });
}

double CudaDevice::Item(const Tensor& scalar, StandIn) {
  TWOFOLD_CHECK_EQ(scalar.numel(), 1);
  Download(scalar, {implementation_->item.get(), static_cast<size_t>(scalar.bytes().value())});
  return Value(implementation_->item.get(), scalar.dtype());
}

void CudaDevice::SetObserver(Observer observer) { implementation_->observer = std::move(observer); }
void CudaDevice::SetTransferObserver(TransferObserver observer) {
  implementation_->transfer_observer = std::move(observer);
}

void CudaDevice::SetWaitObserver(WaitObserver observer) {
  Implementation& d = *implementation_;
  d.compute.SetWaitObserver([&d, observer = std::move(observer)]() -> CudaStream::Counted {
    Observed observed = observer ? observer() : nullptr;
    if (!observed) return nullptr;
    return
        [&d, observed = std::move(observed)](cudaEvent_t begin, cudaEvent_t end) { d.TellTimes(observed, begin, end); };
  });
}

void CudaDevice::SetNote(std::function<void(std::string note)> note) {
  implementation_->libraries.attentions().SetNote(note);
  implementation_->libraries.convolutions().SetNote(note);
  implementation_->libraries.fp8().SetNote(note);
  implementation_->note = std::move(note);
}

void CudaDevice::TellObserved() {
  implementation_->streams->last.Naming([this] { implementation_->Tell(true); });
}

}  // namespace twofold
