// Parameter updates, and the sums that they and the loss need.
//
// An update is one pass over a flat piece: each thread has four neighbouring elements of every array. The updated value
// is the master copy, or the parameter itself if there is none.
#include <array>
#include <cmath>
#include <functional>
#include <vector>

#include "kernels/cuda/kernels.h"
#include "kernels/cuda/reduce.h"
#include "kernels/cuda/row_loop.h"

namespace twofold::cuda {
namespace {

constexpr int kThreads = 256, kEach = 4;

// ---- Ranges of elements: a few are passed as kernel arguments, more are in the workspace ----

template <class Range>
struct RangesOfALaunch {
  Range at[ops::kRangesOfALaunch];
};
template <class Range>
struct Ranges {
  const Range* table;  // null: the ranges are in `few`
  int count;
  RangesOfALaunch<Range> few;
  __device__ Range operator[](int i) const { return table != nullptr ? table[i] : few.at[i]; }
};

template <class Range>
__global__ void Put(RangesOfALaunch<Range> from, Range* to, int count) {
  if (static_cast<int>(threadIdx.x) < count) to[threadIdx.x] = from.at[threadIdx.x];
}

// Passes ranges to a kernel and takes its part of the workspace. Avoids a copy from host memory, which would have to
// outlive this call.
template <class Range>
Ranges<Range> Tell(const std::vector<Range>& ranges, std::byte*& workspace, cudaStream_t stream) {
  Ranges<Range> told = {.table = nullptr, .count = static_cast<int>(ranges.size()), .few = {}};
  if (ranges.size() <= ops::kRangesOfALaunch) {
    std::copy(ranges.begin(), ranges.end(), told.few.at);
    return told;
  }
  auto* table = reinterpret_cast<Range*>(workspace);
  workspace += CeilDiv(static_cast<int64_t>(ranges.size() * sizeof(Range)), 256) * 256;
  for (size_t first = 0; first < ranges.size(); first += ops::kRangesOfALaunch) {
    const size_t count = std::min(ranges.size() - first, ops::kRangesOfALaunch);
    RangesOfALaunch<Range> some = {};
    std::copy_n(ranges.begin() + static_cast<std::ptrdiff_t>(first), count, some.at);
    Launch(Put<Range>, dim3(1), dim3(ops::kRangesOfALaunch), 0, stream, some, table + first, static_cast<int>(count));
  }
  told.table = table;
  return told;
}

// Whether each of kEach elements from i on decays.
__device__ inline void Decays(const Ranges<ops::ElementRange>& undecayed, int64_t i, bool (&decays)[kEach]) {
  int r = FirstOf(0, undecayed.count, [&](int k) { return undecayed[k].end > i; });
#pragma unroll
  for (int k = 0; k < kEach; ++k) {
    while (r < undecayed.count && undecayed[r].end <= i + k) ++r;
    decays[k] = r >= undecayed.count || undecayed[r].begin > i + k;
  }
}

// Reads number `place` of a key's sequence, and the numbers after it.
class Sequence {
 public:
  __device__ uint32_t At(PhiloxKey key, uint64_t place) {
    if (place / 4 != block_ || key.value != key_) {
      const std::array<uint32_t, 4> numbers = Philox(key, place / 4);
      a_ = numbers[0], b_ = numbers[1], c_ = numbers[2], d_ = numbers[3];
      block_ = place / 4, key_ = key.value;
    }
    const int lane = static_cast<int>(place % 4);
    return lane == 0 ? a_ : lane == 1 ? b_ : lane == 2 ? c_ : d_;
  }

 private:
  uint64_t block_ = ~uint64_t{0}, key_ = 0;
  uint32_t a_ = 0, b_ = 0, c_ = 0, d_ = 0;
};

template <class T>
__device__ inline T Rounded(float x, uint32_t draw) {
  if constexpr (sizeof(T) == 2) {
    T rounded;
    const uint32_t bits = __float_as_uint(x);
    if constexpr (std::is_same_v<T, Bf16>)
      rounded.bits = ops::RoundedBF16(bits, draw);
    else
      rounded.bits = ops::RoundedF16(bits, draw);
    return rounded;
  } else {
    return {};
  }
}

// ---- Updates ----

// The data of an update. Keys of random draws belong to the step.
template <class T, class G>
struct Update {
  using A = Wide<T>;
  T* param;
  const G* grad;
  A* first;   // momentum (SGD) or m (Adam); may be null
  A* second;  // v; may be null
  A* master;  // may be null
  const float* factor32;
  const double* factor64;
  int64_t n;
  bool packs, stochastic;
  Ranges<ops::ElementRange> undecayed;
  Ranges<ops::RoundingKeyRange> drawn;
};

template <class A>
struct Sgd {
  A lr, decay, momentum, of_gradient, of_momentum;
  // Updates p, and m if there is one.
  __device__ void operator()(bool decays, bool with_momentum, A g, A& m, A&, A& p) const {
    g += (decays ? decay : A(0)) * p;
    if (with_momentum) {
      m = momentum * m + g;
      p -= lr * (of_gradient * g + of_momentum * m);
    } else {
      p -= lr * g;
    }
  }
};

template <class A>
struct Adam {
  A keep1, take1, keep2, take2, rate, root, eps, decay_in_gradient, kept;
  __device__ void operator()(bool decays, bool, A g, A& m, A& v, A& p) const {
    g += (decays ? decay_in_gradient : A(0)) * p;
    m = keep1 * m + take1 * g;
    v = keep2 * v + take2 * (g * g);
    p = (decays ? kept : A(1)) * p - rate * (m / (std::sqrt(v) * root + eps));
  }
};

template <class T, class G, class Rule>
__global__ void __launch_bounds__(kThreads) Step(Update<T, G> u, Rule rule) {
  using A = Wide<T>;
  const int64_t i = (int64_t{blockIdx.x} * kThreads + threadIdx.x) * kEach, count = u.n - i;
  if (count <= 0) return;
  const bool whole = u.packs && count >= kEach;
  A p[kEach], g[kEach], m[kEach] = {}, v[kEach] = {};
  LoadSome(u.grad + i, whole, count, g);
  if (u.master != nullptr)
    LoadSome(u.master + i, whole, count, p);
  else
    LoadSome(u.param + i, whole, count, p);
  if (u.first != nullptr) LoadSome(u.first + i, whole, count, m);
  if (u.second != nullptr) LoadSome(u.second + i, whole, count, v);
  const A factor = u.factor32 != nullptr ? As<A>(*u.factor32) : u.factor64 != nullptr ? As<A>(*u.factor64) : A(1);
  bool decays[kEach];
  Decays(u.undecayed, i, decays);
#pragma unroll
  for (int k = 0; k < kEach; ++k) rule(decays[k], u.first != nullptr, factor * g[k], m[k], v[k], p[k]);
  if (u.first != nullptr) StoreSome(u.first + i, whole, count, m);
  if (u.second != nullptr) StoreSome(u.second + i, whole, count, v);
  if (u.master != nullptr) StoreSome(u.master + i, whole, count, p);
  if (sizeof(T) > 2 || !u.stochastic) return StoreSome(u.param + i, whole, count, p);
  T out[kEach];
  Sequence sequence;
  int r = FirstOf(0, u.drawn.count, [&](int k) { return u.drawn[k].begin > i; }) - 1;
  ops::RoundingKeyRange range = u.drawn[r];
#pragma unroll
  for (int k = 0; k < kEach; ++k) {
    while (r + 1 < u.drawn.count && u.drawn[r + 1].begin <= i + k) range = u.drawn[++r];
    out[k] = Rounded<T>(static_cast<float>(p[k]), sequence.At(range.key, static_cast<uint64_t>(i + k + range.shift)));
  }
  StoreSome(u.param + i, whole, count, out);
}

template <class T, class G, class Op>
Update<T, G> UpdateOf(const Op& o, const Tensor& first, const Tensor& second, const Context& c) {
  using A = Wide<T>;
  Update<T, G> u = {.param = At<T>(o.param),
                    .grad = At<G>(o.grad),
                    .first = At<A>(first),
                    .second = At<A>(second),
                    .master = At<A>(o.master),
                    .factor32 = nullptr,
                    .factor64 = nullptr,
                    .n = o.param.numel(),
                    .packs = false,
                    .stochastic = o.rounding_keys != nullptr,
                    .undecayed = {},
                    .drawn = {}};
  if (!o.factor.empty()) {
    if (o.factor.dtype() == DType::kF64)
      u.factor64 = At<double>(o.factor);
    else
      u.factor32 = At<float>(o.factor);
  }
  u.packs = PacksFit(kEach, kEach, {&o.param, &o.grad, &first, &second, &o.master});
  std::byte* workspace = c.workspace;
  if (o.undecayed != nullptr) u.undecayed = Tell(*o.undecayed, workspace, c.stream);
  if (o.rounding_keys != nullptr) {
    std::vector<ops::RoundingKeyRange> of_step = *o.rounding_keys;
    for (ops::RoundingKeyRange& r : of_step) r.key = ops::KeyOf(r, o.step);
    u.drawn = Tell(of_step, workspace, c.stream);
  }
  return u;
}

// Calls f.operator()<T, G>() with the types of the parameter and its gradient.
template <class Op, class F>
void ForTypes(const Op& o, F f) {
  ForFloat(o.param.dtype(),
           [&]<class T>() { ForFloat(o.grad.dtype(), [&]<class G>() { f.template operator()<T, G>(); }); });
}

template <class T, class G, class Rule>
void LaunchStep(const Update<T, G>& u, const Rule& rule, const Context& c) {
  Launch(Step<T, G, Rule>, dim3(static_cast<unsigned>(CeilDiv(u.n, int64_t{kThreads} * kEach))), dim3(kThreads), 0,
         c.stream, u, rule);
}

// ---- Sums ----

struct Square {
  template <class A>
  __device__ A operator()(A x) const {
    return x * x;
  }
};

// Packs are summed in A, and their sums in double. Block b has part b of [0, n): `part` elements, a multiple of 16
// bytes.
template <class T, class Term>
__global__ void __launch_bounds__(kThreads) SumParts(const T* in, int64_t n, int64_t part, Term term, double* partial) {
  using A = Wide<T>;
  double sum = 0;
  const int64_t first = blockIdx.x * part;
  if (first < n) {
    ForRow(
        in + first, n - first < part ? n - first : part, static_cast<int>(threadIdx.x), kThreads,
        [&](int64_t, const auto& values) {
          A of_pack = 0;
#pragma unroll
          for (int k = 0; k < kPerLoad<T>; ++k) of_pack += term(values[k]);
          sum += static_cast<double>(of_pack);
        },
        [&](int64_t, A value) { sum += static_cast<double>(term(value)); });
  }
  sum = BlockSum(sum);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

template <class A>
__global__ void __launch_bounds__(1024)
    AddParts(const double* partial, int parts, double factor, A* out, bool accumulate) {
  const double sum = BlockSum(static_cast<int>(threadIdx.x) < parts ? partial[threadIdx.x] : 0.0);
  if (threadIdx.x == 0) *out = static_cast<A>((accumulate ? static_cast<double>(*out) : 0.0) + factor * sum);
}

// A warp adds the parts of each block of a norm; then one thread adds the blocks, rounding each sum to A.
template <class A>
__global__ void __launch_bounds__(kThreads)
    AddNormBlocks(const double* partial, int64_t parts, A* out, bool accumulate) {
  constexpr int64_t kParts = ops::kNormBlock / ops::rules::kNormPart;  // per block
  constexpr int kWarps = kThreads / kWarp;
  __shared__ double of_blocks[kWarps];
  const int lane = static_cast<int>(threadIdx.x) % kWarp, warp = static_cast<int>(threadIdx.x) / kWarp;
  A total = accumulate && threadIdx.x == 0 ? *out : A(0);
  for (int64_t first = 0; first < parts; first += kWarps * kParts) {
    const int64_t begin = first + warp * kParts, end = begin + kParts < parts ? begin + kParts : parts;
    double sum = 0;
    for (int64_t i = begin + lane; i < end; i += kWarp) sum += partial[i];
    sum = WarpSum(sum);
    if (lane == 0) of_blocks[warp] = sum;
    __syncthreads();
    if (threadIdx.x == 0) {
      for (int w = 0; w < kWarps && first + w * kParts < parts; ++w)
        total = static_cast<A>(static_cast<double>(total) + of_blocks[w]);
    }
    __syncthreads();  // the values have been read
  }
  if (threadIdx.x == 0) *out = total;
}

template <class A>
__global__ void Factor(const A* squared_norm, A* out, double max_norm, double scale) {
  const double factor = max_norm / (scale * std::sqrt(static_cast<double>(*squared_norm)) + 1e-6);
  *out = static_cast<A>(scale * (factor > 1 ? 1 : factor));  // a NaN norm gives NaN, so that it is noticed
}

}  // namespace

void Compute(const ops::SgdStep& o, const Context& c) {
  ForTypes(o, [&]<class T, class G>() {
    using A = Wide<T>;
    const A momentum = static_cast<A>(o.momentum_factor);
    const Sgd<A> rule{static_cast<A>(o.lr), static_cast<A>(o.weight_decay), momentum, A(o.nesterov ? 1 : 0),
                      o.nesterov ? momentum : A(1)};
    LaunchStep(UpdateOf<T, G>(o, o.momentum, Tensor(), c), rule, c);
  });
}

void Compute(const ops::AdamStep& o, const Context& c) {
  ForTypes(o, [&]<class T, class G>() {
    using A = Wide<T>;
    const double t = static_cast<double>(o.step);
    const double rate = o.lr / (1 - std::pow(o.beta1, t));       // the learning rate and the first bias correction
    const double root = 1 / std::sqrt(o.variance_correction());  // the second, under the square root
    const Adam<A> rule{static_cast<A>(o.beta1),
                       static_cast<A>(1 - o.beta1),
                       static_cast<A>(o.kept_variance()),
                       static_cast<A>(1 - o.kept_variance()),
                       static_cast<A>(rate),
                       static_cast<A>(root),
                       static_cast<A>(o.eps),
                       static_cast<A>(o.decoupled ? 0 : o.weight_decay),
                       static_cast<A>(o.decoupled ? 1 - o.lr * o.weight_decay : 1)};
    LaunchStep(UpdateOf<T, G>(o, o.m, o.v, c), rule, c);
  });
}

void Compute(const ops::Sum& o, const Context& c) {
  ForFloat(o.in.dtype(), [&]<class T>() {
    const int64_t n = o.in.numel();
    const auto parts = static_cast<unsigned>(c.workspace_bytes / sizeof(double));
    auto* partial = reinterpret_cast<double*>(c.workspace);
    const int64_t part = parts == 0 ? 0 : CeilDiv(CeilDiv(n, parts), kPerLoad<T>) * kPerLoad<T>;
    Launch(SumParts<T, std::identity>, dim3(parts), dim3(kThreads), 0, c.stream, At<T>(o.in), n, part, std::identity(),
           partial);
    Launch(AddParts<Wide<T>>, dim3(1), dim3(1024), 0, c.stream, partial, static_cast<int>(parts), o.factor,
           At<Wide<T>>(o.out), o.accumulate);
  });
}

void Compute(const ops::SquaredNorm& o, const Context& c) {
  static_assert(ops::kNormBlock % ops::rules::kNormPart == 0);
  ForFloat(o.in.dtype(), [&]<class T>() {
    const int64_t n = o.in.numel(), parts = CeilDiv(n, ops::rules::kNormPart);
    auto* partial = reinterpret_cast<double*>(c.workspace);
    Launch(SumParts<T, Square>, dim3(static_cast<unsigned>(parts)), dim3(kThreads), 0, c.stream, At<T>(o.in), n,
           ops::rules::kNormPart, Square(), partial);
    Launch(AddNormBlocks<Wide<T>>, dim3(1), dim3(kThreads), 0, c.stream, partial, parts, At<Wide<T>>(o.out),
           o.accumulate);
  });
}

void Compute(const ops::ClipFactor& o, const Context& c) {
  ForFloat(o.out.dtype(), [&]<class T>() {
    using A = Wide<T>;
    Launch(Factor<A>, dim3(1), dim3(1), 0, c.stream, At<A>(o.squared_norm), At<A>(o.out), o.max_norm, o.scale);
  });
}

}  // namespace twofold::cuda
