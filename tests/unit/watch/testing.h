// Groups, tensors and logs for tests of the watch. Tensors are symbolic: sizes are all that is looked at.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "backends/watch/call_log.h"
#include "core/memory/allocator.h"
#include "core/memory/source.h"

namespace twofold::watch {

inline std::shared_ptr<const host::GroupIdentity> Group(std::vector<int> ranks, std::string label = "world",
                                                        uint64_t id = 1) {
  return std::make_shared<host::GroupIdentity>(host::GroupIdentity{id, std::move(label), std::move(ranks)});
}

class Tensors {
 public:
  Tensor operator()(int64_t count, DType dtype = DType::kF32) {
    return Allocate(allocator_, Shape{count}, dtype, Category::kOther);
  }
  Communication AllReduce(int64_t count, ReduceOp op = ReduceOp::kSum, DType dtype = DType::kF32) {
    const Tensor t = (*this)(count, dtype);
    return {.kind = Communication::kAllReduce, .in = t, .out = t, .op = op};
  }
  Communication Broadcast(int64_t count, int root) {
    const Tensor t = (*this)(count);
    return {.kind = Communication::kBroadcast, .in = t, .out = t, .peer = root};
  }
  Communication AllToAllV(std::vector<int64_t> in, std::vector<int64_t> out) {
    return {.kind = Communication::kAllToAllV,
            .in = (*this)(100),
            .out = (*this)(100),
            .in_counts = std::move(in),
            .out_counts = std::move(out)};
  }

 private:
  VirtualSource source_;
  CachingAllocator allocator_{source_, 0};
};

}  // namespace twofold::watch
