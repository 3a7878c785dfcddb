// One function per operation: its arithmetic on the CPU, done when the call returns. Shapes have been checked before.
#pragma once

#include <array>
#include <cstddef>
#include <cstring>
#include <span>
#include <tuple>
#include <type_traits>

#include "core/base/check.h"
#include "core/device/ops.h"
#include "kernels/cpu/convert.h"
#include "kernels/cpu/thread_pool.h"

namespace twofold::cpu {

// The scratch memory of one operation, allocated from its start in multiples of 16 elements. CpuWorkspace in
// core/device/ops/ defines its size.
class Scratch {
 public:
  explicit Scratch(std::span<std::byte> memory) : left_(memory) {}
  template <class A>
  A* Take(int64_t elements) {
    const size_t bytes = static_cast<size_t>((elements + 15) / 16 * 16) * sizeof(A);
    TWOFOLD_CHECK_LE(bytes, left_.size());
    A* taken = reinterpret_cast<A*>(left_.data());
    left_ = left_.subspan(bytes);
    return taken;
  }

 private:
  std::span<std::byte> left_;
};

struct Context {
  ThreadPool& pool;
  Scratch scratch;
};

#define TWOFOLD_COMPUTE(Operation) void Compute(const ops::Operation& o, Context& c);
TWOFOLD_OPERATIONS(TWOFOLD_COMPUTE)
#undef TWOFOLD_COMPUTE

// ---- Shared by several kernels ----

// Rows are all dimensions but the last.
inline int64_t Columns(const Tensor& t) { return t.dim(-1); }
inline int64_t Rows(const Tensor& t) { return Columns(t) == 0 ? 0 : t.numel() / Columns(t); }

// f(first, count) for pieces of [begin, end) of at most kChunk elements.
template <class F>
void InChunks(int64_t begin, int64_t end, F&& f) {
  for (int64_t first = begin; first < end; first += kChunk) f(first, end - first < kChunk ? end - first : kChunk);
}

// The same for [0, n), divided among the threads. Fewer than 16 pieces are not worth waking a thread.
template <class F>
void ForChunks(ThreadPool& pool, int64_t n, F&& f) {
  pool.ParallelFor(n, 16 * kChunk, [&f](int64_t begin, int64_t end) { InChunks(begin, end, f); });
}

// The sum over [0, n) of f(first, count), which returns the sum of a piece.
template <class A, class F>
A SumOfChunks(int64_t n, F f) {
  A sum = 0;
  InChunks(0, n, [&](int64_t first, int64_t count) { sum += f(first, count); });
  return sum;
}

// The number of rows that are worth a thread.
inline int64_t RowGrain(int64_t columns) { return columns == 0 ? 1 : (8 * kChunk + columns - 1) / columns; }

// MapChunk(n, out, in..., f): out[i] = f(in[i]...) for i < n. `out` may be one of the inputs. The inputs are rotated
// behind f, because only the last parameters can be a list.
template <class A, class First, class... Others>
void MapChunk(int64_t n, A* out, First first, Others... others) {
  if constexpr (std::is_pointer_v<First>) {
    MapChunk(n, out, others..., first);
  } else {
#pragma omp simd
    for (int64_t i = 0; i < n; ++i) out[i] = first(others[i]...);
  }
}

// Map<A>(pool, out, in..., f): the same for all elements of tensors, computed in A. All must have the same number of
// elements.
template <class A, class First, class... Others>
void Map(ThreadPool& pool, const Tensor& out, const First& first, const Others&... others) {
  if constexpr (std::is_same_v<First, Tensor>) {
    Map<A>(pool, out, others..., first);
  } else {
    const Sink<A> sink(out);
    ForChunks(pool, out.numel(), [&](int64_t begin, int64_t count) {
      A buffers[1 + sizeof...(Others)][kChunk];
      A* to = sink.At(begin, buffers[0]);
      int used = 0;
      const std::array<const A*, sizeof...(Others)> from = {Source<A>(others).At(begin, count, buffers[++used])...};
      std::apply([&](auto... in) { MapChunk(count, to, in..., first); }, from);
      sink.Put(begin, count, to);
    });
  }
}

// The residual addition of a norm on a row [at, at + columns): sum = x + branch, computed in A and rounded once.
// Returns the tensor to normalise.
template <class A>
const Tensor& AddedRow(const Tensor& x, const Tensor& branch, const Tensor& sum, int64_t at, int64_t columns) {
  if (branch.empty()) return x;
  InChunks(at, at + columns, [&](int64_t first, int64_t count) {
    A buffers[3][kChunk];
    const Sink<A> to(sum);
    A* out = to.At(first, buffers[0]);
    MapChunk(count, out, Source<A>(x).At(first, count, buffers[1]), Source<A>(branch).At(first, count, buffers[2]),
             [](A a, A b) { return a + b; });
    to.Put(first, count, out);
  });
  return sum;
}
// values += past at [first, first + count), unless past is empty.
template <class A>
void AddPast(const Tensor& past, int64_t first, int64_t count, A* values) {
  if (past.empty()) return;
  A buffer[kChunk];
  MapChunk(count, values, values, Source<A>(past).At(first, count, buffer), [](A a, A b) { return a + b; });
}

// Sets elements [first, first + n) to zero, for any type.
inline void SetZero(const Tensor& t, int64_t first, int64_t n) {
  if (n > 0) std::memset(AddressOf(t, first), 0, static_cast<size_t>(n * ElementSize(t.dtype())));
}

}  // namespace twofold::cpu
