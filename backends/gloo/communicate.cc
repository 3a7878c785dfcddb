#include "backends/gloo/communicate.h"

#include <gloo/allgather.h>
#include <gloo/allgatherv.h>
#include <gloo/allreduce.h>
#include <gloo/alltoall.h>
#include <gloo/barrier.h>
#include <gloo/broadcast.h>
#include <gloo/gather.h>
#include <gloo/reduce.h>
#include <gloo/scatter.h>
#include <gloo/transport/unbound_buffer.h>

#include <algorithm>
#include <array>
#include <memory>
#include <utility>

#include "backends/gloo/messages.h"
#include "core/base/check.h"
#include "core/base/strings.h"
#include "kernels/cpu/reduce.h"

namespace twofold::gloo {
namespace {

// Above all user tags, so that a receive from any source never takes a collective's message.
constexpr Tag kCollectiveTag = kMaxTag + 1;

std::byte* AddressOf(const Tensor& t) { return t.empty() ? nullptr : reinterpret_cast<std::byte*>(t.address()); }

// Calls set(pointer) with a pointer to an element type of the right size: Gloo takes sizes from types.
template <class Set>
void Sized(DType dtype, std::byte* data, Set set) {
  switch (ElementSize(dtype)) {
    case 8: return set(reinterpret_cast<uint64_t*>(data));
    case 4: return set(reinterpret_cast<uint32_t*>(data));
    case 2: return set(reinterpret_cast<uint16_t*>(data));
    default: return set(reinterpret_cast<uint8_t*>(data));
  }
}

// BF16 and F16 are rounded at every step. A mean is a sum, which is divided at the end.
auto Reduction(DType dtype, ReduceOp op) {
  return [dtype, op = op == ReduceOp::kAvg ? ReduceOp::kSum : op](void* to, const void* a, const void* b, size_t n) {
    const std::array inputs = {a, b};
    cpu::ReduceSlices(inputs, {&to, 1}, dtype, op, 0, static_cast<int64_t>(n));
  };
}

void DivideIfMean(const Communication& c, std::byte* data, int64_t count, int size, host::Mover& mover) {
  if (c.op == ReduceOp::kAvg) mover.Divide(data, c.out.dtype(), count, size);
}

void AllReduce(const Communication& c, const Operands& at, const ContextPtr& context, host::Mover& mover) {
  ::gloo::AllreduceOptions options(context);
  options.setAlgorithm(::gloo::AllreduceOptions::Algorithm::RING);
  Sized(c.out.dtype(), at.out, [&](auto* data) { options.setOutput(data, static_cast<size_t>(c.out.numel())); });
  options.setReduceFunction(Reduction(c.out.dtype(), c.op));
  ::gloo::allreduce(options);
  DivideIfMean(c, at.out, c.out.numel(), context->size, mover);
}

// Gloo uses the output of all ranks; ours is the root's alone. The buffer of the others is in the C++ heap.
void Reduce(const Communication& c, const Operands& at, const ContextPtr& context, host::Mover& mover) {
  const bool at_root = context->rank == c.peer;
  const auto count = static_cast<size_t>(c.out.numel());
  std::vector<std::byte> scratch(at_root ? 0 : static_cast<size_t>(c.out.bytes().value()));
  ::gloo::ReduceOptions options(context);
  Sized(c.out.dtype(), at.out, [&](auto* data) { options.setInput(data, count); });
  Sized(c.out.dtype(), at_root ? at.out : scratch.data(), [&](auto* data) { options.setOutput(data, count); });
  options.setReduceFunction(Reduction(c.out.dtype(), c.op));
  options.setRoot(c.peer);
  ::gloo::reduce(options);
  if (at_root) DivideIfMean(c, at.out, c.out.numel(), context->size, mover);
}

void AllGather(const Communication& c, const Operands& at, const ContextPtr& context) {
  ::gloo::AllgatherOptions options(context);
  const auto block = static_cast<size_t>(c.in.bytes().value());
  if (at.in != at.out + context->rank * c.in.bytes().value())
    options.setInput(reinterpret_cast<uint8_t*>(at.in), block);
  options.setOutput(reinterpret_cast<uint8_t*>(at.out), block * static_cast<size_t>(context->size));
  ::gloo::allgather(options);
}

void Broadcast(const Communication& c, const Operands& at, const ContextPtr& context) {
  ::gloo::BroadcastOptions options(context);
  options.setOutput(reinterpret_cast<uint8_t*>(at.out), static_cast<size_t>(c.out.bytes().value()));
  options.setRoot(c.peer);
  ::gloo::broadcast(options);
}

void Gather(const Communication& c, const Operands& at, const ContextPtr& context) {
  ::gloo::GatherOptions options(context);
  const auto block = static_cast<size_t>(c.in.bytes().value());
  options.setInput(reinterpret_cast<uint8_t*>(at.in), block);
  if (context->rank == c.peer)
    options.setOutput(reinterpret_cast<uint8_t*>(at.out), block * static_cast<size_t>(context->size));
  options.setRoot(c.peer);
  ::gloo::gather(options);
}

void Scatter(const Communication& c, const Operands& at, const ContextPtr& context) {
  ::gloo::ScatterOptions options(context);
  const int64_t block = c.out.bytes().value();
  std::vector<uint8_t*> blocks;
  for (int r = 0; context->rank == c.peer && r < context->size; ++r)
    blocks.push_back(reinterpret_cast<uint8_t*>(at.in + r * block));
  if (!blocks.empty()) options.setInputs(blocks, static_cast<size_t>(block));
  options.setOutput(reinterpret_cast<uint8_t*>(at.out), static_cast<size_t>(block));
  options.setRoot(c.peer);
  ::gloo::scatter(options);
}

void AllToAll(const Communication& c, const Operands& at, const ContextPtr& context) {
  ::gloo::AlltoallOptions options(context);
  options.setInput(reinterpret_cast<uint8_t*>(at.in), static_cast<size_t>(c.in.bytes().value()));
  options.setOutput(reinterpret_cast<uint8_t*>(at.out), static_cast<size_t>(c.out.bytes().value()));
  ::gloo::alltoall(options);
}

void AllToAllV(const Communication& c, const Operands& at, const ContextPtr& context, host::Mover& mover) {
  const int64_t size = ElementSize(c.in.empty() ? c.out.dtype() : c.in.dtype());
  Messages messages(context);
  int64_t from = 0, to = 0;
  for (int r = 0; r < context->size; ++r) {
    const int64_t out = c.in_counts[static_cast<size_t>(r)] * size, in = c.out_counts[static_cast<size_t>(r)] * size;
    if (r == context->rank) {
      if (in > 0) mover.Copy(at.out + to, at.in + from, in);
    } else {
      messages.Receive(at.out + to, in, r, kCollectiveTag);
      messages.Send(at.in + from, out, r, kCollectiveTag);
    }
    from += out, to += in;
  }
  messages.Wait();
}

int RunMessages(const Communication& c, const Operands& at, const ContextPtr& context) {
  Messages messages(context);
  switch (c.kind) {
    case Communication::kSend: messages.Send(at.in, c.in.bytes().value(), c.peer, c.tag); break;
    case Communication::kRecv: messages.Receive(at.out, c.out.bytes().value(), c.peer, c.tag); break;
    default:
      for (size_t i = 0; i < c.batch.size(); ++i) {
        const P2p& m = c.batch[i];
        if (m.kind == P2p::kSend)
          messages.Send(at.batch[i], m.tensor.bytes().value(), m.peer, m.tag);
        else
          messages.Receive(at.batch[i], m.tensor.bytes().value(), m.peer, m.tag);
      }
  }
  const int source = messages.Wait();
  return c.kind == Communication::kRecv ? source : -1;
}

// Gloo does not expect collectives of nothing.
bool MovesNothing(const Communication& c) {
  if (c.kind == Communication::kAllToAllV || c.kind == Communication::kBarrier) return false;
  return c.bytes().value() == 0;
}

}  // namespace

Operands::Operands(const Communication& c) : in(AddressOf(c.in)), out(AddressOf(c.out)) {
  for (const P2p& m : c.batch) batch.push_back(AddressOf(m.tensor));
}

int Communicate(const Communication& c, const Operands& at, const ContextPtr& context, host::Mover& mover,
                ReduceScatter& reduce_scatter) {
  if (!c.is_collective()) return RunMessages(c, at, context);
  if (MovesNothing(c)) return -1;
  switch (c.kind) {
    case Communication::kAllReduce: AllReduce(c, at, context, mover); break;
    case Communication::kAllGather: AllGather(c, at, context); break;
    case Communication::kReduceScatter:
      reduce_scatter({at.in, at.out, c.out.bytes().value(), c.out.dtype(), c.op}, context);
      break;
    case Communication::kBroadcast: Broadcast(c, at, context); break;
    case Communication::kReduce: Reduce(c, at, context, mover); break;
    case Communication::kGather: Gather(c, at, context); break;
    case Communication::kScatter: Scatter(c, at, context); break;
    case Communication::kAllToAll: AllToAll(c, at, context); break;
    case Communication::kAllToAllV: AllToAllV(c, at, context, mover); break;
    default: {
      ::gloo::BarrierOptions options(context);
      ::gloo::barrier(options);
    }
  }
  return -1;
}

std::vector<std::string> AllGatherBytes(const std::string& bytes, const ContextPtr& context) {
  std::vector<uint64_t> sizes(static_cast<size_t>(context->size));
  uint64_t own = bytes.size();
  ::gloo::AllgatherOptions of_sizes(context);
  of_sizes.setInput(&own, 1);
  of_sizes.setOutput(sizes.data(), sizes.size());
  ::gloo::allgather(of_sizes);
  uint64_t all = 0;
  for (const uint64_t size : sizes) all += size;
  std::string text(all, '\0');
  ::gloo::AllgathervOptions of_bytes(context);
  of_bytes.setInput(const_cast<char*>(bytes.data()), bytes.size());
  of_bytes.setOutput(text.data(), std::vector<size_t>(sizes.begin(), sizes.end()));
  ::gloo::allgatherv(of_bytes);
  std::vector<std::string> of_each;
  size_t at = 0;
  for (const uint64_t size : sizes) of_each.push_back(text.substr(std::exchange(at, at + size), size));
  return of_each;
}

}  // namespace twofold::gloo
