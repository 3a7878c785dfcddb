#include "backends/host/mover.h"

#include <algorithm>
#include <cstring>

#include "backends/host/cuda_mover.h"
#include "kernels/cpu/reduce.h"

namespace twofold::host {
namespace {

constexpr int64_t kPiece = 64 << 10;  // bytes; copied to all receivers while in the cache

class HostMover : public Mover {
 public:
  bool on_host() const override { return true; }
  void Copy(void* to, const void* from, int64_t bytes) override {
    if (bytes > 0 && to != from) std::memcpy(to, from, static_cast<size_t>(bytes));
  }
  // Copies in pieces, so that the source is read from memory only once.
  void CopyToAll(std::span<char* const> to, const char* from, int64_t bytes) override {
    for (int64_t first = 0; first < bytes; first += kPiece) {
      for (char* t : to) HostMover::Copy(t + first, from + first, std::min(kPiece, bytes - first));
    }
  }
  void Reduce(std::span<const void* const> inputs, std::span<void* const> outputs, DType dtype, ReduceOp op,
              int64_t first, int64_t count) override {
    cpu::ReduceSlices(inputs, outputs, dtype, op, first, count);
  }
  void Divide(void* data, DType dtype, int64_t count, int by) override { cpu::DivideAll(data, dtype, count, by); }
  void Begin(const Event&) override {}
  void WaitFor(const Event&) override {}
  Event Record() override { return Event(); }
  Times Finish() override { return {}; }
};

}  // namespace

std::unique_ptr<Mover> MakeMover(Device& device) {
  if (device.kind() == DeviceKind::kCuda) return MakeCudaMover(device);
  return MakeHostMover();
}

std::unique_ptr<Mover> MakeHostMover() { return std::make_unique<HostMover>(); }

}  // namespace twofold::host
