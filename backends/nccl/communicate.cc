#include "backends/nccl/communicate.h"

#include "core/base/check.h"
#include "kernels/cuda/error.h"

namespace twofold::nccl {
namespace {

ncclDataType_t TypeOf(DType dtype) {
  switch (dtype) {
    case DType::kF64: return ncclFloat64;
    case DType::kF32: return ncclFloat32;
    case DType::kBF16: return ncclBfloat16;
    case DType::kF16: return ncclFloat16;
    case DType::kI32: return ncclInt32;
    case DType::kU8: return ncclUint8;
  }
  TWOFOLD_CHECK(false, "NCCL has this type");
  return {};
}

ncclRedOp_t OpOf(ReduceOp op) {
  switch (op) {
    case ReduceOp::kSum: return ncclSum;
    case ReduceOp::kAvg: return ncclAvg;
    case ReduceOp::kProduct: return ncclProd;
    case ReduceOp::kMin: return ncclMin;
    case ReduceOp::kMax: return ncclMax;
  }
  TWOFOLD_CHECK(false, "NCCL has this reduction");
  return {};
}

std::byte* At(const Tensor& t, int64_t element) {
  if (t.empty() || t.numel() == 0) return nullptr;
  return reinterpret_cast<std::byte*>(t.address()) + element * ElementSize(t.dtype());
}

// Messages between Start and End wait for all peers at once; empty messages are skipped.
class Exchange {
 public:
  explicit Exchange(const Place& place) : place_(place) { Nccl().Check(Nccl().GroupStart(), "ncclGroupStart"); }
  // Each of `bytes`; a message from this rank to itself is a copy.
  void Send(const std::byte* from, int64_t bytes, int to) {
    if (bytes == 0 || failed_ != ncclSuccess) return;
    Note(Nccl().Send(from, static_cast<size_t>(bytes), ncclUint8, to, place_.comm, place_.stream), "ncclSend");
  }
  void Recv(std::byte* to, int64_t bytes, int from) {
    if (bytes == 0 || failed_ != ncclSuccess) return;
    Note(Nccl().Recv(to, static_cast<size_t>(bytes), ncclUint8, from, place_.comm, place_.stream), "ncclRecv");
  }
  // Even after an error inside it, a NCCL group must be ended; that error is then reported.
  void End() {
    const ncclResult_t ended = Nccl().GroupEnd();
    Nccl().Check(failed_, call_, place_.comm);
    Nccl().Check(ended, "ncclGroupEnd", place_.comm);
  }

 private:
  void Note(ncclResult_t result, const char* call) {
    if (result != ncclSuccess && result != ncclInProgress) failed_ = result, call_ = call;
  }

  const Place& place_;
  ncclResult_t failed_ = ncclSuccess;
  const char* call_ = "";
};

void CopyOwn(std::byte* to, const std::byte* from, int64_t bytes, const Place& place) {
  if (bytes == 0 || to == from) return;
  cuda::Check(cudaMemcpyAsync(to, from, static_cast<size_t>(bytes), cudaMemcpyDeviceToDevice, place.stream));
}

void Gather(const Communication& c, const Place& place) {
  const int64_t n = c.in.numel(), bytes = c.in.bytes().value();
  Exchange exchange(place);
  if (place.rank != c.peer) exchange.Send(At(c.in, 0), bytes, c.peer);
  for (int r = 0; place.rank == c.peer && r < place.size; ++r) {
    if (r != place.rank) exchange.Recv(At(c.out, r * n), bytes, r);
  }
  exchange.End();
  if (place.rank == c.peer) CopyOwn(At(c.out, place.rank * n), At(c.in, 0), bytes, place);
}

void Scatter(const Communication& c, const Place& place) {
  const int64_t n = c.out.numel(), bytes = c.out.bytes().value();
  Exchange exchange(place);
  if (place.rank != c.peer) exchange.Recv(At(c.out, 0), bytes, c.peer);
  for (int r = 0; place.rank == c.peer && r < place.size; ++r) {
    if (r != place.rank) exchange.Send(At(c.in, r * n), bytes, r);
  }
  exchange.End();
  if (place.rank == c.peer) CopyOwn(At(c.out, 0), At(c.in, place.rank * n), bytes, place);
}

void AllToAllV(const Communication& c, const std::vector<int64_t>& in_counts, const std::vector<int64_t>& out_counts,
               const Place& place) {
  const int64_t element = ElementSize(c.out.dtype());
  int64_t from = 0, to = 0, own_from = 0, own_to = 0;
  Exchange exchange(place);
  for (int r = 0; r < place.size; ++r) {
    const int64_t out = in_counts[static_cast<size_t>(r)], in = out_counts[static_cast<size_t>(r)];
    if (r == place.rank) {
      own_from = from, own_to = to;
    } else {
      exchange.Send(At(c.in, from), out * element, r);
      exchange.Recv(At(c.out, to), in * element, r);
    }
    from += out, to += in;
  }
  exchange.End();
  CopyOwn(At(c.out, own_to), At(c.in, own_from), in_counts[static_cast<size_t>(place.rank)] * element, place);
}

}  // namespace

void EnqueueMessages(const std::vector<Message>& messages, const Place& place) {
  Exchange exchange(place);
  for (const Message& m : messages) {
    const int64_t bytes = m.tensor.bytes().value();
    if (m.kind == P2p::kSend)
      exchange.Send(At(m.tensor, 0), bytes, m.peer);
    else
      exchange.Recv(At(m.tensor, 0), bytes, m.peer);
  }
  exchange.End();
}

void EnqueueCollective(const Communication& c, const Place& p) {
  const Api& nccl = Nccl();
  auto count = [](const Tensor& t) { return static_cast<size_t>(t.numel()); };
  switch (c.kind) {
    case Communication::kAllReduce:
      return nccl.Check(
          nccl.AllReduce(At(c.out, 0), At(c.out, 0), count(c.out), TypeOf(c.out.dtype()), OpOf(c.op), p.comm, p.stream),
          "ncclAllReduce", p.comm);
    case Communication::kReduce:
      return nccl.Check(nccl.Reduce(At(c.out, 0), p.rank == c.peer ? At(c.out, 0) : nullptr, count(c.out),
                                    TypeOf(c.out.dtype()), OpOf(c.op), c.peer, p.comm, p.stream),
                        "ncclReduce", p.comm);
    case Communication::kBroadcast:
      return nccl.Check(
          nccl.Broadcast(At(c.out, 0), At(c.out, 0), count(c.out), TypeOf(c.out.dtype()), c.peer, p.comm, p.stream),
          "ncclBroadcast", p.comm);
    case Communication::kAllGather:
      return nccl.Check(nccl.AllGather(At(c.in, 0), At(c.out, 0), count(c.in), TypeOf(c.in.dtype()), p.comm, p.stream),
                        "ncclAllGather", p.comm);
    case Communication::kReduceScatter:
      return nccl.Check(nccl.ReduceScatter(At(c.in, 0), At(c.out, 0), count(c.out), TypeOf(c.out.dtype()), OpOf(c.op),
                                           p.comm, p.stream),
                        "ncclReduceScatter", p.comm);
    case Communication::kGather: return Gather(c, p);
    case Communication::kScatter: return Scatter(c, p);
    case Communication::kAllToAll: {
      if (nccl.AlltoAll != nullptr) {
        return nccl.Check(nccl.AlltoAll(At(c.in, 0), At(c.out, 0), count(c.in) / static_cast<size_t>(p.size),
                                        TypeOf(c.in.dtype()), p.comm, p.stream),
                          "ncclAlltoAll", p.comm);
      }
      const std::vector<int64_t> even(static_cast<size_t>(p.size), c.out.numel() / p.size);
      return AllToAllV(c, even, even, p);
    }
    case Communication::kAllToAllV: return AllToAllV(c, c.in_counts, c.out_counts, p);
    case Communication::kBarrier:
      return nccl.Check(nccl.AllReduce(p.scratch, p.scratch, 1, ncclInt32, ncclMax, p.comm, p.stream), "ncclAllReduce",
                        p.comm);
    case Communication::kSend:
    case Communication::kRecv:
    case Communication::kBatch: break;
  }
  TWOFOLD_CHECK(false, c.ToString() + " is not a collective");
}

}  // namespace twofold::nccl
