// A communication as a value: the operation and its tensors. Process groups issue communications, backends run them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/comm/reduce_op.h"
#include "core/tensor/tensor.h"

namespace twofold {

using Tag = int;
inline constexpr int kAnySource = -1;
// Tags are 0..kMaxTag; kMaxTag + 1 is reserved for messages of default_collectives.h
inline constexpr Tag kMaxTag = 32766;

struct P2p {
  enum Kind { kSend, kRecv } kind;
  Tensor tensor;
  int peer;  // rank in the group; kRecv: may be kAnySource
  Tag tag = 0;
};

struct Communication {
  enum Kind {
    kSend,
    kRecv,
    kBatch,
    kAllReduce,
    kAllGather,
    kReduceScatter,
    kBroadcast,
    kReduce,
    kGather,
    kScatter,
    kAllToAll,
    kAllToAllV,
    kBarrier,
  };
  static constexpr size_t kKinds = kBarrier + 1;
  Kind kind;
  Tensor in, out;  // kAllReduce, kBroadcast, kReduce: both are the same tensor; unused sides are empty
  ReduceOp op = ReduceOp::kSum;
  int peer = 0;  // root, or the other side of a send or receive
  Tag tag = 0;
  std::vector<int64_t> in_counts, out_counts;  // kAllToAllV: elements sent to and received from each rank
  std::vector<P2p> batch;                      // kBatch

  // Payload as nccl-tests counts it: the larger of the two sides, i.e. the output of an all-gather, the input of a
  // reduce-scatter.
  Bytes bytes() const;
  bool is_collective() const { return kind > kBatch; }
  bool sums() const { return kind == kAllReduce || kind == kReduceScatter || kind == kReduce; }
  std::string ToString() const;    // "all_reduce(sum) of f32[1000]"
  Communication Borrowed() const;  // with Tensor::Borrowed operands, for a communication thread
};
std::string_view KindName(Communication::Kind kind);  // "all_reduce"
std::optional<Communication::Kind> KindNamed(std::string_view name);

}  // namespace twofold
