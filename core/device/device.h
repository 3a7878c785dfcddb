// The device seam: streams of operations, and the memory they run on.
//
// A device belongs to one rank and is used from that rank's thread. Launch enqueues; the operation, its arithmetic
// included, happens when its stream reaches it. On a CPU the compute stream is the host itself, so Launch returns when
// the operation is done; on other devices it returns at once. Code above this seam never asks which.
#pragma once

#include <cstddef>
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "absl/functional/function_ref.h"
#include "core/base/units.h"
#include "core/device/ops.h"
#include "core/memory/allocator.h"
#include "core/tensor/tensor.h"

namespace twofold {

using ops::DeviceKind;

// A point in a stream. Copies share the point; a default-made event has already happened.
class Event {
 public:
  class State {
   public:
    virtual ~State() = default;
    virtual bool Done() = 0;
    virtual void Wait() = 0;  // blocks the host; throws what went wrong before the point
  };
  Event() = default;
  explicit Event(std::shared_ptr<State> state) : state_(std::move(state)) {}
  bool Done() const { return state_ == nullptr || state_->Done(); }
  void Wait() const { if (state_ != nullptr) state_->Wait(); }
  State* state() const { return state_.get(); }

 private:
  std::shared_ptr<State> state_;
};

// Ordered asynchronous work.
class Stream {
 public:
  virtual ~Stream() = default;
  virtual Event Record() = 0;                   // the point after all that was launched so far
  virtual void WaitFor(const Event& event) = 0; // what is launched from now on starts after `event`
  virtual void Synchronize() = 0;               // the host waits for everything launched so far
  // Time that this stream has spent idle because of WaitFor, up to now: what communication costs it.
  virtual Seconds stalled() = 0;
};

// What Item() gives where no data exists: a stand-in, listed in the report's notes.
struct StandIn {
  double value;
  std::string_view what;  // "loss", "found-inf", ...
};

class Device {
 public:
  virtual ~Device() = default;

  virtual DeviceKind kind() const = 0;       // decides workspace rules
  virtual int threads() const = 0;           // that one operation may use
  virtual CachingAllocator& allocator() = 0;
  // The memory of the host that transfers reach, with a ledger and a limit of its own. (A CPU's device memory and the
  // host's are parts of one memory that are accounted apart.)
  virtual CachingAllocator& host_allocator() = 0;
  virtual Stream& compute() = 0;
  virtual std::unique_ptr<Stream> NewStream(std::string_view name) = 0;

  // Checks the shapes, sets the workspace aside and runs `op` on `stream`. Throws OutOfMemory. Operations that need a
  // workspace run on the compute stream only: memory is reused in its order.
  void Launch(Stream& stream, const ops::Op& op);

  // Copies `from` to `to`, of one type and number of elements, between or within both memories, on a stream that NewStream
  // made, beside what the compute stream does. The caller keeps both until the program has waited for it; see transfers.h.
  void Transfer(Stream& stream, const Tensor& from, const Tensor& to);

  // Host to device: `fill` writes the bytes of `dst`; it is not called where no data exists. On the compute stream.
  virtual void Upload(Tensor& dst, absl::FunctionRef<void(std::span<std::byte>)> fill) = 0;
  // Device to host, after everything on the compute stream. `dst` is left as it is where no data exists.
  virtual void Download(const Tensor& src, std::span<std::byte> dst) = 0;
  // The one element of a float tensor, as Download; `stand_in` where no data exists.
  virtual double Item(const Tensor& scalar, StandIn stand_in) = 0;

  Tensor NewTensor(Shape shape, DType dtype, Category category) {
    return Allocate(allocator(), std::move(shape), dtype, category);
  }
  // In the host's memory: for transfers alone; operations run on the device's.
  Tensor NewHostTensor(Shape shape, DType dtype, Category category) {
    return Allocate(host_allocator(), std::move(shape), dtype, category);
  }
  bool IsOnHost(const Tensor& t) { return &t.allocator() == &host_allocator(); }

 protected:
  virtual void Run(Stream& stream, const ops::Op& op, Tensor workspace /* U8, may be empty */) = 0;
  // As Transfer; of at least one byte. The tensors are borrowed: work beside the host's must never own them.
  virtual void Copy(Stream& stream, Tensor from, Tensor to) = 0;
};

}  // namespace twofold
