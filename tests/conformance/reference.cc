#include "tests/conformance/reference.h"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "core/tensor/visit_type.h"

namespace twofold::conformance {
namespace {

constexpr int64_t kBlock = 1024;  // elements; a few blocks of f64 fit into the first-level cache

constexpr uint32_t Mixed(uint32_t h) {  // the finalizer of MurmurHash3
  h = (h ^ (h >> 16)) * 0x85ebca6bu;
  h = (h ^ (h >> 13)) * 0xc2b2ae35u;
  return h ^ (h >> 16);
}

template <class T>
T Element(uint32_t hash, bool near_one) {
  if constexpr (std::is_same_v<T, uint8_t>)
    return static_cast<uint8_t>(hash);
  else if constexpr (std::is_same_v<T, int32_t>)
    return static_cast<int32_t>((hash >> 16) * 200u >> 16) - 100;
  else {
    using F = std::conditional_t<std::is_same_v<T, double>, double, float>;
    const F uniform = static_cast<F>(static_cast<int32_t>(hash >> 8)) * static_cast<F>(0x1p-24);  // [0, 1)
    const F magnitude = static_cast<F>(0.5) + static_cast<F>(1.5) * uniform;
    // The factor fills the mantissa: sums in another order round to other bits.
    const F wide = (uniform * 16 - 8) * static_cast<F>(1.1);
    return T(near_one ? ((hash & 1) != 0 ? -magnitude : magnitude) : wide);
  }
}

template <class T>
void Generate(const Series& s, int64_t first, int64_t count, T* out) {
  const uint32_t seed = Mixed(s.salt * 0x9e3779b9u + static_cast<uint32_t>(s.rank) + 1);
  const bool near_one = s.near_one;
  for (int64_t i = 0; i < count; ++i) {
    out[i] = Element<T>(Mixed(static_cast<uint32_t>(first + i) ^ seed), near_one);
  }
}

template <class T>
constexpr double Epsilon() {
  switch (DTypeOf<T>::value) {
    case DType::kF64: return 0x1p-52;
    case DType::kF32: return 0x1p-23;
    case DType::kBF16: return 0x1p-7;
    case DType::kF16: return 0x1p-10;
    case DType::kI32:
    case DType::kU8: break;
  }
  return 0;
}

template <class T>
std::optional<Difference> FirstDifferent(const T* values, const T* expected, int64_t count, int64_t base) {
  if (std::memcmp(values, expected, static_cast<size_t>(count) * sizeof(T)) == 0) return std::nullopt;
  int64_t i = 0;
  while (std::memcmp(values + i, expected + i, sizeof(T)) == 0) ++i;
  return Difference{base + i, ConvertTo<double>(values[i]), ConvertTo<double>(expected[i]), 0};
}

// Calls compare(values of a block, its length, index of its first element) until one gives a difference.
template <class T, class F>
std::optional<Difference> Blockwise(std::span<const std::byte> bytes, F&& compare) {
  const auto* values = reinterpret_cast<const T*>(bytes.data());
  const auto count = static_cast<int64_t>(bytes.size() / sizeof(T));
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    if (auto difference = compare(values + begin, std::min(kBlock, count - begin), begin)) return difference;
  }
  return std::nullopt;
}

template <class A, class T>
void Combine(ReduceOp op, A* so_far, const T* next, int64_t count) {
  using U = std::conditional_t<std::is_same_v<A, int32_t>, uint32_t, A>;  // sums and products of integers wrap
  auto each = [&](auto combine) {
    for (int64_t i = 0; i < count; ++i) so_far[i] = combine(so_far[i], static_cast<A>(next[i]));
  };
  switch (op) {
    case ReduceOp::kSum:
    case ReduceOp::kAvg: return each([](A a, A b) { return static_cast<A>(static_cast<U>(a) + static_cast<U>(b)); });
    case ReduceOp::kProduct:
      return each([](A a, A b) { return static_cast<A>(static_cast<U>(a) * static_cast<U>(b)); });
    case ReduceOp::kMin: return each([](A a, A b) { return b < a ? b : a; });
    case ReduceOp::kMax: return each([](A a, A b) { return a < b ? b : a; });
  }
}

// `count` elements, and beside them the sums of the inputs' magnitudes.
template <class T>
void Reduce(std::span<const Series> inputs, ReduceOp op, int64_t first, int64_t count, T* out, double* magnitudes) {
  using A = std::conditional_t<sizeof(T) == 2, float, T>;
  alignas(64) T input[kBlock];
  alignas(64) A result[kBlock];
  std::fill_n(magnitudes, count, 0.0);
  for (size_t r = 0; r < inputs.size(); ++r) {
    Generate(inputs[r], first, count, input);
    if (r == 0)
      std::transform(input, input + count, result, [](T x) { return static_cast<A>(x); });
    else
      Combine(op, result, input, count);
    for (int64_t i = 0; i < count; ++i) magnitudes[i] += std::fabs(ConvertTo<double>(input[i]));
  }
  if (op == ReduceOp::kAvg) {
    const A ranks = static_cast<A>(inputs.size());
    for (int64_t i = 0; i < count; ++i) result[i] = static_cast<A>(result[i] / ranks);
  }
  std::transform(result, result + count, out, [](A x) { return static_cast<T>(x); });
}

template <class T>
double Tolerance(ReduceOp op, size_t ranks, double expected, double magnitude) {
  const double n = static_cast<double>(ranks);
  switch (op) {
    case ReduceOp::kSum: return n * Epsilon<T>() * magnitude;
    case ReduceOp::kAvg: return Epsilon<T>() * magnitude;
    case ReduceOp::kProduct: return n * Epsilon<T>() * std::fabs(expected);
    case ReduceOp::kMin:
    case ReduceOp::kMax: break;
  }
  return 0;
}

}  // namespace

void Write(DType dtype, const Series& series, int64_t first, std::span<std::byte> out) {
  VisitType(dtype, [&]<class T>() {
    Generate(series, first, static_cast<int64_t>(out.size() / sizeof(T)), reinterpret_cast<T*>(out.data()));
  });
}

std::optional<Difference> Compare(DType dtype, std::span<const std::byte> values, const Series& series, int64_t first) {
  return VisitType(dtype, [&]<class T>() {
    alignas(64) T expected[kBlock];
    return Blockwise<T>(values, [&](const T* block, int64_t n, int64_t begin) {
      Generate(series, first + begin, n, expected);
      return FirstDifferent(block, expected, n, begin);
    });
  });
}

std::optional<Difference> CompareReduced(DType dtype, std::span<const std::byte> values, std::span<const Series> inputs,
                                         ReduceOp op, int64_t first, bool exact) {
  return VisitType(dtype, [&]<class T>() {
    alignas(64) T expected[kBlock];
    alignas(64) double magnitudes[kBlock];
    return Blockwise<T>(values, [&](const T* block, int64_t n, int64_t begin) -> std::optional<Difference> {
      Reduce(inputs, op, first + begin, n, expected, magnitudes);
      if (exact || !IsFloat(dtype)) return FirstDifferent(block, expected, n, begin);
      for (int64_t i = 0; i < n; ++i) {
        const double value = ConvertTo<double>(block[i]), right = ConvertTo<double>(expected[i]);
        const double tolerance = Tolerance<T>(op, inputs.size(), right, magnitudes[i]);
        if (!(std::fabs(value - right) <= tolerance)) return Difference{begin + i, value, right, tolerance};
      }
      return std::nullopt;
    });
  });
}

}  // namespace twofold::conformance
