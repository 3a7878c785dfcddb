#include "backends/mpi/communicate.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <vector>

#include "core/base/check.h"
#include "core/base/strings.h"

namespace twofold::mpi {
namespace {

// Calls piece(first, count) for consecutive pieces small enough for one MPI count.
template <class Piece>
void InPieces(int64_t count, const Limits& limits, Piece piece) {
  for (int64_t first = 0; first < count; first += limits.most_elements) {
    piece(first, static_cast<int>(std::min(limits.most_elements, count - first)));
  }
}

void DivideIfMean(const Collective& c, const Elements& e, int size, host::Mover& mover) {
  if (c.op == ReduceOp::kAvg && e.count > 0) mover.Divide(e.data, e.dtype, e.count, size);
}

void AllReduce(const Collective& c, const Channel& channel, host::Mover& mover) {
  const MPI_Datatype type = TypeOf(c.out.dtype);
  const MPI_Op op = OpOf(c.out.dtype, c.op);
  InPieces(c.out.count, channel.limits, [&](int64_t first, int count) {
    Check(MPI_Allreduce(MPI_IN_PLACE, c.out.At(first), count, type, op, channel.comm), "MPI_Allreduce");
  });
  DivideIfMean(c, c.out, channel.size, mover);
}

void Reduce(const Collective& c, const Channel& channel, host::Mover& mover) {
  const bool at_root = channel.rank == c.root;
  const MPI_Datatype type = TypeOf(c.out.dtype);
  const MPI_Op op = OpOf(c.out.dtype, c.op);
  InPieces(c.out.count, channel.limits, [&](int64_t first, int count) {
    std::byte* const data = c.out.At(first);
    Check(MPI_Reduce(at_root ? MPI_IN_PLACE : data, at_root ? data : nullptr, count, type, op, c.root, channel.comm),
          "MPI_Reduce");
  });
  if (at_root) DivideIfMean(c, c.out, channel.size, mover);
}

// For blocks too large for one MPI count: block after block, each reduced to its rank.
void ReduceScatterLarge(const Collective& c, const Channel& channel) {
  const int64_t block = c.out.count;
  const MPI_Datatype type = TypeOf(c.out.dtype);
  const MPI_Op op = OpOf(c.out.dtype, c.op);
  for (int root = 0; root < channel.size; ++root) {
    InPieces(block, channel.limits, [&](int64_t first, int count) {
      std::byte *const from = c.in.At(root * block + first), *const to =
                                                                 root == channel.rank ? c.out.At(first) : nullptr;
      Check(MPI_Reduce(from == to ? MPI_IN_PLACE : from, to, count, type, op, root, channel.comm), "MPI_Reduce");
    });
  }
}

// MPI's in-place form puts the result at the front of the input; ours puts it into the rank's own block and leaves the
// rest of the input unchanged. So a shard that lies in its input is received in a separate buffer and copied. The
// buffer is in the C++ heap, like MPI's own.
void ReduceScatter(const Collective& c, const Channel& channel, host::Mover& mover) {
  const int64_t block = c.out.count;
  const bool in_place = block > 0 && c.out.data == c.in.At(channel.rank * block);
  const auto reduce = [&](void* to) {
    Check(MPI_Reduce_scatter_block(c.in.data, to, static_cast<int>(block), TypeOf(c.out.dtype), OpOf(c.out.dtype, c.op),
                                   channel.comm),
          "MPI_Reduce_scatter_block");
  };
  if (block > channel.limits.most_elements) {
    ReduceScatterLarge(c, channel);
  } else if (!in_place) {
    reduce(c.out.data);
  } else {
    std::vector<std::byte> shard(static_cast<size_t>(block * ElementSize(c.out.dtype)));
    reduce(shard.data());
    mover.Copy(c.out.data, shard.data(), static_cast<int64_t>(shard.size()));
  }
  DivideIfMean(c, c.out, channel.size, mover);
}

void AllGather(const Collective& c, const Channel& channel) {
  const Counted block(c.in.count, TypeOf(c.in.dtype), channel.limits);
  const bool in_place = c.in.count > 0 && c.in.data == c.out.At(channel.rank * c.in.count);
  Check(MPI_Allgather(in_place ? MPI_IN_PLACE : c.in.data, block.count(), block.type(), c.out.data, block.count(),
                      block.type(), channel.comm),
        "MPI_Allgather");
}

void Broadcast(const Collective& c, const Channel& channel) {
  const Counted all(c.out.count, TypeOf(c.out.dtype), channel.limits);
  Check(MPI_Bcast(c.out.data, all.count(), all.type(), c.root, channel.comm), "MPI_Bcast");
}

void Gather(const Collective& c, const Channel& channel) {
  const Counted block(c.in.count, TypeOf(c.in.dtype), channel.limits);
  const bool in_place = channel.rank == c.root && c.in.count > 0 && c.in.data == c.out.At(c.root * c.in.count);
  Check(MPI_Gather(in_place ? MPI_IN_PLACE : c.in.data, block.count(), block.type(), c.out.data, block.count(),
                   block.type(), c.root, channel.comm),
        "MPI_Gather");
}

void Scatter(const Collective& c, const Channel& channel) {
  const Counted block(c.out.count, TypeOf(c.out.dtype), channel.limits);
  const bool in_place = channel.rank == c.root && c.out.count > 0 && c.out.data == c.in.At(c.root * c.out.count);
  Check(MPI_Scatter(c.in.data, block.count(), block.type(), in_place ? MPI_IN_PLACE : c.out.data, block.count(),
                    block.type(), c.root, channel.comm),
        "MPI_Scatter");
}

void AllToAll(const Collective& c, const Channel& channel) {
  const Counted block(c.out.count / channel.size, TypeOf(c.out.dtype), channel.limits);
  Check(MPI_Alltoall(c.in.data, block.count(), block.type(), c.out.data, block.count(), block.type(), channel.comm),
        "MPI_Alltoall");
}

// Always a pairwise exchange: MPI_Alltoallv counts displacements in ints, and a rank cannot know whether one is too
// large on another rank.
void AllToAllV(const Communication& c, const Operands& at, const Channel& channel) {
  const Elements &all_out = at.in, &all_in = at.out;
  const MPI_Datatype type = TypeOf(all_in.dtype);
  const std::vector<int64_t> from = Places(c.in_counts), to = Places(c.out_counts);
  auto count = [](const std::vector<int64_t>& counts, int r) { return counts[static_cast<size_t>(r)]; };
  auto place = [](const std::vector<int64_t>& places, int r) { return places[static_cast<size_t>(r)]; };
  for (int s = 0; s < channel.size; ++s) {
    const int next = (channel.rank + s) % channel.size, previous = (channel.rank - s + channel.size) % channel.size;
    const Counted out(count(c.in_counts, next), type, channel.limits),
        in(count(c.out_counts, previous), type, channel.limits);
    MPI_Status status;
    Check(MPI_Sendrecv(all_out.At(place(from, next)), out.count(), out.type(), next, kCollectiveTag,
                       all_in.At(place(to, previous)), in.count(), in.type(), previous, kCollectiveTag, channel.comm,
                       &status),
          "MPI_Sendrecv");
    MPI_Count received = 0;
    MPI_Get_elements_x(&status, in.type(), &received);
    // BF16 and F16 are pairs of bytes, which MPI counts separately.
    const int64_t parts = all_in.dtype == DType::kBF16 || all_in.dtype == DType::kF16 ? 2 : 1;
    if (received == count(c.out_counts, previous) * parts) continue;
    throw SizeMismatch(StrCat("all_to_all_v: ", received / parts, " elements came from rank ", previous,
                              " of the group, but ", count(c.out_counts, previous), " were expected"));
  }
}

// ---- Messages: bytes, since sender and receiver may use different shapes ----

void CheckReceived(const MPI_Status& status, const Counted& expected, const Tensor& t) {
  MPI_Count bytes = 0;
  MPI_Get_elements_x(&status, expected.type(), &bytes);
  if (bytes == t.bytes().value()) return;
  throw SizeMismatch(StrCat("a message of ", bytes, " bytes came from rank ", status.MPI_SOURCE,
                            " of the group with tag ", status.MPI_TAG, ", but ", t.bytes().value(), " were expected"));
}

int Receive(const Tensor& t, std::byte* data, int from, Tag tag, const Channel& channel) {
  const Counted all(t.bytes().value(), MPI_BYTE, channel.limits);
  MPI_Status status;
  Check(MPI_Recv(data, all.count(), all.type(), from == kAnySource ? MPI_ANY_SOURCE : from, tag, channel.comm, &status),
        "MPI_Recv");
  CheckReceived(status, all, t);
  return status.MPI_SOURCE;
}

void Send(const Tensor& t, std::byte* data, int to, Tag tag, const Channel& channel) {
  const Counted all(t.bytes().value(), MPI_BYTE, channel.limits);
  Check(MPI_Send(data, all.count(), all.type(), to, tag, channel.comm), "MPI_Send");
}

void Batch(const std::vector<P2p>& batch, const std::vector<Elements>& at, const Channel& channel) {
  std::vector<MPI_Request> requests(batch.size(), MPI_REQUEST_NULL);
  std::vector<MPI_Status> statuses(batch.size());
  std::vector<std::unique_ptr<Counted>> sizes;
  for (size_t i = 0; i < batch.size(); ++i) {
    const P2p& m = batch[i];
    sizes.push_back(std::make_unique<Counted>(m.tensor.bytes().value(), MPI_BYTE, channel.limits));
    const Counted& all = *sizes.back();
    if (m.kind == P2p::kSend) {
      Check(MPI_Isend(at[i].data, all.count(), all.type(), m.peer, m.tag, channel.comm, &requests[i]), "MPI_Isend");
    } else {
      Check(MPI_Irecv(at[i].data, all.count(), all.type(), m.peer == kAnySource ? MPI_ANY_SOURCE : m.peer, m.tag,
                      channel.comm, &requests[i]),
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

Elements::Elements(const Tensor& t) {
  if (t.empty()) return;
  *this = Elements(reinterpret_cast<std::byte*>(t.address()), t.numel(), t.dtype());
}

std::vector<int64_t> Places(const std::vector<int64_t>& counts) {
  std::vector<int64_t> places(counts.size() + 1, 0);
  std::partial_sum(counts.begin(), counts.end(), places.begin() + 1);
  return places;
}

Channel ChannelOf(MPI_Comm comm, const Limits& limits) {
  Channel channel{.comm = comm, .rank = 0, .size = 1, .limits = limits};
  MPI_Comm_rank(comm, &channel.rank);
  MPI_Comm_size(comm, &channel.size);
  return channel;
}

void Communicate(const Collective& c, const Channel& channel, host::Mover& mover) {
  switch (c.kind) {
    case Communication::kAllReduce: return AllReduce(c, channel, mover);
    case Communication::kAllGather: return AllGather(c, channel);
    case Communication::kReduceScatter: return ReduceScatter(c, channel, mover);
    case Communication::kBroadcast: return Broadcast(c, channel);
    case Communication::kReduce: return Reduce(c, channel, mover);
    case Communication::kGather: return Gather(c, channel);
    case Communication::kScatter: return Scatter(c, channel);
    case Communication::kAllToAll: return AllToAll(c, channel);
    default: TWOFOLD_CHECK(false, StrCat(KindName(c.kind), " is not a collective of equal blocks"));
  }
}

Operands::Operands(const Communication& c) : in(c.in), out(c.out) {
  for (const P2p& m : c.batch) batch.emplace_back(m.tensor);
}

int Communicate(const Communication& c, const Operands& at, const Channel& channel, host::Mover& mover) {
  switch (c.kind) {
    case Communication::kSend: Send(c.in, at.in.data, c.peer, c.tag, channel); return -1;
    case Communication::kRecv: return Receive(c.out, at.out.data, c.peer, c.tag, channel);
    case Communication::kBatch: Batch(c.batch, at.batch, channel); return -1;
    case Communication::kAllToAllV: AllToAllV(c, at, channel); return -1;
    case Communication::kBarrier: Check(MPI_Barrier(channel.comm), "MPI_Barrier"); return -1;
    default: Communicate(Collective{c.kind, at.in, at.out, c.op, c.peer}, channel, mover); return -1;
  }
}

}  // namespace twofold::mpi
