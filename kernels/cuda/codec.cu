// Gradient codecs. Places, signs, codes and the scales of codes equal the CPU's bit for bit. The scale of signs is a
// sum in another order.
#include <limits>

#include "kernels/cuda/draws.h"
#include "kernels/cuda/functions.h"
#include "kernels/cuda/reduce.h"
#include "kernels/cuda/sweep.h"

namespace twofold::cuda {
namespace {

using ops::kSignBlock;

// ---- Places ----

struct DrawPlaces : LoadsNothing {
  int32_t* out;
  int64_t n;
  PhiloxKey key;
  template <int N>
  __device__ void Finish(int64_t first, const Loaded<N>&) const {
    out[first] = static_cast<int32_t>(ops::rules::PlaceOf(first, n, key));
  }
};

// T has the size of an element.
template <class T>
struct GatherEach {
  const T* in;
  const int32_t* indices;
  T* values;
  template <int N>
  struct Loaded {
    T x;
  };
  template <int N>
  __device__ Loaded<N> Load(int64_t first) const {
    return {in[indices[first]]};
  }
  template <int N>
  __device__ void Finish(int64_t first, const Loaded<N>& loaded) const {
    values[first] = loaded.x;
  }
};

template <class Out, class In>
struct ScatterEach {
  const In* values;  // may be null
  const int32_t* indices;
  Out* out;
  bool accumulate;
  template <int N>
  struct Loaded {
    int32_t index;
    Wide<Out> x;
  };
  template <int N>
  __device__ Loaded<N> Load(int64_t first) const {
    const int32_t index = indices[first];
    const Wide<Out> value = values == nullptr ? Wide<Out>(0) : As<Wide<Out>>(values[first]);
    return {index, accumulate ? As<Wide<Out>>(out[index]) + value : value};
  }
  template <int N>
  __device__ void Finish(int64_t, const Loaded<N>& loaded) const {
    Store(out + loaded.index, loaded.x);
  }
};

// ---- Encoding: one warp per block of elements; each lane has kEach neighbouring elements of every kRow ----

constexpr int kEach = 8, kRow = kEach * kWarp, kWarps = 8 /* of a block of threads */;

// Loads the lane's part of the block's elements [first, first + count), count <= kRows * kRow; zero past the end.
template <int kRows, class T>
__device__ inline void LoadBlock(const T* in, bool packs, int64_t count, Wide<T> (&x)[kRows][kEach]) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const int64_t at = r * kRow + lane * kEach;
    LoadSome(in + at, packs && at + kEach <= count, count - at, x[r]);
  }
}
template <int kRows, class T>
__device__ inline void StoreBlock(T* out, bool packs, int64_t count, const Wide<T> (&x)[kRows][kEach]) {
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    const int64_t at = r * kRow + lane * kEach;
    StoreSome(out + at, packs && at + kEach <= count, count - at, x[r]);
  }
}

// NaN counts as larger than any number.
struct LargerSize {
  template <class A>
  __device__ A operator()(A a, A b) const {
    return b > a || b != b ? b : a;
  }
};
__device__ inline float Quotient(float a, float b) { return __fdiv_rn(a, b); }
__device__ inline double Quotient(double a, double b) { return a / b; }

// How levels are rounded: to nearest; by random draws, for neighbours together if DrawsFit(kEach, where, 8), otherwise
// separately.
enum class Rounding { kNearest, kDrawn, kDrawnApart };

template <class A>
struct Levels {
  int bits;
  A most;  // levels on each side of zero
  A scale = 0, inverse = 0;
  bool finite = true;
};

// Encodes the lane's elements of one row, which starts at element `first` and has `count` elements.
template <class T, Rounding kRounding>
__device__ inline void QuantiseRow(const T* in, uint8_t* codes, T* residual, int64_t first, int64_t count, bool packs,
                                   const Levels<Wide<T>>& levels, PhiloxKey key, const ops::IndexMap& where) {
  using A = Wide<T>;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int64_t mine = count - lane * kEach;
  A x[1][kEach];
  LoadBlock<1>(in + first, packs, count, x);
  uint16_t draws[kEach] = {};
  if constexpr (kRounding == Rounding::kDrawn) {
    DrawHalves(key, where, first + lane * kEach, draws);
  } else if constexpr (kRounding == Rounding::kDrawnApart) {
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      uint16_t one[1];
      DrawHalves(key, where, first + lane * kEach + i, one);
      draws[i] = one[0];
    }
  }
  uint8_t code[kEach];
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const A level = Product(x[0][i], levels.inverse), most = levels.most;
    A rounded = kRounding == Rounding::kNearest ? rint(level) : floor(Plus(level, A(HalfToUniform(draws[i]))));
    rounded = rounded < -most ? -most : rounded > most ? most : rounded;
    if (!levels.finite) rounded = 1;
    code[i] = i < mine ? static_cast<uint8_t>(static_cast<int>(rounded + most) + 1) : uint8_t{0};
    x[0][i] = Plus(x[0][i], -Product(rounded, levels.scale));
  }
  uint8_t* to = codes + (first + lane * kEach) * levels.bits / 8;
  if (levels.bits == 4) {
#pragma unroll
    for (int i = 0; i < kEach; i += 2) {
      if (i < mine) to[i / 2] = static_cast<uint8_t>(code[i] | code[i + 1] << 4);
    }
  } else {
    StoreSome(to, packs && mine >= kEach, mine, code);
  }
  if (residual != nullptr) StoreBlock<1>(residual + first, packs, count, x);
}

// A block of elements has one to four rows. With more than one, they are read twice: for the scale and for the codes.
template <class T, Rounding kRounding>
__global__ void __launch_bounds__(kWarps* kWarp)
    QuantiseBlocks(const T* in, uint8_t* codes, Wide<T>* scales, T* residual, int64_t n, int64_t block_size,
                   Levels<Wide<T>> levels, bool packs, PhiloxKey key, ops::IndexMap where) {
  using A = Wide<T>;
  const int64_t block = int64_t{blockIdx.x} * kWarps + threadIdx.x / kWarp, first = block * block_size;
  if (first >= n) return;  // the whole warp
  const int64_t end = min(first + block_size, n);
  A largest = 0;
  for (int64_t row = first; row < end; row += kRow) {
    A x[1][kEach];
    LoadBlock<1>(in + row, packs, min(int64_t{kRow}, end - row), x);
#pragma unroll
    for (int i = 0; i < kEach; ++i) largest = LargerSize()(largest, x[0][i] < 0 ? -x[0][i] : x[0][i]);
  }
  largest = WarpReduce(largest, LargerSize());
  levels.finite = largest <= std::numeric_limits<A>::max();
  levels.scale = levels.finite ? Quotient(largest, levels.most) : largest;
  levels.inverse = levels.finite ? Quotient(levels.most, largest) : A(0);
  if (!(levels.inverse <= std::numeric_limits<A>::max())) levels.inverse = 0, levels.scale = 0;
  if (threadIdx.x % kWarp == 0) scales[block] = levels.scale;
  for (int64_t row = first; row < end; row += kRow)
    QuantiseRow<T, kRounding>(in, codes, residual, row, min(int64_t{kRow}, end - row), packs, levels, key, where);
}

template <class T>
__global__ void __launch_bounds__(kWarps* kWarp)
    PackSigns(const T* in, uint8_t* signs, Wide<T>* scales, T* residual, int64_t n, bool packs) {
  using A = Wide<T>;
  constexpr int kRows = static_cast<int>(kSignBlock) / kRow;
  const int64_t block = int64_t{blockIdx.x} * kWarps + threadIdx.x / kWarp, first = block * kSignBlock;
  if (first >= n) return;  // the whole warp
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int64_t count = min(kSignBlock, n - first);
  A x[kRows][kEach];
  LoadBlock<kRows>(in + first, packs, count, x);
  A sum = 0;
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
#pragma unroll
    for (int i = 0; i < kEach; ++i) sum += x[r][i] < 0 ? -x[r][i] : x[r][i];
  }
  const A scale = WarpSum(sum) / static_cast<A>(count);
  if (lane == 0) scales[block] = scale;
#pragma unroll
  for (int r = 0; r < kRows; ++r) {
    unsigned byte = 0;
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      byte |= static_cast<unsigned>(x[r][i] < 0) << i;
      x[r][i] = x[r][i] < 0 ? x[r][i] + scale : x[r][i] - scale;
    }
    if (r * kRow + lane * kEach < count) signs[(first + r * kRow) / 8 + lane] = static_cast<uint8_t>(byte);
  }
  if (residual != nullptr) StoreBlock<kRows>(residual + first, packs, count, x);
}

// ---- Low rank: one block of threads; the matrices are tall and narrow ----

// As on a CPU, with sums in another order.
template <class T>
__global__ void __launch_bounds__(1024) Orthonormalise(T* x, int64_t rows, int columns) {
  const auto dot = [&](int j, int k) {
    double sum = 0;
    for (int64_t i = threadIdx.x; i < rows; i += blockDim.x)
      sum += static_cast<double>(x[i * columns + j]) * static_cast<double>(x[i * columns + k]);
    return BlockSum(sum);
  };
  // Column `to` -= factor * column `of`. Each thread has rows of its own.
  const auto subtract = [&](int to, double factor, int of) {
    for (int64_t i = threadIdx.x; i < rows; i += blockDim.x) {
      T& element = x[i * columns + to];
      element = static_cast<T>(static_cast<double>(element) - factor * static_cast<double>(x[i * columns + of]));
    }
  };
  const auto project = [&](int j) {
    for (int k = 0; k < j; ++k) subtract(j, dot(j, k), k);
    return dot(j, j);
  };
  for (int j = 0; j < columns; ++j) {
    const double before = dot(j, j);
    double squares = project(j);
    if (before == 0 || squares < before / 4) {
      for (int64_t i = threadIdx.x; i < rows; i += blockDim.x)
        x[i * columns + j] = static_cast<T>(ops::rules::OrthogonaliseDraw(i, j));
      project(j);
      squares = project(j);
    }
    const double inverse = 1 / sqrt(squares);
    for (int64_t i = threadIdx.x; i < rows; i += blockDim.x)
      x[i * columns + j] = static_cast<T>(static_cast<double>(x[i * columns + j]) * inverse);
    for (int k = j + 1; k < columns; ++k) subtract(k, dot(j, k), j);
  }
}

// ---- Decoding ----

// What encodes N consecutive elements from `first` on, and the value of the i-th of them.
struct EightBits {
  template <int N>
  static __device__ Raw<uint8_t, N> Load(const uint8_t* codes, int64_t first) {
    return LoadRaw<N>(codes + first);
  }
  template <class A, int N>
  static __device__ A Value(const Raw<uint8_t, N>& loaded, int64_t, int i, A scale) {
    return As<A>(static_cast<int32_t>(loaded[i]) - 128) * scale;
  }
};
struct FourBits {
  template <int N>
  static __device__ uint32_t Load(const uint8_t* codes, int64_t first) {
    static_assert(N <= 8 && (N == 1 || N % 2 == 0));
    uint32_t loaded = 0;
#pragma unroll
    for (int i = 0; i < (N + 1) / 2; ++i) loaded |= static_cast<uint32_t>(codes[first / 2 + i]) << (8 * i);
    return loaded;
  }
  template <class A, int N>
  static __device__ A Value(uint32_t loaded, int64_t first, int i, A scale) {
    return As<A>(static_cast<int32_t>(loaded >> (first % 2 * 4) >> (4 * i) & 15) - 8) * scale;
  }
};
struct Signs {
  template <int N>
  static __device__ uint8_t Load(const uint8_t* codes, int64_t first) {
    static_assert(8 % N == 0);
    return codes[first / 8];
  }
  template <class A, int N>
  static __device__ A Value(unsigned loaded, int64_t first, int i, A scale) {
    return (loaded >> (first % 8) >> i & 1) != 0 ? -scale : scale;
  }
};

template <class Code, class Out, class Scale, bool kAdd>
struct Decoded {
  const uint8_t* codes;
  const Scale* scales;
  Out* out;
  int64_t block;
  using A = Wide<Out>;
  template <int N>
  struct Loaded {
    decltype(Code::template Load<N>(nullptr, 0)) codes;
    Raw<Out, kAdd ? N : 1> old;
  };
  template <int N>
  __device__ Loaded<N> Load(int64_t first) const {
    Loaded<N> loaded;
    loaded.codes = Code::template Load<N>(codes, first);
    if constexpr (kAdd) loaded.old = LoadRaw<N>(out + first);
    return loaded;
  }
  template <int N>
  __device__ void Finish(int64_t first, const Loaded<N>& loaded) const {
    const A scale = As<A>(scales[first / block]);
    A y[N];
#pragma unroll
    for (int i = 0; i < N; ++i) {
      y[i] = Code::template Value<A, N>(loaded.codes, first, i, scale);
      if constexpr (kAdd) y[i] += As<A>(loaded.old[i]);
    }
    StorePack(out + first, y);
  }
};

template <class Code>
void Decode(const Tensor& codes, const Tensor& scales, const Tensor& out, bool accumulate, int64_t block,
            bool packed_codes, const Context& c) {
  ForFloat(out.dtype(), [&]<class Out>() {
    constexpr int kN = PackOf<Out>;
    const bool packs = PacksFit(kN, kN, {&out}) && (packed_codes || PacksFit(kN, kN, {&codes}));
    const auto decode = [&]<class Scale, bool kAdd>() {
      Sweep<kN, 4>(Decoded<Code, Out, Scale, kAdd>{At<uint8_t>(codes), At<Scale>(scales), At<Out>(out), block},
                   out.numel(), packs, c);
    };
    const bool wide = scales.dtype() == DType::kF64;
    if (accumulate)
      wide ? decode.template operator()<double, true>() : decode.template operator()<float, true>();
    else
      wide ? decode.template operator()<double, false>() : decode.template operator()<float, false>();
  });
}

}  // namespace

void Compute(const ops::RandomPlaces& o, const Context& c) {
  Sweep<1>(DrawPlaces{{}, At<int32_t>(o.out), o.n, o.key}, o.out.numel(), false, c);
}

void Compute(const ops::GatherElements& o, const Context& c) {
  ForBits(o.in.dtype(), [&]<class T>() {
    Sweep<1>(GatherEach<T>{At<T>(o.in), At<int32_t>(o.indices), At<T>(o.values)}, o.values.numel(), false, c);
  });
}

void Compute(const ops::ScatterElements& o, const Context& c) {
  ForFloat(o.out.dtype(), [&]<class Out>() {
    ForFloat(o.values.empty() ? o.out.dtype() : o.values.dtype(), [&]<class In>() {
      const ScatterEach<Out, In> f{At<In>(o.values), At<int32_t>(o.indices), At<Out>(o.out), o.accumulate};
      Sweep<1>(f, o.indices.numel(), false, c);
    });
  });
}

void Compute(const ops::Quantise& o, const Context& c) {
  ForFloat(o.in.dtype(), [&]<class T>() {
    const auto blocks = static_cast<unsigned>(CeilDiv(o.scales.numel(), kWarps));
    const auto kernel = !o.stochastic                 ? QuantiseBlocks<T, Rounding::kNearest>
                        : DrawsFit(kEach, o.where, 8) ? QuantiseBlocks<T, Rounding::kDrawn>
                                                      : QuantiseBlocks<T, Rounding::kDrawnApart>;
    Launch(kernel, blocks, kWarps * kWarp, 0, c.stream, At<T>(o.in), At<uint8_t>(o.codes), At<Wide<T>>(o.scales),
           At<T>(o.residual), o.in.numel(), o.block,
           Levels<Wide<T>>{.bits = o.bits, .most = static_cast<Wide<T>>((1 << (o.bits - 1)) - 1)},
           PacksFit(kEach, kEach, {&o.in, &o.codes, &o.residual}), o.key, o.where);
  });
}

void Compute(const ops::Dequantise& o, const Context& c) {
  if (o.bits == 8) return Decode<EightBits>(o.codes, o.scales, o.out, o.accumulate, o.block, false, c);
  Decode<FourBits>(o.codes, o.scales, o.out, o.accumulate, o.block, true, c);
}

void Compute(const ops::SignPack& o, const Context& c) {
  ForFloat(o.in.dtype(), [&]<class T>() {
    const auto blocks = static_cast<unsigned>(CeilDiv(o.scales.numel(), kWarps));
    Launch(PackSigns<T>, blocks, kWarps * kWarp, 0, c.stream, At<T>(o.in), At<uint8_t>(o.signs), At<Wide<T>>(o.scales),
           At<T>(o.residual), o.in.numel(), PacksFit(kEach, kEach, {&o.in, &o.residual}));
  });
}

void Compute(const ops::SignUnpack& o, const Context& c) {
  Decode<Signs>(o.signs, o.scales, o.out, o.accumulate, kSignBlock, true, c);
}

void Compute(const ops::Orthogonalise& o, const Context& c) {
  if (o.x.numel() == 0) return;
  ForFloat(o.x.dtype(), [&]<class T>() {
    if constexpr (sizeof(T) >= 4)
      Launch(Orthonormalise<T>, 1, 1024, 0, c.stream, At<T>(o.x), o.x.dim(0), static_cast<int>(o.x.dim(1)));
  });
}

}  // namespace twofold::cuda
