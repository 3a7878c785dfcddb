// The device interface: streams of operations, and the device's memory.
//
// A device belongs to one rank and is used only from that rank's thread. Launch enqueues an operation. The operation,
// including its arithmetic, runs when its stream reaches it. On a CPU the compute stream is the host itself, so Launch
// returns when the operation is done. On other devices it returns at once. Code above this interface does not depend on
// the difference.
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "core/base/units.h"
#include "core/device/ops.h"
#include "core/memory/allocator.h"
#include "core/tensor/tensor.h"

namespace twofold {

using ops::DeviceKind;

// A point in a stream. Copies refer to the same point. A default-constructed event has already happened.
class Event {
 public:
  class State {
   public:
    virtual ~State() = default;
    virtual bool Done() = 0;
    virtual void Wait() = 0;  // blocks the host; throws any error that occurred before the point
  };
  Event() = default;
  explicit Event(std::shared_ptr<State> state) : state_(std::move(state)) {}
  bool Done() const { return state_ == nullptr || state_->Done(); }
  void Wait() const {
    if (state_ != nullptr) state_->Wait();
  }
  State* state() const { return state_.get(); }

 private:
  std::shared_ptr<State> state_;
};

// A queue of asynchronous work that runs in order.
class Stream {
 public:
  virtual ~Stream() = default;
  virtual Event Record() = 0;                    // a point after all work launched so far
  virtual void WaitFor(const Event& event) = 0;  // work launched from now on starts after `event`
  virtual void Synchronize() = 0;                // the host waits for all work launched so far
  // Total time so far for which this stream was idle because of WaitFor. On the compute stream this is the exposed
  // communication.
  virtual Seconds stalled() = 0;
};

// What Item() returns if tensors have no data, as in a symbolic simulation and on an emulated device.
// The report's notes list it.
struct StandIn {
  double value;
  std::string_view what;  // "loss", "found-inf", ...
};

// What tensors hold.
enum class Holds {
  kValues,   // what operations computed
  kBytes,    // memory through which bytes move, but nothing is computed: an emulated device
  kNothing,  // no memory: a simulation without data
};

class Device {
 public:
  virtual ~Device() = default;

  virtual Holds holds() const { return Holds::kValues; }

  virtual DeviceKind kind() const = 0;  // determines the workspace rules
  virtual int threads() const = 0;      // maximum threads per operation
  virtual CachingAllocator& allocator() = 0;
  // The host memory used for transfers, with a ledger and a limit of its own. (On a CPU, device memory and host memory
  // are the same memory, accounted separately.)
  virtual CachingAllocator& host_allocator() = 0;
  virtual Stream& compute() = 0;
  virtual std::unique_ptr<Stream> NewStream(std::string_view name) = 0;

  // Checks the shapes, allocates the workspace and enqueues `op` on `stream`. Throws OutOfMemory. Operations that need
  // a workspace must run on the compute stream, because memory is reused in its order.
  void Launch(Stream& stream, const ops::Op& op);

  // Copies `from` to `to`, which have the same type and number of elements, between the two memories or within one.
  // Runs on a stream from NewStream, concurrently with the compute stream. The caller keeps both tensors until the
  // program has waited for the copy; see transfers.h.
  void Transfer(Stream& stream, const Tensor& from, const Tensor& to);

  // Host to device, on the compute stream. `fill` writes the bytes of `dst`. It is not called if `dst` has no data.
  virtual void Upload(Tensor& dst, absl::FunctionRef<void(std::span<std::byte>)> fill) = 0;
  // Device to host, after everything on the compute stream. `dst` is unchanged if `src` has no data.
  virtual void Download(const Tensor& src, std::span<std::byte> dst) = 0;
  // Like Upload and Download, for files and for what hosts tell each other: bytes move wherever tensors have memory,
  // also where operations compute nothing.
  virtual void WriteBytes(Tensor& dst, absl::FunctionRef<void(std::span<std::byte>)> fill) { Upload(dst, fill); }
  virtual void ReadBytes(const Tensor& src, std::span<std::byte> dst) { Download(src, dst); }
  // Downloads the element of a one-element float tensor. Returns `stand_in` if it has no data.
  virtual double Item(const Tensor& scalar, StandIn stand_in) = 0;

  // `name`: what it is, for pictures of memory (core/memory/owners.h).
  Tensor NewTensor(Shape shape, DType dtype, Category category, std::string_view name = {}) {
    return Allocate(allocator(), std::move(shape), dtype, category, name);
  }
  // A tensor in host memory, for transfers only: operations run on device memory.
  Tensor NewHostTensor(Shape shape, DType dtype, Category category, std::string_view name = {}) {
    return Allocate(host_allocator(), std::move(shape), dtype, category, name);
  }
  bool IsOnHost(const Tensor& t) { return &t.allocator() == &host_allocator(); }

  // Runs `work`, which some of the ranks that this one stands for may finish sooner (ProcessGroup::RanksDifferBriefly).
  virtual void Briefly(absl::FunctionRef<void()> work) { work(); }

  // By how much longer `a` takes here than `b`, as a share of the longer time (negative: b takes longer; 0: they are
  // alike in every respect), if both need the same workspace: then a rank that runs one of them may stand for a rank
  // that runs the other. Nothing: it cannot. Only devices that model time know.
  virtual std::optional<double> Difference(const ops::Op& /*a*/, const ops::Op& /*b*/) { return std::nullopt; }

 protected:
  virtual void Run(Stream& stream, const ops::Op& op, Tensor workspace /* U8, may be empty */) = 0;
  // Implements Transfer, for at least one byte. The tensors are borrowed, because asynchronous work must never own
  // them.
  virtual void Copy(Stream& stream, Tensor from, Tensor to) = 0;
};

}  // namespace twofold
