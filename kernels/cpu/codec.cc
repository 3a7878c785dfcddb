// Gradient codecs.
#include <algorithm>
#include <bit>
#include <cmath>
#include <type_traits>
#include <vector>

#include "core/base/philox.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/vector_math.h"

namespace twofold::cpu {
namespace {

using ops::kSignBlock;

template <class F>
void VisitFloat(DType t, F&& f) {
  TWOFOLD_CHECK(IsFloat(t), "codecs are for float tensors");
  VisitType(t, [&]<class T>() {
    if constexpr (!std::is_integral_v<T>) f.template operator()<T>();
  });
}

// ---- Top-k ----

// The bits of |x|: as integers they sort like the numbers, with NaN last.
template <class T>
uint64_t SizeOf(T x) {
  using Narrow = std::conditional_t<sizeof(T) == 2, uint16_t, uint32_t>;
  const uint64_t bits = std::bit_cast<std::conditional_t<sizeof(T) == 8, uint64_t, Narrow>>(x);
  return bits & ((uint64_t{1} << (8 * sizeof(T) - 1)) - 1);
}

// Defines the k largest: all elements above `size`, and the first `ties` elements of that size.
struct Least {
  uint64_t size;
  int64_t ties;
};

// Radix select, from the top digit: among the elements whose upper digits equal those of the k-th largest, counts how
// many have each next digit.
template <class T>
Least LeastOf(const T* in, int64_t n, int64_t k) {
  uint64_t upper = 0;
  for (int high = 8 * sizeof(T) - 1; high > 0;) {
    const int low = std::max(high - ops::rules::kTopKDigit, 0);
    const uint64_t mask = (uint64_t{1} << (high - low)) - 1;
    int64_t count[ops::rules::kTopKBins] = {};
    for (int64_t i = 0; i < n; ++i) {
      const uint64_t size = SizeOf(in[i]);
      if (size >> high == upper) ++count[size >> low & mask];
    }
    uint64_t digit = mask;
    for (; digit > 0 && count[digit] < k; --digit) k -= count[digit];
    upper = upper << (high - low) | digit;
    high = low;
  }
  return {upper, k};
}

template <class T>
void TakeLargest(const ops::TopK& o) {
  const int64_t n = o.in.numel(), k = o.values.numel();
  const T* in = o.in.data<T>();
  T* residual = o.residual.empty() ? nullptr : o.residual.data<T>();
  T* values = o.values.data<T>();
  int32_t* indices = o.indices.data<int32_t>();
  Least least = k == 0 ? Least{~uint64_t{0}, 0} : LeastOf(in, n, k);
  int64_t taken = 0;
  for (int64_t i = 0; i < n; ++i) {
    const T x = in[i];
    const uint64_t size = SizeOf(x);
    const bool take = size > least.size || (size == least.size && least.ties-- > 0);
    if (take) {
      values[taken] = x;
      indices[taken++] = static_cast<int32_t>(i);
    }
    if (residual != nullptr) residual[i] = take ? T() : x;
  }
  TWOFOLD_CHECK_EQ(taken, k);
}

// ---- Indices ----

// index[i], checked to lie in the tensor.
int64_t PlaceAt(const int32_t* indices, int64_t i, const Tensor& in) {
  TWOFOLD_CHECK_GE(indices[i], 0);
  TWOFOLD_CHECK_LT(indices[i], in.numel());
  return indices[i];
}

// ---- 8 and 4 bits ----

// Levels on either side of zero.
constexpr int LevelsOf(int bits) { return (1 << (bits - 1)) - 1; }

template <class A>
struct Levels {
  A scale, inverse;  // inverse: 0 if everything decodes to zero or to a non-finite value
  bool finite;
};
template <class A>
Levels<A> LevelsFor(A largest, A levels) {
  if (!(largest <= std::numeric_limits<A>::max())) return {largest, 0, false};
  const A inverse = levels / largest;
  if (!(inverse <= std::numeric_limits<A>::max())) return {0, 0, true};
  return {largest / levels, inverse, true};
}

template <class A>
void QuantiseBlock(const ops::Quantise& o, int64_t block) {
  const int64_t first = block * o.block, count = std::min(o.block, o.in.numel() - first);
  const int most = LevelsOf(o.bits);
  A buffer[kChunk], left[kChunk];
  const A* x = Source<A>(o.in).At(first, count, buffer);
  A largest = 0;
  for (int64_t i = 0; i < count; ++i) {
    const A size = std::abs(x[i]);
    largest = size > largest || size != size ? size : largest;
  }
  const Levels<A> levels = LevelsFor(largest, A(most));
  uint8_t* out = o.codes.data<uint8_t>() + ops::CodeBytes(first, o.bits);
  uint8_t halves[kChunk];
  uint8_t* codes = o.bits == 8 ? out : halves;
  for (int64_t i = 0; i < count; ++i) {
    const A level = x[i] * levels.inverse;
    A rounded = o.stochastic ? std::floor(level + A(UniformAt(o.key, static_cast<uint64_t>(o.where.Of(first + i)))))
                             : std::nearbyint(level);
    rounded = std::clamp(rounded, A(-most), A(most));
    if (!levels.finite) rounded = 1;
    codes[i] = static_cast<uint8_t>(static_cast<int>(rounded) + most + 1);
    left[i] = x[i] - rounded * levels.scale;
  }
  if (o.bits == 4) {
    if (count % 2 != 0) halves[count] = 0;
    for (int64_t i = 0; i < count; i += 2) out[i / 2] = static_cast<uint8_t>(halves[i] | halves[i + 1] << 4);
  }
  o.scales.data<A>()[block] = levels.scale;
  if (!o.residual.empty()) Sink<A>(o.residual).Put(first, count, left);
}

// One scale, of either type.
template <class A>
A ScaleAt(const Tensor& scales, int64_t block) {
  return scales.dtype() == DType::kF64 ? static_cast<A>(scales.data<double>()[block])
                                       : static_cast<A>(scales.data<float>()[block]);
}

// out[first, ...) of each block = value(first, i, the block's scale).
template <class F>
void DecodeBlocks(const Tensor& scales, const Tensor& out, bool accumulate, int64_t block_size, ThreadPool& pool,
                  F value) {
  VisitWide(out.dtype(), [&]<class A>() {
    pool.ParallelForEach(scales.numel(), 16 * kChunk / block_size, [&](int64_t block) {
      const int64_t first = block * block_size, count = std::min(block_size, out.numel() - first);
      const A scale = ScaleAt<A>(scales, block);
      A decoded[kChunk];
      for (int64_t i = 0; i < count; ++i) decoded[i] = value(first + i, scale);
      StoreOrAdd(out, first, count, decoded, accumulate);
    });
  });
}

// ---- 1 bit ----

template <class A>
void PackBlock(const ops::SignPack& o, int64_t block) {
  const int64_t first = block * kSignBlock, count = std::min(kSignBlock, o.in.numel() - first);
  A buffer[kChunk], left[kChunk];
  const A* x = Source<A>(o.in).At(first, count, buffer);
  const A scale = SumOf<A>(count, [x](int64_t i) { return std::abs(x[i]); }) / static_cast<A>(count);
  uint8_t* signs = o.signs.data<uint8_t>() + first / 8;
  for (int64_t i = 0; i < count; i += 8) {
    unsigned byte = 0;
    for (int64_t j = i; j < std::min(i + 8, count); ++j) {
      byte |= static_cast<unsigned>(x[j] < 0) << (j - i);
      left[j] = x[j] < 0 ? x[j] + scale : x[j] - scale;
    }
    signs[i / 8] = static_cast<uint8_t>(byte);
  }
  o.scales.data<A>()[block] = scale;
  if (!o.residual.empty()) Sink<A>(o.residual).Put(first, count, left);
}

// ---- Low rank ----

// sums[k] = the product of columns j and k, for k from `first` to `last`.
template <class A>
void DotsOf(const A* x, int64_t rows, int64_t columns, int64_t j, int64_t first, int64_t last, double* sums) {
  std::fill(sums + first, sums + last, 0);
  for (int64_t i = 0; i < rows; ++i) {
    const A* row = x + i * columns;
    for (int64_t k = first; k < last; ++k) sums[k] += static_cast<double>(row[j]) * static_cast<double>(row[k]);
  }
}

// Takes the directions of the columns before j out of column j, and returns its squared norm.
template <class A>
double Project(A* x, int64_t rows, int64_t columns, int64_t j, double* sums) {
  DotsOf(x, rows, columns, j, 0, j, sums);
  double squares = 0;
  for (int64_t i = 0; i < rows; ++i) {
    A* row = x + i * columns;
    double left = static_cast<double>(row[j]);
    for (int64_t k = 0; k < j; ++k) left -= sums[k] * static_cast<double>(row[k]);
    row[j] = static_cast<A>(left);
    squares += left * left;
  }
  return squares;
}

template <class A>
void Orthonormalise(A* x, int64_t rows, int64_t columns) {
  std::vector<double> space(static_cast<size_t>(columns));
  double* const sums = space.data();
  for (int64_t j = 0; j < columns; ++j) {
    DotsOf(x, rows, columns, j, j, j + 1, sums);
    const double before = sums[j];
    if (const double after = Project(x, rows, columns, j, sums); before == 0 || after < before / 4) {
      for (int64_t i = 0; i < rows; ++i) x[i * columns + j] = static_cast<A>(ops::rules::OrthogonaliseDraw(i, j));
      for (int time = 0; time < 2; ++time) Project(x, rows, columns, j, sums);
    }
    DotsOf(x, rows, columns, j, j, columns, sums);
    const double inverse = 1 / std::sqrt(sums[j]);
    for (int64_t i = 0; i < rows; ++i) {  // a unit vector, whose direction is taken out of the columns after it
      A* row = x + i * columns;
      const double unit = static_cast<double>(row[j]) * inverse;
      row[j] = static_cast<A>(unit);
      for (int64_t k = j + 1; k < columns; ++k)
        row[k] = static_cast<A>(static_cast<double>(row[k]) - unit * (sums[k] * inverse));
    }
  }
}

}  // namespace

void Compute(const ops::TopK& o, Context&) {
  VisitFloat(o.in.dtype(), [&]<class T>() { TakeLargest<T>(o); });
}

void Compute(const ops::RandomPlaces& o, Context& c) {
  int32_t* out = o.out.data<int32_t>();
  ForChunks(c.pool, o.out.numel(), [&](int64_t first, int64_t count) {
    for (int64_t i = first; i < first + count; ++i) out[i] = static_cast<int32_t>(ops::rules::PlaceOf(i, o.n, o.key));
  });
}

void Compute(const ops::GatherElements& o, Context& c) {
  VisitFloat(o.in.dtype(), [&]<class T>() {
    const T* in = o.in.data<T>();
    const int32_t* indices = o.indices.data<int32_t>();
    T* values = o.values.data<T>();
    ForChunks(c.pool, o.values.numel(), [&](int64_t first, int64_t count) {
      for (int64_t i = first; i < first + count; ++i) values[i] = in[PlaceAt(indices, i, o.in)];
    });
  });
}

void Compute(const ops::ScatterElements& o, Context& c) {
  const int32_t* indices = o.indices.data<int32_t>();
  VisitFloat(o.out.dtype(), [&]<class T>() {
    using A = std::conditional_t<std::is_same_v<T, double>, double, float>;
    T* out = o.out.data<T>();
    ForChunks(c.pool, o.indices.numel(), [&](int64_t first, int64_t count) {
      A buffer[kChunk] = {};
      const A* values = o.values.empty() ? buffer : Source<A>(o.values).At(first, count, buffer);
      for (int64_t i = 0; i < count; ++i) {
        T& to = out[PlaceAt(indices, first + i, o.out)];
        to = ConvertTo<T>((o.accumulate ? ConvertTo<A>(to) : A(0)) + values[i]);
      }
    });
  });
}

void Compute(const ops::Quantise& o, Context& c) {
  VisitWide(o.in.dtype(), [&]<class A>() {
    c.pool.ParallelForEach(o.scales.numel(), 16 * kChunk / o.block, [&](int64_t block) { QuantiseBlock<A>(o, block); });
  });
}

void Compute(const ops::Dequantise& o, Context& c) {
  const uint8_t* codes = o.codes.data<uint8_t>();
  const int zero = LevelsOf(o.bits) + 1;
  const auto decode = [&](auto code) {
    DecodeBlocks(o.scales, o.out, o.accumulate, o.block, c.pool,
                 [=](int64_t i, auto scale) { return static_cast<decltype(scale)>(code(i) - zero) * scale; });
  };
  if (o.bits == 8) return decode([codes](int64_t i) { return int{codes[i]}; });
  decode([codes](int64_t i) { return codes[i / 2] >> (4 * (i % 2)) & 15; });
}

void Compute(const ops::SignPack& o, Context& c) {
  VisitWide(o.in.dtype(), [&]<class A>() {
    c.pool.ParallelForEach(o.scales.numel(), 16 * kChunk / kSignBlock, [&](int64_t block) { PackBlock<A>(o, block); });
  });
}

void Compute(const ops::SignUnpack& o, Context& c) {
  const uint8_t* signs = o.signs.data<uint8_t>();
  DecodeBlocks(o.scales, o.out, o.accumulate, kSignBlock, c.pool,
               [signs](int64_t i, auto scale) { return (signs[i / 8] >> (i % 8) & 1) != 0 ? -scale : scale; });
}

void Compute(const ops::Orthogonalise& o, Context&) {
  VisitWide(o.x.dtype(), [&]<class A>() { Orthonormalise(o.x.data<A>(), o.x.dim(0), o.x.dim(1)); });
}

}  // namespace twofold::cpu
