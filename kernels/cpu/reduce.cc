#include "kernels/cpu/reduce.h"

#include <algorithm>
#include <type_traits>

#include "core/base/check.h"
#include "kernels/cpu/convert.h"

namespace twofold::cpu {
namespace {

// The type in which elements of type T are combined. Unsigned, so that integers wrap; comparisons are those of T.
template <class T>
using Accumulator = std::conditional_t<std::is_same_v<T, BF16> || std::is_same_v<T, F16>, float,
                                       std::conditional_t<std::is_same_v<T, int32_t>, uint32_t, T>>;

template <class T>
const Accumulator<T>* Read(const void* input, int64_t first, int64_t n, Accumulator<T>* buffer) {
  const T* from = static_cast<const T*>(input) + first;
  if constexpr (std::is_same_v<Accumulator<T>, float> && !std::is_same_v<T, float>) {
    Convert(from, DTypeOf<T>::value, buffer, DType::kF32, n);
    return buffer;
  } else {
    return reinterpret_cast<const Accumulator<T>*>(from);
  }
}

template <class A, class F>
void CombineInto(int64_t n, const A* a, const A* b, A* out, F f) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) out[i] = f(a[i], b[i]);
}

// Calls use(f) with the function that combines two values of T.
template <class T, class Use>
void VisitOp(ReduceOp op, Use use) {
  using A = Accumulator<T>;
  using Ordered = std::conditional_t<std::is_same_v<T, int32_t>, int32_t, A>;
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kAvg: return use([](A a, A b) { return static_cast<A>(a + b); });
    case ReduceOp::kProduct: return use([](A a, A b) { return static_cast<A>(a * b); });
    case ReduceOp::kMin: return use([](A a, A b) { return static_cast<Ordered>(b) < static_cast<Ordered>(a) ? b : a; });
    case ReduceOp::kMax: return use([](A a, A b) { return static_cast<Ordered>(a) < static_cast<Ordered>(b) ? b : a; });
  }
}

template <class T>
void Divide(Accumulator<T>* values, int64_t n, int64_t by) {
  using A = Accumulator<T>;
  const T divisor = ConvertTo<T>(static_cast<float>(by));
  for (int64_t i = 0; i < n; ++i) {
    if constexpr (std::is_floating_point_v<A>)
      values[i] = values[i] / static_cast<A>(by);
    else
      values[i] = static_cast<A>(static_cast<T>(values[i]) / divisor);
  }
}

template <class T>
void ReduceChunk(std::span<const void* const> inputs, std::span<void* const> outputs, ReduceOp op, int64_t first,
                 int64_t n) {
  using A = Accumulator<T>;
  A sum[kChunk], buffer[kChunk];
  const A* result = Read<T>(inputs[0], first, n, sum);
  VisitOp<T>(op, [&](auto combine) {
    for (const void* input : inputs.subspan(1)) {
      CombineInto(n, result, Read<T>(input, first, n, buffer), sum, combine);
      result = sum;
    }
  });
  if (result != sum) result = std::copy_n(result, n, sum) - n;  // an output may alias this input
  if (op == ReduceOp::kAvg) Divide<T>(sum, n, static_cast<int64_t>(inputs.size()));
  for (void* output : outputs) {
    T* to = static_cast<T*>(output) + first;
    if constexpr (sizeof(A) == sizeof(T))
      std::copy_n(reinterpret_cast<const T*>(sum), n, to);
    else
      Convert(sum, DType::kF32, to, DTypeOf<T>::value, n);
  }
}

}  // namespace

void DivideAll(void* values, DType dtype, int64_t count, int64_t by) {
  VisitType(dtype, [&]<class T>() {
    using A = Accumulator<T>;
    A buffer[kChunk];
    for (int64_t at = 0; at < count; at += kChunk) {
      const int64_t n = std::min(kChunk, count - at);
      T* const piece = static_cast<T*>(values) + at;
      if constexpr (sizeof(A) == sizeof(T)) {
        Divide<T>(reinterpret_cast<A*>(piece), n, by);
      } else {
        Divide<T>(const_cast<A*>(Read<T>(values, at, n, buffer)), n, by);
        Convert(buffer, DType::kF32, piece, DTypeOf<T>::value, n);
      }
    }
  });
}

void ReduceSlices(std::span<const void* const> inputs, std::span<void* const> outputs, DType dtype, ReduceOp op,
                  int64_t first, int64_t count) {
  TWOFOLD_CHECK(!inputs.empty(), "a reduction has at least one input");
  VisitType(dtype, [&]<class T>() {
    for (int64_t at = first; at < first + count; at += kChunk) {
      ReduceChunk<T>(inputs, outputs, op, at, std::min(kChunk, first + count - at));
    }
  });
}

}  // namespace twofold::cpu
