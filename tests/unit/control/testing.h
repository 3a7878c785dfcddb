// Clients, groups, tensors and logs for tests of the control plane. Tensors are symbolic: sizes are all that is looked
// at.
#pragma once

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "backends/control/call_log.h"
#include "backends/control/client.h"
#include "core/memory/allocator.h"
#include "core/memory/source.h"

namespace twofold::control {

inline std::shared_ptr<const host::GroupIdentity> Group(std::vector<int> ranks, std::string label = "world",
                                                        uint64_t id = 1) {
  return std::make_shared<host::GroupIdentity>(host::GroupIdentity{id, std::move(label), std::move(ranks)});
}

// Clients as of `n` processes, at a desk of their own.
inline std::vector<std::unique_ptr<Client>> Clients(int n) {
  const auto desk =
      std::make_shared<Desk>(Plane::Options{.size = n, .place = "this test", .process = "process 100 on node0"});
  std::vector<std::unique_ptr<Client>> clients(static_cast<size_t>(n));
  std::vector<std::thread> threads;
  for (int r = 0; r < n; ++r) {
    threads.emplace_back([&clients, &desk, r, n] {
      clients[static_cast<size_t>(r)] = *Client::Join(Client::Options{.rank = r, .size = n, .timeout_s = 60}, desk);
    });
  }
  for (std::thread& t : threads) t.join();
  return clients;
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

}  // namespace twofold::control
