// Conversions between element types, and the two views through which kernels see tensors of any float type.
//
// A kernel is written once for A = float and once for A = double, and works on pieces of at most kChunk elements. If a
// tensor's type is A itself, the views return its own memory; otherwise they convert through a buffer of one piece that
// stays in the L1 cache. So BF16 and F16 are read as float, computed in float and rounded once.
#pragma once

#include <cstdint>
#include <span>

#include "core/tensor/dtype.h"
#include "core/tensor/tensor.h"
#include "core/tensor/visit_type.h"

namespace twofold::cpu {

inline constexpr int64_t kChunk = 1024;

// Converts n values. `in` and `out` may be the same memory only if the types are equal.
void Convert(const void* in, DType from, void* out, DType to, int64_t n);

// Calls f.operator()<A>() with the type in which a float tensor of type `t` is computed: double for F64, else float.
template <class F>
decltype(auto) VisitWide(DType t, F&& f) {
  TWOFOLD_CHECK(IsFloat(t), "arithmetic is on float tensors");
  return t == DType::kF64 ? f.template operator()<double>() : f.template operator()<float>();
}

inline void* AddressOf(const Tensor& t, int64_t element) {
  return static_cast<char*>(t.raw()) + element * ElementSize(t.dtype());
}

// Source and Sink are always inlined: a piece of kChunk elements takes some 50 ns, of which calls would be a part.
// Where many kernels are compiled together, the compiler's limit on a unit's growth would make them calls.
#define TWOFOLD_INLINE inline __attribute__((always_inline))

// Reads a tensor as A.
template <class A>
class Source {
 public:
  explicit Source(const Tensor& t) : data_(static_cast<const char*>(t.raw())), dtype_(t.dtype()) {}
  // Elements [first, first + n), n <= kChunk: the tensor's own memory, or converted into `buffer`.
  TWOFOLD_INLINE const A* At(int64_t first, int64_t n, A* buffer) const {
    const void* from = data_ + first * ElementSize(dtype_);
    if (dtype_ == DTypeOf<A>::value) return static_cast<const A*>(from);
    Convert(from, dtype_, buffer, DTypeOf<A>::value, n);
    return buffer;
  }

 private:
  const char* data_;
  DType dtype_;
};

// Writes a tensor from A: compute into the memory that At returns, then call Put with it.
template <class A>
class Sink {
 public:
  explicit Sink(const Tensor& t) : data_(static_cast<char*>(t.raw())), dtype_(t.dtype()) {}
  TWOFOLD_INLINE A* At(int64_t first, A* buffer) const {
    return dtype_ == DTypeOf<A>::value ? static_cast<A*>(Raw(first)) : buffer;
  }
  TWOFOLD_INLINE void Put(int64_t first, int64_t n, const A* values) const {
    if (values != Raw(first)) Convert(values, DTypeOf<A>::value, Raw(first), dtype_, n);
  }

 private:
  void* Raw(int64_t first) const { return data_ + first * ElementSize(dtype_); }
  char* data_;
  DType dtype_;
};

#undef TWOFOLD_INLINE

// out[first, first + n) = values, or += values; the sum is computed in A and rounded once. n <= kChunk.
template <class A>
void StoreOrAdd(const Tensor& out, int64_t first, int64_t n, const A* values, bool accumulate) {
  if (!accumulate) return Convert(values, DTypeOf<A>::value, AddressOf(out, first), out.dtype(), n);
  A buffer[kChunk];
  const A* old = Source<A>(out).At(first, n, buffer);
  A sum[kChunk];
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) sum[i] = old[i] + values[i];
  Convert(sum, DTypeOf<A>::value, AddressOf(out, first), out.dtype(), n);
}

}  // namespace twofold::cpu
