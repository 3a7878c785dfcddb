// Communications as blocking calls of Gloo.
//
//   Gloo's   all_reduce (ring), all_gather, broadcast, reduce, gather, scatter, all_to_all, barrier
//   ours     reduce_scatter (reduce_scatter.h); all_to_all_v: a message between each two ranks, all at once
//
// A message (messages.h) is preceded by its size, and a short one travels together with it. So a receiver that expects
// another size reports that. A send ends when the receiver has taken the message.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <vector>

#include "backends/gloo/context.h"
#include "backends/gloo/reduce_scatter.h"
#include "backends/host/mover.h"
#include "core/comm/communication.h"

namespace twofold::gloo {

// A received message has another size than expected: the ranks' calls do not match.
struct SizeMismatch : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The operands' memory. Taken when a communication is issued, because a borrowed tensor loses its address once the rank
// releases it.
struct Operands {
  Operands() = default;
  explicit Operands(const Communication& c);
  std::byte *in = nullptr, *out = nullptr;
  std::vector<std::byte*> batch;
};

// Executes `c` on the calling thread, among the context's ranks. Returns when this rank's part is done: the sender of a
// receive, else -1. Throws SizeMismatch or ::gloo::Exception. One call at a time on a context.
// `reduce_scatter`: the context's.
int Communicate(const Communication& c, const Operands& at, const ContextPtr& context, host::Mover& mover,
                ReduceScatter& reduce_scatter);

// The bytes of all ranks, indexed by rank; they may differ in size.
std::vector<std::string> AllGatherBytes(const std::string& bytes, const ContextPtr& context);

}  // namespace twofold::gloo
