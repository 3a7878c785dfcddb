// Conversions between element types, and the two views through which kernels see tensors of any float type.
//
// A kernel is written once for A = float and once for A = double, and works on pieces of at most kChunk elements. If a
// tensor's type is A itself, the views return its own memory; otherwise they convert through a buffer of one piece that
// stays in the L1 cache. So BF16 and F16 are read as float, computed in float and rounded once.
#pragma once

#include <cstdint>
#include <type_traits>

#include "core/tensor/dtype.h"
#include "core/tensor/tensor.h"

namespace twofold::cpu {

inline constexpr int64_t kChunk = 1024;

// Converts one value. bf16 and f16 go through float; floats become integers by truncation and must fit.
template <class To, class From>
To ConvertTo(From x) {
  constexpr bool kNarrowTo = std::is_same_v<To, BF16> || std::is_same_v<To, F16>;
  constexpr bool kNarrowFrom = std::is_same_v<From, BF16> || std::is_same_v<From, F16>;
  if constexpr (std::is_same_v<To, From>)
    return x;
  else if constexpr (kNarrowFrom)
    return ConvertTo<To>(static_cast<float>(x));
  else if constexpr (kNarrowTo)
    return To(static_cast<float>(x));
  else
    return static_cast<To>(x);
}

// Converts n values. `in` and `out` may be the same memory only if the types are equal.
void Convert(const void* in, DType from, void* out, DType to, int64_t n);

// Calls f.operator()<T>() with the C++ type of `t`.
template <class F>
decltype(auto) VisitType(DType t, F&& f) {
  switch (t) {
    case DType::kF64: return f.template operator()<double>();
    case DType::kF32: return f.template operator()<float>();
    case DType::kBF16: return f.template operator()<BF16>();
    case DType::kF16: return f.template operator()<F16>();
    case DType::kI32: return f.template operator()<int32_t>();
    case DType::kU8: return f.template operator()<uint8_t>();
  }
  __builtin_unreachable();
}

// Calls f.operator()<A>() with the type in which a float tensor of type `t` is computed: double for F64, else float.
template <class F>
decltype(auto) VisitWide(DType t, F&& f) {
  TWOFOLD_CHECK(IsFloat(t), "arithmetic is on float tensors");
  return t == DType::kF64 ? f.template operator()<double>() : f.template operator()<float>();
}

inline void* AddressOf(const Tensor& t, int64_t element) {
  return static_cast<char*>(t.raw()) + element * ElementSize(t.dtype());
}

// Reads a tensor as A.
template <class A>
class Source {
 public:
  explicit Source(const Tensor& t) : data_(static_cast<const char*>(t.raw())), dtype_(t.dtype()) {}
  // Elements [first, first + n), n <= kChunk: the tensor's own memory, or converted into `buffer`.
  const A* At(int64_t first, int64_t n, A* buffer) const {
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
  A* At(int64_t first, A* buffer) const { return dtype_ == DTypeOf<A>::value ? static_cast<A*>(Raw(first)) : buffer; }
  void Put(int64_t first, int64_t n, const A* values) const {
    if (values != Raw(first)) Convert(values, DTypeOf<A>::value, Raw(first), dtype_, n);
  }

 private:
  void* Raw(int64_t first) const { return data_ + first * ElementSize(dtype_); }
  char* data_;
  DType dtype_;
};

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
