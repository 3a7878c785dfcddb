// What a module needs to run: a device, a stream on it, and the coordinates of random draws.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/base/philox.h"
#include "core/device/device.h"
#include "core/nn/statistics.h"

namespace twofold::nn {

struct Context {
  Device& device;
  Stream& stream;        // where operations go; usually device.compute()
  bool training = true;  // dropout is off otherwise
  bool for_backward = true;  // false: no backward pass follows this forward pass, and nothing is kept for one
  bool recomputing = false;  // a forward pass once more: what it changes for good, it has changed already
  uint64_t seed = 0;
  int64_t step = 0;         // optimizer steps done so far
  int64_t micro_batch = 0;  // index within the step, over all ranks: no two draw the same dropout mask
  // What the gradient of a micro-batch's mean loss is multiplied by on its way back: the weight of losses that modules add to it.
  double loss_factor = 1;
  StatisticsReducer* statistics = nullptr;  // of the ranks that share a micro-batch; null: this one alone

  void Launch(const ops::Op& op) { device.Launch(stream, op); }
  Tensor Activation(Shape shape, DType dtype) {
    return device.NewTensor(std::move(shape), dtype, Category::kActivations);
  }
  // The key of one random site in this micro-batch.
  PhiloxKey RandomKey(std::string_view site) const {
    return MakeKey(seed + 0x51ed2701u * static_cast<uint64_t>(step) + 0x9e3779b9u * static_cast<uint64_t>(micro_batch),
                   StableHash(site));
  }
};

}  // namespace twofold::nn
