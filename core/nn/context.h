// What a module needs to run: a device, a stream on it, and the coordinates of random draws.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/base/philox.h"
#include "core/device/device.h"
#include "core/nn/routing.h"
#include "core/nn/statistics.h"

namespace twofold::nn {

// Is told what codecs do on a rank. Codecs make messages smaller: gradients, parameters or differences of parameters.
class CodecObserver {
 public:
  virtual ~CodecObserver() = default;
  // Whether the kernels that are launched from now on are a codec's.
  virtual void CodecWorks(bool works) = 0;
  // A tensor of `before` bytes was encoded into `after` bytes.
  virtual void Encoded(Bytes before, Bytes after) = 0;
};

struct Context {
  Device& device;
  Stream& stream;            // stream for operations; usually device.compute()
  bool training = true;      // dropout is off otherwise
  bool for_backward = true;  // false: no backward pass follows this forward pass, so nothing is saved for one
  bool recomputing = false;  // true: repeats an earlier forward pass, so persistent state must not change again
  bool draws = true;  // false: layouts give parameters no initial values, since those are filled in from elsewhere
  uint64_t seed = 0;
  int64_t step = 0;         // optimizer steps done so far
  int64_t micro_batch = 0;  // index within the step, over all ranks, so that no two draw the same dropout mask
  // The factor on the gradient of a micro-batch's mean loss. Auxiliary losses that modules add are weighted by it, too.
  double loss_factor = 1;
  StatisticsReducer* statistics = nullptr;  // joins the ranks that share a micro-batch; null: only this rank
  CodecObserver* codecs = nullptr;          // null: nobody asks
  RoutingObserver* routing = nullptr;       // likewise
  const Routed* routed = nullptr;  // for the experts of a mixture without capacities, while they run forward; else null

  void Launch(const ops::Op& op) { device.Launch(stream, op); }
  Tensor Activation(Shape shape, DType dtype, std::string_view name = {}) {
    return device.NewTensor(std::move(shape), dtype, Category::kActivations, name);
  }
  Owners& owners() { return device.allocator().owners(); }
  // The key of one random site in this micro-batch.
  PhiloxKey RandomKey(std::string_view site) const {
    return MakeKey(seed + 0x51ed2701u * static_cast<uint64_t>(step) + 0x9e3779b9u * static_cast<uint64_t>(micro_batch),
                   StableHash(site));
  }
};

// While it exists, the kernels that are launched are a codec's. Only one may exist at a time.
class CodecWork {
 public:
  explicit CodecWork(const Context& ctx) : observer_(ctx.codecs) {
    if (observer_ != nullptr) observer_->CodecWorks(true);
  }
  ~CodecWork() {
    if (observer_ != nullptr) observer_->CodecWorks(false);
  }
  CodecWork(const CodecWork&) = delete;
  CodecWork& operator=(const CodecWork&) = delete;
  void Encoded(Bytes before, Bytes after) const {
    if (observer_ != nullptr) observer_->Encoded(before, after);
  }

 private:
  CodecObserver* const observer_;
};

}  // namespace twofold::nn
