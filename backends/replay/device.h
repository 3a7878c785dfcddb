// A device that computes nothing. Workspace sizes are those of the device that it stands for. Its streams take the time
// that a ReplayTimes says, or none.
#pragma once

#include <algorithm>
#include <memory>
#include <optional>
#include <string_view>

#include "backends/replay/times.h"
#include "core/device/device.h"

namespace twofold {

class ReplayDevice final : public Device {
 public:
  // `times`: null if nothing takes time; else it must outlive the device.
  ReplayDevice(CachingAllocator& allocator, CachingAllocator& host, DeviceKind kind, int threads, ReplayTimes* times)
      : allocator_(allocator), host_(host), kind_(kind), threads_(threads), times_(times), compute_(times, true) {}

  // The end of a communication, as an event for streams and host to wait for.
  static Event At(ReplayTimes& times, ReplayTimes::Moment end) { return Event(std::make_shared<Point>(times, end)); }

  Holds holds() const override { return Holds::kNothing; }
  DeviceKind kind() const override { return kind_; }
  int threads() const override { return threads_; }
  CachingAllocator& allocator() override { return allocator_; }
  CachingAllocator& host_allocator() override { return host_; }
  Stream& compute() override { return compute_; }
  std::unique_ptr<Stream> NewStream(std::string_view) override { return std::make_unique<Line>(times_, false); }
  void Upload(Tensor&, absl::FunctionRef<void(std::span<std::byte>)>) override {}
  void Download(const Tensor&, std::span<std::byte>) override { compute_.Synchronize(); }
  double Item(const Tensor&, StandIn stand_in) override {
    compute_.Synchronize();
    return stand_in.value;
  }
  // Here, all operations are taken to last equally long.
  std::optional<double> Difference(const ops::Op& a, const ops::Op& b) override {
    const bool same = ops::Workspace(a, kind_, threads_) == ops::Workspace(b, kind_, threads_);
    return same ? std::optional(0.0) : std::nullopt;
  }

 protected:
  void Run(Stream& stream, const ops::Op& op, Tensor) override {
    if (times_ != nullptr) static_cast<Line&>(stream).Pass(times_->Operation(op, &stream == &compute_));
  }
  void Copy(Stream& stream, Tensor from, Tensor to) override {
    if (times_ != nullptr) static_cast<Line&>(stream).Pass(times_->Transfer(from, to));
  }

 private:
  // A stream: the time until which it is busy.
  class Line final : public Stream {
   public:
    Line(ReplayTimes* times, bool compute)
        : times_(times), busy_(compute && times != nullptr ? &times->compute : &own_) {}
    Event Record() override {
      if (times_ == nullptr) return Event();
      return Event(std::make_shared<Point>(*times_, Now()));
    }
    void WaitFor(const Event& event) override {
      if (times_ == nullptr || event.state() == nullptr) return;
      const ReplayTimes::Moment& until = static_cast<Point*>(event.state())->at;
      if (busy_ == &own_)
        times_->TransferWaits(own_, until);
      else
        times_->Wait(*busy_, until);
    }
    void Synchronize() override {
      if (times_ != nullptr) times_->HostWaits(Now());
    }
    Seconds stalled() override { return Seconds(0); }
    void Pass(double seconds) {
      if (busy_ == &own_)
        times_->PassTransfer(own_, seconds);
      else
        times_->Pass(*busy_, seconds);
    }

   private:
    ReplayTimes::Moment Now() const {
      return times_->Mark(busy_ == &own_ ? times_->TimeOfTransfers(own_) : times_->TimeOf(*busy_));
    }
    ReplayTimes* const times_;
    ReplayTimes::Moment own_;
    ReplayTimes::Moment* const busy_;
  };
  struct Point final : Event::State {
    Point(ReplayTimes& of, ReplayTimes::Moment when) : times(of), at(when) {}
    bool Done() override { return true; }
    void Wait() override { times.HostWaits(at); }
    ReplayTimes& times;
    const ReplayTimes::Moment at;
  };
  CachingAllocator &allocator_, &host_;
  const DeviceKind kind_;
  const int threads_;
  ReplayTimes* const times_;
  Line compute_;
};

}  // namespace twofold
