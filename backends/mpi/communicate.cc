#include "backends/mpi/communicate.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "core/base/check.h"
#include "core/base/strings.h"
#include "kernels/cpu/reduce.h"

namespace twofold::mpi {
namespace {

struct Ranks {
  int rank, size;
};
Ranks RanksOf(MPI_Comm comm) {
  Ranks r{};
  MPI_Comm_rank(comm, &r.rank);
  MPI_Comm_size(comm, &r.size);
  return r;
}

// Tensors of no elements have no address that MPI need see.
void* Raw(const Tensor& t) { return t.empty() || t.numel() == 0 ? nullptr : t.raw(); }
std::byte* At(const Tensor& t, int64_t element) {
  return static_cast<std::byte*>(Raw(t)) + element * ElementSize(t.dtype());
}

// Calls piece(first, count) for consecutive pieces that a count can name.
template <class Piece>
void InPieces(int64_t count, const Limits& limits, Piece piece) {
  for (int64_t first = 0; first < count; first += limits.most_elements) {
    piece(first, static_cast<int>(std::min(limits.most_elements, count - first)));
  }
}

void DivideIfMean(const Communication& c, const Tensor& t, int size) {
  if (c.op == ReduceOp::kAvg && t.numel() > 0) cpu::DivideAll(t.raw(), t.dtype(), t.numel(), size);
}

void AllReduce(const Communication& c, MPI_Comm comm, const Limits& limits) {
  const MPI_Datatype type = TypeOf(c.out.dtype());
  const MPI_Op op = OpOf(c.out.dtype(), c.op);
  InPieces(c.out.numel(), limits, [&](int64_t first, int count) {
    Check(MPI_Allreduce(MPI_IN_PLACE, At(c.out, first), count, type, op, comm), "MPI_Allreduce");
  });
  DivideIfMean(c, c.out, RanksOf(comm).size);
}

void Reduce(const Communication& c, MPI_Comm comm, const Limits& limits) {
  const bool at_root = RanksOf(comm).rank == c.peer;
  const MPI_Datatype type = TypeOf(c.out.dtype());
  const MPI_Op op = OpOf(c.out.dtype(), c.op);
  InPieces(c.out.numel(), limits, [&](int64_t first, int count) {
    std::byte* const data = At(c.out, first);
    Check(MPI_Reduce(at_root ? MPI_IN_PLACE : data, at_root ? data : nullptr, count, type, op, c.peer, comm), "MPI_Reduce");
  });
  if (at_root) DivideIfMean(c, c.out, RanksOf(comm).size);
}

// Blocks that no count can name: block after block, each reduced to its rank.
void ReduceScatterLarge(const Communication& c, MPI_Comm comm, const Limits& limits) {
  const Ranks me = RanksOf(comm);
  const int64_t block = c.out.numel();
  const MPI_Datatype type = TypeOf(c.out.dtype());
  const MPI_Op op = OpOf(c.out.dtype(), c.op);
  for (int root = 0; root < me.size; ++root) {
    InPieces(block, limits, [&](int64_t first, int count) {
      std::byte *const from = At(c.in, root * block + first), *const to = root == me.rank ? At(c.out, first) : nullptr;
      Check(MPI_Reduce(from == to ? MPI_IN_PLACE : from, to, count, type, op, root, comm), "MPI_Reduce");
    });
  }
}

// MPI's in-place form puts the result at the front of the input; ours wants it in the rank's own block, with the rest of the
// input as it was. So a shard that lies in its input is received apart and copied, in the C++ heap as MPI's own buffers are.
void ReduceScatter(const Communication& c, MPI_Comm comm, const Limits& limits) {
  const Ranks me = RanksOf(comm);
  const int64_t block = c.out.numel();
  const bool in_place = block > 0 && Raw(c.out) == At(c.in, me.rank * block);
  if (block > limits.most_elements) {
    ReduceScatterLarge(c, comm, limits);
  } else if (!in_place) {
    Check(MPI_Reduce_scatter_block(Raw(c.in), Raw(c.out), static_cast<int>(block), TypeOf(c.out.dtype()),
                                   OpOf(c.out.dtype(), c.op), comm),
          "MPI_Reduce_scatter_block");
  } else {
    std::vector<std::byte> shard(static_cast<size_t>(c.out.bytes().value()));
    Check(MPI_Reduce_scatter_block(Raw(c.in), shard.data(), static_cast<int>(block), TypeOf(c.out.dtype()),
                                   OpOf(c.out.dtype(), c.op), comm),
          "MPI_Reduce_scatter_block");
    std::memcpy(Raw(c.out), shard.data(), shard.size());
  }
  DivideIfMean(c, c.out, me.size);
}

void AllGather(const Communication& c, MPI_Comm comm, const Limits& limits) {
  const Counted block(c.in.numel(), TypeOf(c.in.dtype()), limits);
  const bool in_place = c.in.numel() > 0 && Raw(c.in) == At(c.out, RanksOf(comm).rank * c.in.numel());
  Check(MPI_Allgather(in_place ? MPI_IN_PLACE : Raw(c.in), block.count(), block.type(), Raw(c.out), block.count(),
                      block.type(), comm),
        "MPI_Allgather");
}

void Broadcast(const Communication& c, MPI_Comm comm, const Limits& limits) {
  const Counted all(c.out.numel(), TypeOf(c.out.dtype()), limits);
  Check(MPI_Bcast(Raw(c.out), all.count(), all.type(), c.peer, comm), "MPI_Bcast");
}

void Gather(const Communication& c, MPI_Comm comm, const Limits& limits) {
  const Counted block(c.in.numel(), TypeOf(c.in.dtype()), limits);
  const bool in_place = RanksOf(comm).rank == c.peer && c.in.numel() > 0 && Raw(c.in) == At(c.out, c.peer * c.in.numel());
  Check(MPI_Gather(in_place ? MPI_IN_PLACE : Raw(c.in), block.count(), block.type(), Raw(c.out), block.count(),
                   block.type(), c.peer, comm),
        "MPI_Gather");
}

void Scatter(const Communication& c, MPI_Comm comm, const Limits& limits) {
  const Counted block(c.out.numel(), TypeOf(c.out.dtype()), limits);
  const bool in_place = RanksOf(comm).rank == c.peer && c.out.numel() > 0 && Raw(c.out) == At(c.in, c.peer * c.out.numel());
  Check(MPI_Scatter(Raw(c.in), block.count(), block.type(), in_place ? MPI_IN_PLACE : Raw(c.out), block.count(),
                    block.type(), c.peer, comm),
        "MPI_Scatter");
}

void AllToAll(const Communication& c, MPI_Comm comm, const Limits& limits) {
  const Counted block(c.out.numel() / RanksOf(comm).size, TypeOf(c.out.dtype()), limits);
  Check(MPI_Alltoall(Raw(c.in), block.count(), block.type(), Raw(c.out), block.count(), block.type(), comm), "MPI_Alltoall");
}

std::vector<int64_t> Places(const std::vector<int64_t>& counts) {
  std::vector<int64_t> places(counts.size() + 1, 0);
  std::partial_sum(counts.begin(), counts.end(), places.begin() + 1);
  return places;
}

// Pairwise exchange, always: MPI_Alltoallv counts places in ints, and whether one is too large another rank cannot know.
void AllToAllV(const Communication& c, MPI_Comm comm, const Limits& limits) {
  constexpr Tag kTag = kMaxTag + 1;  // so that no receive from any source takes a collective's message
  const Ranks me = RanksOf(comm);
  const MPI_Datatype type = TypeOf(c.out.dtype());
  const std::vector<int64_t> from = Places(c.in_counts), to = Places(c.out_counts);
  auto count = [](const std::vector<int64_t>& counts, int r) { return counts[static_cast<size_t>(r)]; };
  auto place = [](const std::vector<int64_t>& places, int r) { return places[static_cast<size_t>(r)]; };
  for (int s = 0; s < me.size; ++s) {
    const int next = (me.rank + s) % me.size, previous = (me.rank - s + me.size) % me.size;
    const Counted out(count(c.in_counts, next), type, limits), in(count(c.out_counts, previous), type, limits);
    MPI_Status status;
    Check(MPI_Sendrecv(At(c.in, place(from, next)), out.count(), out.type(), next, kTag, At(c.out, place(to, previous)),
                       in.count(), in.type(), previous, kTag, comm, &status),
          "MPI_Sendrecv");
    MPI_Count received = 0;
    MPI_Get_elements_x(&status, in.type(), &received);
    // Narrow types are pairs of bytes, which MPI counts apart.
    const int64_t parts = c.out.dtype() == DType::kBF16 || c.out.dtype() == DType::kF16 ? 2 : 1;
    if (received == count(c.out_counts, previous) * parts) continue;
    throw SizeMismatch(StrCat("all_to_all_v: ", received / parts, " elements came from rank ", previous,
                               " of the group, ", count(c.out_counts, previous), " were expected"));
  }
}

// ---- Messages: bytes, as sender and receiver may see them in different shapes ----

void CheckReceived(const MPI_Status& status, const Counted& expected, const Tensor& t) {
  MPI_Count bytes = 0;
  MPI_Get_elements_x(&status, expected.type(), &bytes);
  if (bytes == t.bytes().value()) return;
  throw SizeMismatch(StrCat("a message of ", bytes, " bytes came from rank ", status.MPI_SOURCE,
                                  " of the group with tag ", status.MPI_TAG, ", ", t.bytes().value(), " were expected"));
}

int Receive(const Tensor& t, int from, Tag tag, MPI_Comm comm, const Limits& limits) {
  const Counted all(t.bytes().value(), MPI_BYTE, limits);
  MPI_Status status;
  Check(MPI_Recv(Raw(t), all.count(), all.type(), from == kAnySource ? MPI_ANY_SOURCE : from, tag, comm, &status), "MPI_Recv");
  CheckReceived(status, all, t);
  return status.MPI_SOURCE;
}

void Send(const Tensor& t, int to, Tag tag, MPI_Comm comm, const Limits& limits) {
  const Counted all(t.bytes().value(), MPI_BYTE, limits);
  Check(MPI_Send(Raw(t), all.count(), all.type(), to, tag, comm), "MPI_Send");
}

void Batch(const std::vector<P2p>& batch, MPI_Comm comm, const Limits& limits) {
  std::vector<MPI_Request> requests(batch.size(), MPI_REQUEST_NULL);
  std::vector<MPI_Status> statuses(batch.size());
  std::vector<std::unique_ptr<Counted>> sizes;
  for (size_t i = 0; i < batch.size(); ++i) {
    const P2p& m = batch[i];
    sizes.push_back(std::make_unique<Counted>(m.tensor.bytes().value(), MPI_BYTE, limits));
    const Counted& all = *sizes.back();
    if (m.kind == P2p::kSend) {
      Check(MPI_Isend(Raw(m.tensor), all.count(), all.type(), m.peer, m.tag, comm, &requests[i]), "MPI_Isend");
    } else {
      Check(MPI_Irecv(Raw(m.tensor), all.count(), all.type(), m.peer == kAnySource ? MPI_ANY_SOURCE : m.peer, m.tag, comm,
                      &requests[i]),
            "MPI_Irecv");
    }
  }
  const int code = MPI_Waitall(static_cast<int>(requests.size()), requests.data(), statuses.data());
  for (size_t i = 0; code == MPI_ERR_IN_STATUS && i < batch.size(); ++i) Check(statuses[i].MPI_ERROR, "MPI_Waitall");
  Check(code, "MPI_Waitall");
  for (size_t i = 0; i < batch.size(); ++i) {
    if (batch[i].kind == P2p::kRecv) CheckReceived(statuses[i], *sizes[i], batch[i].tensor);
  }
}

}  // namespace

int Communicate(const Communication& c, MPI_Comm comm, const Limits& limits) {
  switch (c.kind) {
    case Communication::kSend: Send(c.in, c.peer, c.tag, comm, limits); return -1;
    case Communication::kRecv: return Receive(c.out, c.peer, c.tag, comm, limits);
    case Communication::kBatch: Batch(c.batch, comm, limits); return -1;
    case Communication::kAllReduce: AllReduce(c, comm, limits); return -1;
    case Communication::kAllGather: AllGather(c, comm, limits); return -1;
    case Communication::kReduceScatter: ReduceScatter(c, comm, limits); return -1;
    case Communication::kBroadcast: Broadcast(c, comm, limits); return -1;
    case Communication::kReduce: Reduce(c, comm, limits); return -1;
    case Communication::kGather: Gather(c, comm, limits); return -1;
    case Communication::kScatter: Scatter(c, comm, limits); return -1;
    case Communication::kAllToAll: AllToAll(c, comm, limits); return -1;
    case Communication::kAllToAllV: AllToAllV(c, comm, limits); return -1;
    case Communication::kBarrier: Check(MPI_Barrier(comm), "MPI_Barrier"); return -1;
  }
  return -1;
}

}  // namespace twofold::mpi
