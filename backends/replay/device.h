// A device that computes nothing and takes no time. Workspace sizes are those of the device that it stands for.
#pragma once

#include <memory>
#include <string_view>

#include "core/device/device.h"

namespace twofold {

class ReplayDevice final : public Device {
 public:
  ReplayDevice(CachingAllocator& allocator, CachingAllocator& host, DeviceKind kind, int threads)
      : allocator_(allocator), host_(host), kind_(kind), threads_(threads) {}

  Holds holds() const override { return Holds::kNothing; }
  DeviceKind kind() const override { return kind_; }
  int threads() const override { return threads_; }
  CachingAllocator& allocator() override { return allocator_; }
  CachingAllocator& host_allocator() override { return host_; }
  Stream& compute() override { return compute_; }
  std::unique_ptr<Stream> NewStream(std::string_view) override { return std::make_unique<Idle>(); }
  void Upload(Tensor&, absl::FunctionRef<void(std::span<std::byte>)>) override {}
  void Download(const Tensor&, std::span<std::byte>) override {}
  double Item(const Tensor&, StandIn stand_in) override { return stand_in.value; }
  bool Alike(const ops::Op& a, const ops::Op& b) override {  // nothing takes time here
    return ops::Workspace(a, kind_, threads_) == ops::Workspace(b, kind_, threads_);
  }

 protected:
  void Run(Stream&, const ops::Op&, Tensor) override {}
  void Copy(Stream&, Tensor, Tensor) override {}

 private:
  struct Idle final : Stream {
    Event Record() override { return Event(); }
    void WaitFor(const Event&) override {}
    void Synchronize() override {}
    Seconds stalled() override { return Seconds(0); }
  };
  CachingAllocator &allocator_, &host_;
  const DeviceKind kind_;
  const int threads_;
  Idle compute_;
};

}  // namespace twofold
