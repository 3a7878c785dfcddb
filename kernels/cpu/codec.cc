// Gradient codecs.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <type_traits>
#include <vector>

#include "core/base/philox.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/philox_block.h"
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
auto SizeOf(T x) {
  using Bits = std::conditional_t<sizeof(T) == 8, uint64_t, std::conditional_t<sizeof(T) == 2, uint16_t, uint32_t>>;
  using Size = std::conditional_t<sizeof(T) == 8, uint64_t, uint32_t>;
  return static_cast<Size>(std::bit_cast<Bits>(x) & (static_cast<Bits>(~Bits{0}) >> 1));
}
template <class T>
using Size = decltype(SizeOf(T()));

// Calls visit(i) for the elements of [first, last) whose size matches; fast if few do.
template <class T, class Matches, class Visit>
void ForMatches(const T* in, int64_t first, int64_t last, const Matches& matches, const Visit& visit) {
  constexpr int64_t kStep = 32;
  for (int64_t begin = first; begin < last; begin += kStep) {
    const int64_t end = std::min(begin + kStep, last);
    uint32_t any = 0;
#pragma omp simd reduction(| : any)
    for (int64_t i = begin; i < end; ++i) any |= static_cast<uint32_t>(matches(SizeOf(in[i])));
    for (int64_t i = begin; any != 0 && i < end; ++i) {
      if (matches(SizeOf(in[i]))) visit(i);
    }
  }
}

// Defines the k largest: all elements above `size`, and the first `ties` elements of that size.
template <class T>
struct Least {
  Size<T> size;
  int64_t ties;
};

// Radix select, from the top digit: among the elements whose upper digits equal those of the k-th largest, counts how
// many have each next digit.
template <class T>
Least<T> LeastOf(const T* in, int64_t n, int64_t k) {
  constexpr int kBits = 8 * sizeof(T) - 1;
  Size<T> upper = 0;
  for (int high = kBits; high > 0;) {
    const int low = std::max(high - ops::rules::kTopKDigit, 0);
    const Size<T> mask = (Size<T>{1} << (high - low)) - 1;
    int64_t count[ops::rules::kTopKBins] = {};
    const auto add = [&](int64_t i) { ++count[SizeOf(in[i]) >> low & mask]; };
    if (high == kBits) {
      for (int64_t i = 0; i < n; ++i) add(i);
    } else {
      ForMatches(
          in, 0, n, [=](Size<T> size) { return size >> high == upper; }, add);
    }
    Size<T> digit = mask;
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
  if (k == 0) {
    if (residual != nullptr && residual != in) std::copy_n(in, n, residual);
    return;
  }
  Least<T> least = LeastOf(in, n, k);
  int64_t taken = 0;
  const auto take = [&](int64_t i) {
    if (SizeOf(in[i]) == least.size && least.ties-- <= 0) return;
    values[taken] = in[i];
    indices[taken++] = static_cast<int32_t>(i);
    if (residual != nullptr) residual[i] = T();
  };
  InChunks(0, n, [&](int64_t first, int64_t count) {
    if (residual != nullptr && residual != in) std::copy_n(in + first, count, residual + first);
    ForMatches(
        in, first, first + count, [size = least.size](Size<T> other) { return other >= size; }, take);
  });
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

// The largest |x|; not a number if an element is not.
template <class A>
A LargestOf(const A* x, int64_t n) {
  using Bits = std::conditional_t<sizeof(A) == 8, uint64_t, uint32_t>;
  Bits largest = 0;  // as integers they sort like the numbers, with NaN last
#pragma omp simd reduction(max : largest)
  for (int64_t i = 0; i < n; ++i) {
    const Bits size = std::bit_cast<Bits>(x[i]) & (~Bits{0} >> 1);
    largest = size > largest ? size : largest;
  }
  return std::bit_cast<A>(largest);
}

// The codes of `count` elements, and what they leave out. `round(level, i)`: a whole number.
template <class A, class Round>
void Encode(const A* x, int64_t count, const Levels<A>& levels, A most, Round round, uint8_t* codes, A* left) {
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    A rounded = round(x[i] * levels.inverse, i);
    rounded = rounded < -most ? -most : rounded;
    rounded = rounded > most ? most : rounded;
    rounded = levels.finite ? rounded : A(1);
    codes[i] = static_cast<uint8_t>(static_cast<int>(rounded) + static_cast<int>(most) + 1);
    left[i] = x[i] - rounded * levels.scale;
  }
}

template <class A>
void QuantiseBlock(const ops::Quantise& o, int64_t block) {
  const int64_t first = block * o.block, count = std::min(o.block, o.in.numel() - first);
  const A most = A(LevelsOf(o.bits));
  A buffer[kChunk], left[kChunk];
  const A* x = Source<A>(o.in).At(first, count, buffer);
  const Levels<A> levels = LevelsFor(LargestOf(x, count), most);
  uint8_t* out = o.codes.data<uint8_t>() + ops::CodeBytes(first, o.bits);
  uint8_t halves[kChunk];
  uint8_t* codes = o.bits == 8 ? out : halves;
  if (o.stochastic) {
    uint32_t bits[kChunk];
    ForRuns(o.where, first, count, [&](uint64_t index, int64_t at, int64_t n) { Numbers(o.key, index, n, bits + at); });
    Encode(
        x, count, levels, most, [&](A level, int64_t i) { return std::floor(level + A(ToUniform(bits[i]))); }, codes,
        left);
  } else {
    Encode(
        x, count, levels, most, [](A level, int64_t) { return std::nearbyint(level); }, codes, left);
  }
  if (o.bits == 4) {
    if (count % 2 != 0) halves[count] = 0;
    for (int64_t i = 0; i < (count + 1) / 2; ++i) out[i] = static_cast<uint8_t>(halves[2 * i] | halves[2 * i + 1] << 4);
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

// out[first, ...) of each block, from what `decode(first, count, scale, A*)` writes.
template <class F>
void DecodeBlocks(const Tensor& scales, const Tensor& out, bool accumulate, int64_t block_size, ThreadPool& pool,
                  F decode) {
  VisitWide(out.dtype(), [&]<class A>() {
    pool.ParallelForEach(scales.numel(), 16 * kChunk / block_size, [&](int64_t block) {
      const int64_t first = block * block_size, count = std::min(block_size, out.numel() - first);
      A decoded[kChunk];
      decode(first, count, ScaleAt<A>(scales, block), decoded);
      StoreOrAdd(out, first, count, decoded, accumulate);
    });
  });
}

// ---- 1 bit ----

static_assert(std::endian::native == std::endian::little, "bit k of a byte is byte k of a 64-bit number");

// Bit k: whether byte k, which is 0 or 1, is 1.
uint8_t PackBits(const uint8_t* bytes) {
  uint64_t all;
  std::memcpy(&all, bytes, sizeof(all));
  return static_cast<uint8_t>(all * 0x0102040810204080 >> 56);
}
// The reverse.
void UnpackBits(uint8_t bits, uint8_t* bytes) {
  const uint64_t each = bits * uint64_t{0x0101010101010101} & 0x8040201008040201;  // byte k: bit k, in its place
  const uint64_t all = (each + 0x7f7f7f7f7f7f7f7f) >> 7 & 0x0101010101010101;
  std::memcpy(bytes, &all, sizeof(all));
}

template <class A>
void PackBlock(const ops::SignPack& o, int64_t block) {
  const int64_t first = block * kSignBlock, count = std::min(kSignBlock, o.in.numel() - first);
  A buffer[kChunk], left[kChunk];
  const A* x = Source<A>(o.in).At(first, count, buffer);
  const A scale = SumOf<A>(count, [x](int64_t i) { return std::abs(x[i]); }) / static_cast<A>(count);
  uint8_t negative[kChunk + 8] = {};
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) {
    negative[i] = static_cast<uint8_t>(x[i] < 0);
    left[i] = x[i] < 0 ? x[i] + scale : x[i] - scale;
  }
  uint8_t* signs = o.signs.data<uint8_t>() + first / 8;
  for (int64_t i = 0; i < count; i += 8) signs[i / 8] = PackBits(negative + i);
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
  const int zero = LevelsOf(o.bits) + 1, bits = o.bits;
  DecodeBlocks(o.scales, o.out, o.accumulate, o.block, c.pool,
               [=]<class A>(int64_t first, int64_t count, A scale, A* decoded) {
                 const uint8_t* from = codes + ops::CodeBytes(first, bits);
                 uint8_t halves[kChunk];
                 if (bits == 4) {
                   for (int64_t i = 0; i < (count + 1) / 2; ++i)
                     halves[2 * i] = from[i] & 15, halves[2 * i + 1] = from[i] >> 4;
                   from = halves;
                 }
#pragma omp simd
                 for (int64_t i = 0; i < count; ++i) decoded[i] = static_cast<A>(int{from[i]} - zero) * scale;
               });
}

void Compute(const ops::SignPack& o, Context& c) {
  VisitWide(o.in.dtype(), [&]<class A>() {
    c.pool.ParallelForEach(o.scales.numel(), 16 * kChunk / kSignBlock, [&](int64_t block) { PackBlock<A>(o, block); });
  });
}

void Compute(const ops::SignUnpack& o, Context& c) {
  const uint8_t* signs = o.signs.data<uint8_t>();
  DecodeBlocks(o.scales, o.out, o.accumulate, kSignBlock, c.pool,
               [=]<class A>(int64_t first, int64_t count, A scale, A* decoded) {
                 uint8_t negative[kChunk + 8];
                 for (int64_t i = 0; i < count; i += 8) UnpackBits(signs[(first + i) / 8], negative + i);
#pragma omp simd
                 for (int64_t i = 0; i < count; ++i) decoded[i] = negative[i] != 0 ? -scale : scale;
               });
}

void Compute(const ops::Orthogonalise& o, Context&) {
  VisitWide(o.x.dtype(), [&]<class A>() { Orthonormalise(o.x.data<A>(), o.x.dim(0), o.x.dim(1)); });
}

}  // namespace twofold::cpu
