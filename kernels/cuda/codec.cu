// Gradient codecs. Places, signs, codes and the scales of codes equal the CPU's bit for bit. The scale of signs is a
// sum in another order.
#include <limits>

#include "kernels/cuda/draws.h"
#include "kernels/cuda/functions.h"
#include "kernels/cuda/reduce.h"
#include "kernels/cuda/sweep.h"

namespace twofold::cuda {
namespace {

using ops::kQuantBlock;
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

// How levels are rounded: to nearest; by random draws, for neighbours together if DrawsFit(kEach, where), otherwise
// separately.
enum class Rounding { kNearest, kDrawn, kDrawnApart };

template <class T, Rounding kRounding>
__global__ void __launch_bounds__(kWarps* kWarp)
    QuantiseBlocks(const T* in, uint8_t* codes, Wide<T>* scales, T* residual, int64_t n, bool packs, PhiloxKey key,
                   ops::IndexMap where) {
  using A = Wide<T>;
  constexpr A kLevels = 127 /* on each side of zero */, kGreatest = std::numeric_limits<A>::max();
  static_assert(kRow == kQuantBlock);
  const int64_t block = int64_t{blockIdx.x} * kWarps + threadIdx.x / kWarp, first = block * kQuantBlock;
  if (first >= n) return;  // the whole warp
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const int64_t count = min(kQuantBlock, n - first), mine = count - lane * kEach;
  A x[1][kEach];
  LoadBlock<1>(in + first, packs, count, x);
  A largest = 0;
#pragma unroll
  for (int i = 0; i < kEach; ++i) largest = LargerSize()(largest, x[0][i] < 0 ? -x[0][i] : x[0][i]);
  largest = WarpReduce(largest, LargerSize());
  const bool finite = largest <= kGreatest;
  A inverse = finite ? Quotient(kLevels, largest) : A(0), scale = finite ? Quotient(largest, kLevels) : largest;
  if (!(inverse <= kGreatest)) inverse = 0, scale = 0;
  uint32_t bits[kEach] = {};
  if constexpr (kRounding == Rounding::kDrawn) {
    Draw(key, where, first + lane * kEach, bits);
  } else if constexpr (kRounding == Rounding::kDrawnApart) {
#pragma unroll
    for (int i = 0; i < kEach; ++i) {
      uint32_t one[1];
      Draw(key, where, first + lane * kEach + i, one);
      bits[i] = one[0];
    }
  }
  uint8_t code[kEach];
#pragma unroll
  for (int i = 0; i < kEach; ++i) {
    const A level = Product(x[0][i], inverse);
    A rounded = kRounding == Rounding::kNearest ? rint(level) : floor(Plus(level, A(ToUniform(bits[i]))));
    rounded = rounded < -kLevels ? -kLevels : rounded > kLevels ? kLevels : rounded;
    if (!finite) rounded = 1;
    code[i] = static_cast<uint8_t>(static_cast<int>(rounded) + 128);
    x[0][i] = Plus(x[0][i], -Product(rounded, scale));
  }
  if (lane == 0) scales[block] = scale;
  StoreSome(codes + first + lane * kEach, packs && mine >= kEach, mine, code);
  if (residual != nullptr) StoreBlock<1>(residual + first, packs, count, x);
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

// ---- Decoding ----

template <class Out, class Scale, bool kAdd>
struct Dequantised {
  const uint8_t* codes;
  const Scale* scales;
  Out* out;
  using A = Wide<Out>;
  template <int N>
  struct Loaded {
    Raw<uint8_t, N> codes;
    Raw<Out, kAdd ? N : 1> old;
  };
  template <int N>
  __device__ Loaded<N> Load(int64_t first) const {
    Loaded<N> loaded;
    loaded.codes = LoadRaw<N>(codes + first);
    if constexpr (kAdd) loaded.old = LoadRaw<N>(out + first);
    return loaded;
  }
  template <int N>
  __device__ void Finish(int64_t first, const Loaded<N>& loaded) const {
    const A scale = As<A>(scales[first / kQuantBlock]);
    A y[N];
#pragma unroll
    for (int i = 0; i < N; ++i) {
      y[i] = As<A>(static_cast<int32_t>(loaded.codes[i]) - 128) * scale;
      if constexpr (kAdd) y[i] += As<A>(loaded.old[i]);
    }
    StorePack(out + first, y);
  }
};

template <class Out, class Scale, bool kAdd>
struct Unpacked {
  const uint8_t* signs;
  const Scale* scales;
  Out* out;
  using A = Wide<Out>;
  template <int N>
  struct Loaded {
    uint8_t byte;
    Raw<Out, kAdd ? N : 1> old;
  };
  template <int N>
  __device__ Loaded<N> Load(int64_t first) const {
    Loaded<N> loaded;
    loaded.byte = signs[first / 8];
    if constexpr (kAdd) loaded.old = LoadRaw<N>(out + first);
    return loaded;
  }
  template <int N>
  __device__ void Finish(int64_t first, const Loaded<N>& loaded) const {
    static_assert(8 % N == 0);
    const A scale = As<A>(scales[first / kSignBlock]);
    const unsigned bits = loaded.byte >> (first % 8);
    A y[N];
#pragma unroll
    for (int i = 0; i < N; ++i) {
      y[i] = (bits >> i & 1) != 0 ? -scale : scale;
      if constexpr (kAdd) y[i] += As<A>(loaded.old[i]);
    }
    StorePack(out + first, y);
  }
};

template <template <class, class, bool> class Decoded>
void Decode(const Tensor& codes, const Tensor& scales, const Tensor& out, bool accumulate, bool packed_codes,
            const Context& c) {
  ForFloat(out.dtype(), [&]<class Out>() {
    constexpr int kN = PackOf<Out>;
    const bool packs = PacksFit(kN, kN, {&out}) && (packed_codes || PacksFit(kN, kN, {&codes}));
    const auto decode = [&]<class Scale, bool kAdd>() {
      Sweep<kN, 4>(Decoded<Out, Scale, kAdd>{At<uint8_t>(codes), At<Scale>(scales), At<Out>(out)}, out.numel(), packs,
                   c);
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
    const auto kernel = !o.stochastic              ? QuantiseBlocks<T, Rounding::kNearest>
                        : DrawsFit(kEach, o.where) ? QuantiseBlocks<T, Rounding::kDrawn>
                                                   : QuantiseBlocks<T, Rounding::kDrawnApart>;
    Launch(kernel, blocks, kWarps * kWarp, 0, c.stream, At<T>(o.in), At<uint8_t>(o.codes), At<Wide<T>>(o.scales),
           At<T>(o.residual), o.in.numel(), PacksFit(kEach, kEach, {&o.in, &o.codes, &o.residual}), o.key, o.where);
  });
}

void Compute(const ops::Dequantise& o, const Context& c) {
  Decode<Dequantised>(o.codes, o.scales, o.out, o.accumulate, false, c);
}

void Compute(const ops::SignPack& o, const Context& c) {
  ForFloat(o.in.dtype(), [&]<class T>() {
    const auto blocks = static_cast<unsigned>(CeilDiv(o.scales.numel(), kWarps));
    Launch(PackSigns<T>, blocks, kWarps * kWarp, 0, c.stream, At<T>(o.in), At<uint8_t>(o.signs), At<Wide<T>>(o.scales),
           At<T>(o.residual), o.in.numel(), PacksFit(kEach, kEach, {&o.in, &o.residual}));
  });
}

void Compute(const ops::SignUnpack& o, const Context& c) {
  Decode<Unpacked>(o.signs, o.scales, o.out, o.accumulate, true, c);
}

}  // namespace twofold::cuda
