// Communications as blocking MPI calls.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "backends/host/mover.h"
#include "backends/mpi/types.h"
#include "core/comm/communication.h"

namespace twofold::mpi {

// What a communicator joins, as its calls see it.
struct Channel {
  MPI_Comm comm;
  int rank, size;  // in it
  Limits limits;
};
Channel ChannelOf(MPI_Comm comm, const Limits& limits);

// Elements in memory that MPI reaches. None have no address.
struct Elements {
  std::byte* data = nullptr;
  int64_t count = 0;
  DType dtype = DType::kU8;
  Elements() = default;
  Elements(std::byte* data, int64_t count, DType dtype) : data(count == 0 ? nullptr : data), count(count), dtype(dtype) {}
  explicit Elements(const Tensor& t);
  std::byte* At(int64_t element) const { return data + element * ElementSize(dtype); }
};
// A collective, all_to_all_v and barriers excepted: as Communication has it.
struct Collective {
  Communication::Kind kind;
  Elements in, out;
  ReduceOp op = ReduceOp::kSum;
  int root = 0;
};

// Of all_to_all_v: where each rank's elements begin, given how many there are, and where the last ones end.
std::vector<int64_t> Places(const std::vector<int64_t>& counts);
inline constexpr Tag kCollectiveTag = kMaxTag + 1;  // so that no receive from any source takes a collective's message

// Where a communication's operands lie. Taken when it is issued: borrowed tensors know no more once the rank has let go of theirs, as one
// does whose run has failed, though its memory is still there.
struct Operands {
  Operands() = default;
  explicit Operands(const Communication& c);
  Elements in, out;
  std::vector<Elements> batch;
};

// Does `c` on the calling thread and returns when this rank's part is done, but for what `mover`, that of the operands' memory, has
// still to do; of a receive, the rank that sent, else -1. Throws std::runtime_error with MPI's words; what arrives in another
// size than was expected is an error, too.
int Communicate(const Communication& c, const Operands& at, const Channel& channel, host::Mover& mover);
void Communicate(const Collective& c, const Channel& channel, host::Mover& mover);

}  // namespace twofold::mpi
