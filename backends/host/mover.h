// Data movement for one rank's communication on a group: copies and reductions in the memory of the rank's device and,
// if ranks are threads of one process, of other ranks' devices.
//
// On a CPU, each function returns when its work is done, and nothing needs ordering. On a GPU, functions enqueue on a
// stream that the mover owns and return at once; Begin, WaitFor, Record and Finish order that stream. Any function may
// throw a GPU error as cuda::CudaError. Used by one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "absl/status/status.h"
#include "core/comm/reduce_op.h"
#include "core/device/device.h"
#include "core/tensor/dtype.h"

namespace twofold::host {

class Mover {
 public:
  virtual ~Mover() = default;
  virtual bool on_host() const = 0;  // functions return when their work is done

  // The two byte ranges must be equal or disjoint.
  virtual void Copy(void* to, const void* from, int64_t bytes) = 0;
  virtual void CopyToAll(std::span<char* const> to, const char* from, int64_t bytes) = 0;
  // Same as cpu::ReduceSlices, with bitwise identical results.
  virtual void Reduce(std::span<const void* const> inputs, std::span<void* const> outputs, DType dtype, ReduceOp op,
                      int64_t first, int64_t count) = 0;
  // Same as cpu::DivideAll.
  virtual void Divide(void* data, DType dtype, int64_t count, int by) = 0;

  // Starts one call, whose work starts after `after`.
  virtual void Begin(const Event& after) = 0;
  virtual void WaitFor(const Event& event) = 0;  // later work starts after it, without blocking the host
  virtual Event Record() = 0;                    // the point after all work enqueued so far; thread-safe
  // Blocks until all enqueued work is done. `start` is the point named by Begin, or the time of the Begin call if that
  // was later. In seconds of std::chrono::steady_clock; zeros on the host, which has its own clock.
  struct Times {
    double start = 0, end = 0;
  };
  virtual Times Finish() = 0;
};

// For tensors of `device`, which must outlive the mover.
std::unique_ptr<Mover> MakeMover(Device& device);
// For the host's memory.
std::unique_ptr<Mover> MakeHostMover();

// Call before `ranks` threads of this process share the memories of `gpus`: enables peer access among them. Refuses if
// that is impossible, or if there are more ranks than a kernel supports.
absl::Status ConnectGpus(std::span<const int> gpus, int ranks);

}  // namespace twofold::host
