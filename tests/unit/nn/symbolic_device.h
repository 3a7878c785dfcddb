// A device without data that records what is launched: for tests of memory, launches and costs.
#pragma once

#include <vector>

#include "core/device/device.h"

namespace twofold::test {

class SymbolicDevice final : public Device {
 public:
  struct Launched {
    ops::KernelKey key;
    ops::Cost cost;
  };

  explicit SymbolicDevice(DeviceKind kind = DeviceKind::kCpu) : kind_(kind) {}
  DeviceKind kind() const override { return kind_; }
  int threads() const override { return 1; }
  CachingAllocator& allocator() override { return allocator_; }
  CachingAllocator& host_allocator() override { return host_; }
  Stream& compute() override { return stream_; }
  std::unique_ptr<Stream> NewStream(std::string_view) override { return std::make_unique<NoStream>(); }
  void Upload(Tensor&, absl::FunctionRef<void(std::span<std::byte>)>) override {}
  void Download(const Tensor&, std::span<std::byte>) override {}
  double Item(const Tensor&, StandIn stand_in) override { return stand_in.value; }

  const std::vector<Launched>& launched() const { return launched_; }
  void Forget() { launched_.clear(); }
  const MemoryStats& memory() const { return allocator_.ledger().stats(); }
  Bytes Live(Category c) const { return memory().live_by_category[static_cast<size_t>(c)]; }

 protected:
  void Run(Stream&, const ops::Op& op, Tensor) override { launched_.push_back({ops::Key(op), ops::CostOf(op)}); }
  void Copy(Stream&, Tensor, Tensor) override {}

 private:
  struct NoStream final : Stream {
    Event Record() override { return Event(); }
    void WaitFor(const Event&) override {}
    void Synchronize() override {}
    Seconds stalled() override { return Seconds(0); }
  };
  const DeviceKind kind_;
  VirtualSource source_, host_source_;
  CachingAllocator allocator_{source_, 0}, host_{host_source_, 0, "host memory"};
  NoStream stream_;
  std::vector<Launched> launched_;
};

}  // namespace twofold::test
