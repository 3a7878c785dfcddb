// All collectives, built from point-to-point messages, for backends without native ones.
//
// Reductions run in rank order. BF16 and F16 are accumulated in F32 and rounded once, so results are bit-identical to
// those of the other fabrics. In the source, a comment above each algorithm states its steps and bytes.
#pragma once

#include <cstddef>
#include <span>

#include "core/comm/communication.h"

namespace twofold {

// Blocking transport between the ranks of one group, for a communication thread. Throws the errors of errors.h.
class PointToPoint {
 public:
  virtual ~PointToPoint() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual void Send(std::span<const std::byte> data, int to, Tag tag) = 0;
  virtual void Recv(std::span<std::byte> data, int from, Tag tag) = 0;
  // Sends and receives at the same time, without deadlock.
  virtual void SendRecv(std::span<const std::byte> out, int to, std::span<std::byte> in, int from, Tag tag) = 0;
  // outputs[i] = inputs reduced in order, `count` elements of `dtype`; outputs may alias inputs.
  virtual void Reduce(std::span<const void* const> inputs, void* output, DType dtype, ReduceOp op, int64_t count) = 0;
};

// Scratch memory for RunCollective. Depends only on the communication and the group's size.
Bytes CollectiveWorkspace(const Communication& c, int size);

// Runs one collective (c.is_collective()) to completion on the calling thread.
void RunCollective(const Communication& c, PointToPoint& p2p, std::span<std::byte> workspace);

}  // namespace twofold
