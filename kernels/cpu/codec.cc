// Gradient codecs.
#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <functional>
#include <iterator>
#include <numeric>
#include <optional>
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
  constexpr int64_t kStep = 64, kWord = 8;
  for (int64_t begin = first; begin < last; begin += kStep) {
    const int64_t count = std::min(kStep, last - begin);
    alignas(kStep) uint8_t is[kStep] = {};
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) is[i] = static_cast<uint8_t>(matches(SizeOf(in[begin + i])));
    for (int64_t at = 0; at < kStep; at += kWord) {
      uint64_t word;
      std::memcpy(&word, is + at, kWord);
      for (; word != 0; word &= word - 1) visit(begin + at + std::countr_zero(word) / 8);
    }
  }
}

// Defines the k largest: all elements above `size`, and the first `ties` elements of that size.
template <class T>
struct Least {
  Size<T> size;
  int64_t ties;
};

// Sizes from `first` on, 2^bits of them.
template <class T>
struct Window {
  Size<T> first = 0;
  int bits = 8 * sizeof(T) - 1;  // all sizes
};

// A few sizes, among which the k-th largest is if a sample is like the rest. All sizes if k is not small.
template <class T>
Window<T> ProbableWindow(const T* in, int64_t n, int64_t k) {
  constexpr int64_t kSample = 4096;
  if (n < 16 * kSample || k > n / 8) return {};
  Size<T> sizes[kSample];
  for (int64_t i = 0; i < kSample; ++i) sizes[i] = SizeOf(in[i * (n / kSample) + i % 64]);
  const double expected = static_cast<double>(kSample) * static_cast<double>(k) / static_cast<double>(n);
  const double doubt = 4 * std::sqrt(expected) + 4;
  const auto most = static_cast<int64_t>(expected + doubt), least = static_cast<int64_t>(expected - doubt);
  std::nth_element(sizes, sizes + most, sizes + kSample, std::greater<>());
  const Size<T> first = sizes[most];
  if (first == 0) return {};
  Size<T> last = (Size<T>{1} << Window<T>().bits) - 1;
  if (least > 0) {
    std::nth_element(sizes, sizes + least, sizes + most, std::greater<>());
    last = sizes[least];
  }
  return {first, std::max(static_cast<int>(std::bit_width(last - first)), 1)};
}

// Radix select, from the top digit of the distance to the window's begin: among the elements whose upper digits equal
// those of the k-th largest, counts how many have each next digit. Nullopt if the k-th largest is not in the window.
template <class T>
std::optional<Least<T>> LeastOf(const T* in, int64_t n, int64_t k, const Window<T>& window) {
  const Size<T> begin = window.first;
  Size<T> upper = 0;
  for (int high = window.bits; high > 0;) {
    const int low = std::max(high - ops::rules::kTopKDigit, 0);
    const Size<T> mask = (Size<T>{1} << (high - low)) - 1;
    int64_t count[ops::rules::kTopKBins] = {}, above = 0;
    const auto add = [&](int64_t i) { ++count[(SizeOf(in[i]) - begin) >> low & mask]; };
    if (high < window.bits) {  // sizes below the window wrap to distances beyond it
      ForMatches(
          in, 0, n, [=](Size<T> size) { return (size - begin) >> high == upper; }, add);
    } else if (begin > 0) {
      const auto add_or_pass = [&](int64_t i) { (SizeOf(in[i]) - begin) >> high > 0 ? void(++above) : add(i); };
      ForMatches(
          in, 0, n, [=](Size<T> size) { return size >= begin; }, add_or_pass);
      if (above >= k || above + std::reduce(std::begin(count), std::end(count)) < k) return std::nullopt;
      k -= above;
    } else {
      for (int64_t i = 0; i < n; ++i) add(i);
    }
    Size<T> digit = mask;
    for (; digit > 0 && count[digit] < k; --digit) k -= count[digit];
    upper = upper << (high - low) | digit;
    high = low;
  }
  return Least<T>{begin + upper, k};
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
  std::optional<Least<T>> found = LeastOf(in, n, k, ProbableWindow(in, n, k));
  if (!found) found = LeastOf(in, n, k, Window<T>());
  Least<T> least = *found;
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

// The codes of `count` elements, and what they leave out (null: nobody asks). `round(level, i)`: a whole number.
template <class A, class Round>
void Encode(const A* x, int64_t count, const Levels<A>& levels, A most, Round round, uint8_t* codes, A* left) {
  const auto encode = [&]<bool kKeeps>() {
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) {
      const A value = x[i];
      A rounded = round(value * levels.inverse, i);
      rounded = rounded < -most ? -most : rounded;
      rounded = rounded > most ? most : rounded;
      rounded = levels.finite ? rounded : A(1);
      codes[i] = static_cast<uint8_t>(static_cast<int>(rounded) + static_cast<int>(most) + 1);
      if constexpr (kKeeps) left[i] = value - rounded * levels.scale;
    }
  };
  left != nullptr ? encode.template operator()<true>() : encode.template operator()<false>();
}

template <class A>
void QuantiseBlock(const ops::Quantise& o, int64_t block) {
  const int64_t first = block * o.block, count = std::min(o.block, o.in.numel() - first);
  const A most = A(LevelsOf(o.bits));
  A buffer[kChunk], space[kChunk];
  A* const left = o.residual.empty() ? nullptr : Sink<A>(o.residual).At(first, space);
  const A* x = Source<A>(o.in).At(first, count, buffer);
  const Levels<A> levels = LevelsFor(LargestOf(x, count), most);
  uint8_t* out = o.codes.data<uint8_t>() + ops::CodeBytes(first, o.bits);
  uint8_t halves[kChunk];
  uint8_t* codes = o.bits == 8 ? out : halves;
  if (o.stochastic) {
    uint16_t draws[kChunk];
    ForRuns(o.where, first, count, [&](uint64_t index, int64_t at, int64_t n) { Halves(o.key, index, n, draws + at); });
    Encode(
        x, count, levels, most, [&](A level, int64_t i) { return std::floor(level + A(HalfToUniform(draws[i]))); },
        codes, left);
  } else {
    Encode(
        x, count, levels, most, [](A level, int64_t) { return std::nearbyint(level); }, codes, left);
  }
  if (o.bits == 4) {
    if (count % 2 != 0) halves[count] = 0;
#pragma omp simd
    for (int64_t i = 0; i < (count + 1) / 2; ++i) {
      uint16_t pair;
      std::memcpy(&pair, halves + 2 * i, sizeof(pair));
      out[i] = static_cast<uint8_t>(pair | pair >> 4);
    }
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

static_assert(std::endian::native == std::endian::little, "byte k of a number is its byte of value 256^k");

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
  A buffer[kChunk], space[kChunk];
  A* const left = o.residual.empty() ? nullptr : Sink<A>(o.residual).At(first, space);
  const A* x = Source<A>(o.in).At(first, count, buffer);
  const A scale = SumOf<A>(count, [x](int64_t i) { return std::abs(x[i]); }) / static_cast<A>(count);
  uint8_t negative[kChunk];
  std::fill(negative + count, negative + (count + 7) / 8 * 8, uint8_t{0});
#pragma omp simd
  for (int64_t i = 0; i < count; ++i) negative[i] = static_cast<uint8_t>(x[i] < 0);
  if (left != nullptr) {
#pragma omp simd
    for (int64_t i = 0; i < count; ++i) {
      const A value = x[i];
      left[i] = value < 0 ? value + scale : value - scale;
    }
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
