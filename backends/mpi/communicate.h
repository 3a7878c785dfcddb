// Communications implemented as blocking MPI calls.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "backends/host/mover.h"
#include "backends/mpi/types.h"
#include "core/comm/communication.h"

namespace twofold::mpi {

// A communicator and this rank's place in it.
struct Channel {
  MPI_Comm comm;
  int rank, size;  // in the communicator
  Limits limits;
};
Channel ChannelOf(MPI_Comm comm, const Limits& limits);

// Elements in memory that MPI can access. An empty range has a null address.
struct Elements {
  std::byte* data = nullptr;
  int64_t count = 0;
  DType dtype = DType::kU8;
  Elements() = default;
  Elements(std::byte* data, int64_t count, DType dtype)
      : data(count == 0 ? nullptr : data), count(count), dtype(dtype) {}
  explicit Elements(const Tensor& t);
  std::byte* At(int64_t element) const { return data + element * ElementSize(dtype); }
};
// A collective other than all_to_all_v and barrier; fields as in Communication.
struct Collective {
  Communication::Kind kind;
  Elements in, out;
  ReduceOp op = ReduceOp::kSum;
  int root = 0;
};

// For all_to_all_v: the offset at which each rank's elements begin, from the counts, and the end of the last ones.
std::vector<int64_t> Places(const std::vector<int64_t>& counts);
// Above all user tags, so that a receive from any source never takes a collective's message.
inline constexpr Tag kCollectiveTag = kMaxTag + 1;

// The addresses of a communication's operands. Taken when it is issued, because a borrowed tensor loses its address
// once the rank releases it, as a rank of a failed run does, although the memory is still there.
struct Operands {
  Operands() = default;
  explicit Operands(const Communication& c);
  Elements in, out;
  std::vector<Elements> batch;
};

// Executes `c` on the calling thread. Returns when this rank's part is done, except for work still pending on `mover`,
// the mover of the operands' memory. Returns the sender for a receive, else -1. Throws std::runtime_error with MPI's
// message; receiving another size than expected is an error, too.
int Communicate(const Communication& c, const Operands& at, const Channel& channel, host::Mover& mover);
void Communicate(const Collective& c, const Channel& channel, host::Mover& mover);

}  // namespace twofold::mpi
