#include "backends/gloo/reduce_scatter.h"

#include <algorithm>

#include "kernels/cpu/reduce.h"

namespace twofold::gloo {
namespace {

constexpr uint64_t kSlot = uint64_t{0x42} << 56;  // beside those of messages.cc
// In bytes: of a part, and of all parts for which receives are posted. Memory that nothing has arrived in costs none.
constexpr int64_t kLargest = 1 << 20, kSmallest = 16 << 10, kAll = 8 << 20;
constexpr int64_t kLeastDepth = 4;

size_t Size(int64_t bytes) { return static_cast<size_t>(bytes); }

}  // namespace

// Posts receives of the first parts. All ranks choose the same sizes.
void ReduceScatter::Prepare(const ContextPtr& context) {
  rank_ = context->rank, size_ = context->size;
  const int64_t each = kAll / (size_ - 1);  // for each of the others
  part_ = std::clamp(each / kLeastDepth / kSmallest * kSmallest, kSmallest, kLargest);
  depth_ = std::max(each / part_, kLeastDepth);
  memory_ = std::make_unique_for_overwrite<std::byte[]>(Size(depth_ * (size_ - 1) * part_));
  for (int64_t i = 0; i < depth_ * (size_ - 1); ++i)
    arriving_.push_back(context->createUnboundBuffer(memory_.get() + i * part_, Size(part_)));
  for (int64_t number = 0; number < depth_; ++number) Receive(number);
}

// A part may be smaller than its memory.
void ReduceScatter::Receive(int64_t number) {
  for (int distance = 1; distance < size_; ++distance)
    Arriving(number, distance).recv(From(distance), kSlot, 0, Size(part_));
}

void ReduceScatter::Send(const Call& call, int64_t first, int64_t size, Buffer& in) const {
  for (int distance = 1; distance < size_; ++distance) {
    const int to = (rank_ + distance) % size_;
    in.send(to, kSlot, Size(to * call.block + first), Size(size));
  }
}

void ReduceScatter::Reduce(const Call& call, int64_t first, int64_t size, int64_t number) {
  inputs_.assign(Size(size_), call.in + rank_ * call.block + first);
  for (int distance = 1; distance < size_; ++distance) {
    Arriving(number, distance).waitRecv();
    inputs_[Size(From(distance))] = Arriving(number, distance).ptr;
  }
  void* const to = call.out + first;
  cpu::ReduceSlices(inputs_, {&to, 1}, call.dtype, call.op, 0, size / ElementSize(call.dtype));
}

void ReduceScatter::operator()(const Call& call, const ContextPtr& context) {
  if (size_ == 0) Prepare(context);
  const std::unique_ptr<Buffer> in = context->createUnboundBuffer(const_cast<std::byte*>(call.in),  // only read
                                                                  Size(call.block * size_));
  for (int64_t first = 0; first < call.block; first += part_)
    Send(call, first, std::min(part_, call.block - first), *in);
  int64_t sent = 0;
  for (int64_t first = 0; first < call.block; first += part_, ++number_, sent += size_ - 1) {
    Reduce(call, first, std::min(part_, call.block - first), number_);
    Receive(number_ + depth_);
  }
  for (; sent > 0; --sent) in->waitSend();
}

}  // namespace twofold::gloo
