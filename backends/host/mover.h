// What the communication of a group at one rank does to data: copies and reductions in the memory of the rank's device and, where
// ranks are threads of one process, of other ranks' devices.
//
// On a CPU a function returns when its work is done, and there is nothing to be ordered. On a GPU it enqueues on a stream of the
// mover's own and returns; Begin, WaitFor, Record and Finish order that stream. Errors of a GPU are thrown as
// cuda::CudaError by any of the functions. Used by one thread at a time.
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

  // Ranges of bytes are equal or do not overlap.
  virtual void Copy(void* to, const void* from, int64_t bytes) = 0;
  virtual void CopyToAll(std::span<char* const> to, const char* from, int64_t bytes) = 0;
  // As cpu::ReduceSlices, to the same bits.
  virtual void Reduce(std::span<const void* const> inputs, std::span<void* const> outputs, DType dtype, ReduceOp op,
                      int64_t first, int64_t count) = 0;
  // As cpu::DivideAll.
  virtual void Divide(void* data, DType dtype, int64_t count, int by) = 0;

  // One call begins: what it enqueues starts after `after`.
  virtual void Begin(const Event& after) = 0;
  virtual void WaitFor(const Event& event) = 0;  // what is enqueued from now on starts after it, without the host
  virtual Event Record() = 0;                    // the point after all that was enqueued so far; any thread may use it
  // Blocks until all that was enqueued is done. From the point that Begin named, or from when Begin was called if that was later, in
  // seconds of std::chrono::steady_clock; zeros on the host, which has its own clock.
  struct Times {
    double start = 0, end = 0;
  };
  virtual Times Finish() = 0;
};

// For tensors of `device`, which outlives it.
std::unique_ptr<Mover> MakeMover(Device& device);
// For the host's memory.
std::unique_ptr<Mover> MakeHostMover();

// Before `ranks` threads of this process share the memories of `gpus`: has each of these reach the others'. Refuses where that cannot
// be, and where there are more ranks than a kernel takes.
absl::Status ConnectGpus(std::span<const int> gpus, int ranks);

}  // namespace twofold::host
