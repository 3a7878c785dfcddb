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
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "backends/gloo/messages.h"
#include "core/base/check.h"
#include "core/base/strings.h"
#include "kernels/cpu/reduce.h"

namespace twofold::gloo {
namespace {

// Above all user tags, so that a receive from any source never takes a collective's message.
constexpr Tag kCollectiveTag = kMaxTag + 1;
// Of reduce_scatter's ring, in bytes: what is reduced at once, and what goes round together.
constexpr int64_t kSegment = 256 << 10, kChunk = 4 * kSegment;
constexpr uint64_t kRingSlot = uint64_t{0x42} << 56;  // beside those of messages.cc

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

using Segments = std::vector<std::unique_ptr<::gloo::transport::UnboundBuffer>>;  // under way
void WaitForSends(Segments& segments) {
  for (const auto& one : segments) one->waitSend();
  segments.clear();
}

// Part of the blocks that ranks reduce around the ring.
class RingChunk {
 public:
  // `most`: bytes of the part at most.
  RingChunk(const ContextPtr& context, int64_t most, DType dtype, ReduceOp op)
      : context_(context),
        dtype_(dtype),
        reduce_(Reduction(dtype, op)),
        partial_{std::make_unique_for_overwrite<std::byte[]>(static_cast<size_t>(most)),
                 std::make_unique_for_overwrite<std::byte[]>(static_cast<size_t>(most))} {}

  // The ring's first messages. `own(number)`: this rank's part of the block of rank `number`, modulo their number.
  using Own = std::function<std::byte*(int number)>;
  void Begin(const Own& own, int64_t size) {
    size_ = size;
    own_ = own;
    for (int64_t at = 0; at < size_; at += kSegment) Send(own_(context_->rank - 1) + at, at, begun_);
    Receive(0);
  }
  // A block travels from the rank after its own all the way round, and each rank adds its part.
  void Finish(std::byte* to) {  // where this rank's result goes
    const int n = context_->size;
    for (int step = 0; step + 1 < n; ++step) {
      std::byte* const into = partial_[static_cast<size_t>(step % 2)].get();
      Segments& onward = onward_[static_cast<size_t>(step % 2)];
      if (step > 0) {
        WaitForSends(onward);  // sent from here two steps ago
        Receive(step);
      }
      const bool last = step + 2 == n;
      for (int64_t at = 0; at < size_; at += kSegment) {
        receiving_[static_cast<size_t>(at / kSegment)]->waitRecv();
        std::byte *const data = into + at, *const sum = last ? to + at : data;
        reduce_(sum, data, own_(context_->rank - 2 - step) + at, static_cast<size_t>(SizeAt(at) / ElementSize(dtype_)));
        if (!last) Send(data, at, onward);
      }
    }
    WaitForSends(begun_), WaitForSends(onward_[0]), WaitForSends(onward_[1]);
  }

 private:
  int64_t SizeAt(int64_t at) const { return std::min(kSegment, size_ - at); }
  void Send(std::byte* data, int64_t at, Segments& segments) {
    segments.push_back(context_->createUnboundBuffer(data, static_cast<size_t>(SizeAt(at))));
    segments.back()->send((context_->rank + 1) % context_->size, kRingSlot);
  }
  void Receive(int step) {
    receiving_.clear();
    std::byte* const into = partial_[static_cast<size_t>(step % 2)].get();
    for (int64_t at = 0; at < size_; at += kSegment) {
      receiving_.push_back(context_->createUnboundBuffer(into + at, static_cast<size_t>(SizeAt(at))));
      receiving_.back()->recv((context_->rank + context_->size - 1) % context_->size, kRingSlot);
    }
  }

  const ContextPtr& context_;
  int64_t size_ = 0;
  const DType dtype_;
  const std::function<void(void*, const void*, const void*, size_t)> reduce_;
  const std::array<std::unique_ptr<std::byte[]>, 2> partial_;  // by step modulo 2
  Own own_;
  Segments begun_, receiving_;
  std::array<Segments, 2> onward_;
};

// Chunk by chunk; the first messages of the next chunk travel while one goes round.
void ReduceScatter(const Communication& c, const Operands& at, const ContextPtr& context, host::Mover& mover) {
  const int n = context->size;
  const int64_t block = c.out.bytes().value(), chunks = (block + kChunk - 1) / kChunk;
  std::array<std::optional<RingChunk>, 2> rings;
  const auto begin = [&](int64_t number) {
    std::optional<RingChunk>& ring = rings[static_cast<size_t>(number % 2)];
    const int64_t first = number * kChunk, size = std::min(kChunk, block - first);
    if (!ring) ring.emplace(context, size, c.out.dtype(), c.op);
    ring->Begin([&at, n, block, first](int of) { return at.in + ((of % n) + n) % n * block + first; }, size);
  };
  begin(0);
  for (int64_t number = 0; number < chunks; ++number) {
    if (number + 1 < chunks) begin(number + 1);
    rings[static_cast<size_t>(number % 2)]->Finish(at.out + number * kChunk);
  }
  DivideIfMean(c, at.out, c.out.numel(), n, mover);
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

int Communicate(const Communication& c, const Operands& at, const ContextPtr& context, host::Mover& mover) {
  if (!c.is_collective()) return RunMessages(c, at, context);
  if (MovesNothing(c)) return -1;
  switch (c.kind) {
    case Communication::kAllReduce: AllReduce(c, at, context, mover); break;
    case Communication::kAllGather: AllGather(c, at, context); break;
    case Communication::kReduceScatter: ReduceScatter(c, at, context, mover); break;
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
