// Every collective, built from point-to-point messages: what a backend without native ones uses.
//
// Reductions are in rank order, narrow types accumulated in f32 and rounded once, so results equal those of the other
// fabrics bit for bit. Each algorithm states its steps and bytes above its function in the source.
#pragma once

#include <cstddef>
#include <span>

#include "core/comm/communication.h"

namespace twofold {

// Blocking transport between the ranks of one group, as a communication thread sees it. Throws the errors of errors.h.
class PointToPoint {
 public:
  virtual ~PointToPoint() = default;
  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual void Send(std::span<const std::byte> data, int to, Tag tag) = 0;
  virtual void Recv(std::span<std::byte> data, int from, Tag tag) = 0;
  // Both at once, without deadlock.
  virtual void SendRecv(std::span<const std::byte> out, int to, std::span<std::byte> in, int from, Tag tag) = 0;
  // outputs[i] = inputs reduced in order, `count` elements of `dtype`; outputs may alias inputs.
  virtual void Reduce(std::span<const void* const> inputs, void* output, DType dtype, ReduceOp op, int64_t count) = 0;
};

// Scratch memory that RunCollective needs: a function of the communication and the group's size.
Bytes CollectiveWorkspace(const Communication& c, int size);

// Runs one collective (c.is_collective()) to its end on the calling thread.
void RunCollective(const Communication& c, PointToPoint& p2p, std::span<std::byte> workspace);

}  // namespace twofold
