// reduce_scatter among the ranks of a Gloo context, by pairwise exchange: every rank sends each other rank its part of
// that rank's block, straight from the input, and reduces what arrives for its own. (The algorithm for long messages
// of Thakur, Rabenseifner and Gropp 2005, "Optimization of Collective Communication Operations in MPICH", section
// 4.3.) No rank passes anything on, so nothing is rounded on the way: values are combined in the order of the ranks,
// BF16 and F16 in F32, and rounded once.
//
// Blocks travel in parts. While one is reduced, Gloo's thread receives the next. Receives are posted ahead of the
// calls, because Gloo sends nothing that nobody has asked for: a rank that asks only when it is called costs its peers'
// threads a turn for each part.
#pragma once

#include <gloo/transport/unbound_buffer.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "backends/gloo/context.h"
#include "core/comm/reduce_op.h"
#include "core/tensor/dtype.h"

namespace twofold::gloo {

// Of one context, whose ranks' calls must match. One call at a time.
class ReduceScatter {
 public:
  struct Call {
    const std::byte* in;  // a block for every rank
    std::byte* out;       // this rank's result; may be its block of `in`
    int64_t block;        // bytes, more than 0
    DType dtype;
    ReduceOp op;
  };
  // Returns when this rank has its result and the others have taken its blocks.
  void operator()(const Call& call, const ContextPtr& context);

 private:
  using Buffer = ::gloo::transport::UnboundBuffer;

  void Prepare(const ContextPtr& context);
  void Receive(int64_t number);
  void Send(const Call& call, int64_t first, int64_t size, Buffer& in) const;
  void Reduce(const Call& call, int64_t first, int64_t size, int64_t number);
  int From(int distance) const { return (rank_ + size_ - distance) % size_; }
  Buffer& Arriving(int64_t number, int distance) {
    return *arriving_[static_cast<size_t>(number % depth_ * (size_ - 1) + distance - 1)];
  }

  int rank_ = 0, size_ = 0;  // size_ 0: not prepared
  int64_t part_ = 0;         // bytes at most
  int64_t depth_ = 0;        // parts that each rank may send ahead
  int64_t number_ = 0;       // parts of all calls before
  std::unique_ptr<std::byte[]> memory_;
  std::vector<std::unique_ptr<Buffer>> arriving_;  // by part's number modulo depth_, then by distance
  std::vector<const void*> inputs_;                // by rank
};

}  // namespace twofold::gloo
