#include "kernels/cpu/cpu_device.h"

#include <chrono>
#include <cstring>
#include <thread>

#include "kernels/cpu/blas.h"
#include "kernels/cpu/convert.h"
#include "kernels/cpu/run_operation.h"

namespace twofold {
namespace {

double Now() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

class HostStream : public Stream {
 public:
  Event Record() override { return Event(); }  // everything launched is already done
  void WaitFor(const Event& event) override {
    if (event.Done()) return event.Wait();  // throws the error, if something before the event failed
    const double start = Now();
    event.Wait();
    stalled_ += Seconds(Now() - start);
  }
  void Synchronize() override {}
  Seconds stalled() override { return stalled_; }

 private:
  Seconds stalled_;
};

std::span<std::byte> BytesOf(const Tensor& t) {
  return {static_cast<std::byte*>(t.raw()), static_cast<size_t>(t.bytes().value())};
}

}  // namespace

struct CpuDevice::OwnHost {
  MallocSource source;
  CachingAllocator allocator{source, -1, "host memory"};
};

CpuDevice::CpuDevice(CachingAllocator& allocator, CachingAllocator& host, int threads)
    : allocator_(allocator), host_(host), pool_(threads), compute_(std::make_unique<HostStream>()) {
  cpu::UseOneBlasThread();
}

CpuDevice::CpuDevice(CachingAllocator& allocator, int threads)
    : CpuDevice(allocator, std::make_unique<OwnHost>(), threads) {}

CpuDevice::CpuDevice(CachingAllocator& allocator, std::unique_ptr<OwnHost> host, int threads)
    : allocator_(allocator),
      own_host_(std::move(host)),
      host_(own_host_->allocator),
      pool_(threads),
      compute_(std::make_unique<HostStream>()) {
  cpu::UseOneBlasThread();
}

CpuDevice::~CpuDevice() = default;

std::unique_ptr<Stream> CpuDevice::NewStream(std::string_view name) {
  return std::make_unique<cpu::CopyStream>(std::string(name), transfer_observer_);
}

void CpuDevice::Copy(Stream& stream, Tensor from, Tensor to) {
  static_cast<cpu::CopyStream&>(stream).Copy(from.raw(), to.raw(), static_cast<size_t>(from.bytes().value()));
}

void CpuDevice::Upload(Tensor& dst, absl::FunctionRef<void(std::span<std::byte>)> fill) { fill(BytesOf(dst)); }

void CpuDevice::Download(const Tensor& src, std::span<std::byte> dst) {
  TWOFOLD_CHECK_EQ(static_cast<size_t>(src.bytes().value()), dst.size());
  if (!dst.empty()) std::memcpy(dst.data(), src.raw(), dst.size());
}

double CpuDevice::Item(const Tensor& scalar, StandIn) {
  TWOFOLD_CHECK_EQ(scalar.numel(), 1);
  double value = 0;
  cpu::Convert(scalar.raw(), scalar.dtype(), &value, DType::kF64, 1);
  return value;
}

void CpuDevice::Run(Stream& stream, const ops::Op& op, Tensor workspace) {
  if (&stream != compute_.get()) stream.Synchronize();
  const bool timed = observer_ || slowdown_ > 1;
  const double start = timed ? Now() : 0;
  cpu::RunOperation(op.any(), pool_, workspace.empty() ? std::span<std::byte>() : BytesOf(workspace));
  if (slowdown_ > 1) SleepFor(Now() - start);
  if (observer_) observer_(op, start, Now());
}

// What a sleep takes too long counts as slept.
void CpuDevice::SleepFor(double worked_s) {
  constexpr double kLeast = 1e-3;  // seconds
  owed_s_ += (slowdown_ - 1) * worked_s;
  if (owed_s_ < kLeast) return;
  const double begin = Now();
  std::this_thread::sleep_for(std::chrono::duration<double>(owed_s_));
  owed_s_ -= Now() - begin;
}

}  // namespace twofold
