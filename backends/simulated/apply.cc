#include "backends/simulated/apply.h"

#include <cstddef>
#include <cstring>
#include <vector>

#include "kernels/cpu/reduce.h"

namespace twofold {
namespace {

using Calls = std::span<const Communication* const>;

void Copy(const Tensor& from, int64_t from_first, const Tensor& to, int64_t to_first, int64_t count) {
  const int64_t size = ElementSize(from.dtype());
  std::memmove(static_cast<std::byte*>(to.raw()) + to_first * size,
               static_cast<const std::byte*>(from.raw()) + from_first * size, static_cast<size_t>(count * size));
}

// Reduces elements [first, first + count) of every input into elements 0... of each output.
void ReduceInto(Calls calls, int64_t first, int64_t count, std::span<void* const> outputs) {
  std::vector<const void*> inputs;
  const int64_t size = ElementSize(calls[0]->in.dtype());
  for (const Communication* c : calls) inputs.push_back(static_cast<const std::byte*>(c->in.raw()) + first * size);
  cpu::ReduceSlices(inputs, outputs, calls[0]->in.dtype(), calls[0]->op, 0, count);
}

void AllReduce(Calls calls) {
  std::vector<void*> outputs;
  for (const Communication* c : calls) outputs.push_back(c->out.raw());
  ReduceInto(calls, 0, calls[0]->in.numel(), outputs);
}

void Reduce(Calls calls) {
  void* outputs[] = {calls[static_cast<size_t>(calls[0]->peer)]->out.raw()};
  ReduceInto(calls, 0, calls[0]->in.numel(), outputs);
}

// A shard may lie in its rank's input, which others still read, so it is written at the end.
void ReduceScatter(Calls calls) {
  const int64_t shard = calls[0]->out.numel();
  if (shard == 0) return;
  const size_t bytes = static_cast<size_t>(shard * ElementSize(calls[0]->out.dtype()));
  std::vector<std::vector<std::byte>> results(calls.size(), std::vector<std::byte>(bytes));
  for (size_t r = 0; r < calls.size(); ++r) {
    void* outputs[] = {results[r].data()};
    ReduceInto(calls, static_cast<int64_t>(r) * shard, shard, outputs);
  }
  for (size_t r = 0; r < calls.size(); ++r) std::memcpy(calls[r]->out.raw(), results[r].data(), bytes);
}

void AllToAllV(Calls calls) {
  for (size_t to = 0; to < calls.size(); ++to) {
    int64_t out_first = 0;
    for (size_t from = 0; from < calls.size(); ++from) {
      int64_t in_first = 0;
      for (size_t k = 0; k < to; ++k) in_first += calls[from]->in_counts[k];
      const int64_t count = calls[to]->out_counts[from];
      Copy(calls[from]->in, in_first, calls[to]->out, out_first, count);
      out_first += count;
    }
  }
}

}  // namespace

void ApplyCollective(Calls calls) {
  const Communication& first = *calls[0];
  const auto n = static_cast<int64_t>(calls.size());
  const size_t root = static_cast<size_t>(first.peer);
  switch (first.kind) {
    case Communication::kAllReduce: return AllReduce(calls);
    case Communication::kReduce: return Reduce(calls);
    case Communication::kReduceScatter: return ReduceScatter(calls);
    case Communication::kAllToAllV: return AllToAllV(calls);
    case Communication::kAllGather:
      for (const Communication* to : calls) {
        for (int64_t r = 0; r < n; ++r) {
          const Tensor& shard = calls[static_cast<size_t>(r)]->in;
          Copy(shard, 0, to->out, r * shard.numel(), shard.numel());
        }
      }
      return;
    case Communication::kBroadcast:
      for (size_t r = 0; r < calls.size(); ++r) {
        if (r != root) Copy(calls[root]->in, 0, calls[r]->out, 0, first.in.numel());
      }
      return;
    case Communication::kGather:
      for (int64_t r = 0; r < n; ++r) {
        const Tensor& shard = calls[static_cast<size_t>(r)]->in;
        Copy(shard, 0, calls[root]->out, r * shard.numel(), shard.numel());
      }
      return;
    case Communication::kScatter:
      for (int64_t r = 0; r < n; ++r) {
        const Tensor& shard = calls[static_cast<size_t>(r)]->out;
        Copy(calls[root]->in, r * shard.numel(), shard, 0, shard.numel());
      }
      return;
    case Communication::kAllToAll: {
      const int64_t block = first.in.numel() / n;
      for (int64_t to = 0; to < n; ++to) {
        for (int64_t from = 0; from < n; ++from) {
          Copy(calls[static_cast<size_t>(from)]->in, to * block, calls[static_cast<size_t>(to)]->out, from * block,
               block);
        }
      }
      return;
    }
    default: return;  // a barrier moves nothing
  }
}

}  // namespace twofold
