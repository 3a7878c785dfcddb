// Parameter updates, and the sums that they and the loss need.
//
// The update applies to the master copy, or to the parameter itself if there is none. Masters and moments have type A,
// so only the gradient and a BF16 or F16 parameter are converted.
#include <algorithm>
#include <bit>
#include <cmath>

#include "kernels/cpu/kernels.h"
#include "kernels/cpu/vector_math.h"

namespace twofold::cpu {
namespace {

// f(first, count, decays) for the runs of a piece [begin, begin + n) with uniform weight decay.
template <class F>
void ForDecayedRuns(const std::vector<ops::ElementRange>* undecayed, int64_t begin, int64_t n, F f) {
  if (undecayed == nullptr) return f(begin, n, true);
  const int64_t end = begin + n;
  auto range = std::partition_point(undecayed->begin(), undecayed->end(),
                                    [begin](const ops::ElementRange& r) { return r.end <= begin; });
  for (int64_t at = begin; at < end;) {
    const bool inside = range != undecayed->end() && range->begin <= at;
    int64_t to = end;
    if (inside) {
      to = std::min((range++)->end, end);
    } else if (range != undecayed->end()) {
      to = std::min(range->begin, end);
    }
    f(at, to - at, !inside);
    at = to;
  }
}

double ValueOr1(const Tensor& factor) {
  if (factor.empty()) return 1;
  return factor.dtype() == DType::kF64 ? *factor.data<double>() : static_cast<double>(*factor.data<float>());
}

// to[i] = from[i], rounded stochastically with the random bits of element first + i.
void RoundStochastically(const float* from, const Tensor& to, int64_t first, int64_t n,
                         const std::vector<ops::RoundingKeyRange>& draws, int64_t step) {
  auto range = std::partition_point(draws.begin(), draws.end(),
                                    [first](const ops::RoundingKeyRange& r) { return r.begin <= first; });
  auto* bits = static_cast<uint16_t*>(AddressOf(to, first));
  const bool bf16 = to.dtype() == DType::kBF16;
  for (int64_t at = 0; at < n;) {
    const int64_t end = range == draws.end() ? n : std::min(n, range->begin - first);
    const ops::RoundingKeyRange& r = *(range - 1);
    const PhiloxKey key = ops::KeyOf(r, step);
    for (; at < end; ++at) {
      const auto place = static_cast<uint64_t>(first + at + r.shift);
      const uint32_t draw = Philox(key, place / 4)[place % 4], x = std::bit_cast<uint32_t>(from[at]);
      bits[at] = bf16 ? ops::RoundedBF16(x, draw) : ops::RoundedF16(x, draw);
    }
    ++range;
  }
}

// update(first, count, decays, weights, gradient) for pieces. Then a BF16 or F16 parameter is rounded, from its master
// or from its own new value.
template <class A, class Step, class F>
void UpdateChunks(const Step& o, ThreadPool& pool, F update) {
  const Tensor& leading = o.master.empty() ? o.param : o.master;
  const Source<A> weights_of(leading), gradient(o.grad);
  const Sink<A> sink(leading);
  const A factor = static_cast<A>(ValueOr1(o.factor));
  const std::vector<ops::ElementRange>* undecayed = o.undecayed.get();
  ForChunks(pool, o.param.numel(), [&](int64_t first, int64_t count) {
    A buffer[kChunk], own[kChunk];
    A* weights = sink.At(first, own);
    if (weights == own) weights_of.At(first, count, own);
    const A* grad = gradient.At(first, count, buffer);
    if (factor != 1) {
      MapChunk(count, buffer, grad, [factor](A g) { return factor * g; });
      grad = buffer;
    }
    ForDecayedRuns(undecayed, first, count, [&](int64_t begin, int64_t n, bool decays) {
      update(begin, n, decays, weights + (begin - first), grad + (begin - first));
    });
    if constexpr (std::is_same_v<A, float>) {
      if (o.rounding_keys != nullptr)
        return RoundStochastically(weights, o.param, first, count, *o.rounding_keys, o.step);
    }
    Sink<A>(o.param).Put(first, count, weights);
  });
}

// The loops take their factors by value, so that the compiler knows that no store changes them.
template <class A>
struct SgdFactors {
  A lr, decay, momentum, of_gradient, of_momentum;
};

// With momentum: m = momentum * m + g, and the step is m, or g + momentum * m (Nesterov's).
template <class A>
void SgdChunk(int64_t n, SgdFactors<A> f, const A* grad, A* m, A* w) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const A g = grad[i] + f.decay * w[i], moment = f.momentum * m[i] + g;
    m[i] = moment;
    w[i] = w[i] - f.lr * (f.of_gradient * g + f.of_momentum * moment);
  }
}

template <class A>
void Sgd(const ops::SgdStep& o, ThreadPool& pool) {
  const A lr = static_cast<A>(o.lr), momentum = static_cast<A>(o.momentum_factor);
  A* m = o.momentum.empty() ? nullptr : o.momentum.data<A>();
  UpdateChunks<A>(o, pool, [=, &o](int64_t first, int64_t count, bool decays, A* w, const A* grad) {
    const A decay = decays ? static_cast<A>(o.weight_decay) : A(0);
    if (m != nullptr) {
      const SgdFactors<A> factors{lr, decay, momentum, A(o.nesterov ? 1 : 0), o.nesterov ? momentum : A(1)};
      return SgdChunk(count, factors, grad, m + first, w);
    }
    MapChunk(count, w, w, grad, [lr, decay](A x, A g) { return x - lr * (g + decay * x); });
  });
}

template <class A>
struct AdamFactors {
  A keep1, take1, keep2, take2, rate, root, eps, decay_in_gradient, kept;
};

template <class A>
void AdamChunk(int64_t n, AdamFactors<A> f, const A* grad, A* m, A* v, A* w) {
#pragma omp simd
  for (int64_t i = 0; i < n; ++i) {
    const A g = grad[i] + f.decay_in_gradient * w[i];
    const A mean = f.keep1 * m[i] + f.take1 * g, square = f.keep2 * v[i] + f.take2 * (g * g);
    m[i] = mean;
    v[i] = square;
    w[i] = f.kept * w[i] - f.rate * (mean / (std::sqrt(square) * f.root + f.eps));
  }
}

template <class A>
void Adam(const ops::AdamStep& o, ThreadPool& pool) {
  const double t = static_cast<double>(o.step);
  const double rate = o.lr / (1 - std::pow(o.beta1, t));       // the learning rate with the first bias correction
  const double root = 1 / std::sqrt(o.variance_correction());  // the second bias correction, under the square root
  const double kept = o.decoupled ? 1 - o.lr * o.weight_decay : 1, in_gradient = o.decoupled ? 0 : o.weight_decay;
  const AdamFactors<A> factors{static_cast<A>(o.beta1),
                               static_cast<A>(1 - o.beta1),
                               static_cast<A>(o.kept_variance()),
                               static_cast<A>(1 - o.kept_variance()),
                               static_cast<A>(rate),
                               static_cast<A>(root),
                               static_cast<A>(o.eps),
                               static_cast<A>(in_gradient),
                               static_cast<A>(kept)};
  AdamFactors<A> undecayed = factors;
  undecayed.decay_in_gradient = 0, undecayed.kept = 1;
  A* m = o.m.data<A>();
  A* v = o.v.data<A>();
  UpdateChunks<A>(o, pool, [=](int64_t first, int64_t count, bool decays, A* w, const A* grad) {
    AdamChunk(count, decays ? factors : undecayed, grad, m + first, v + first, w);
  });
}

// Pieces are summed in A, and their sums are added in double.
template <class A, class F>
double SumTerms(const Tensor& in, ThreadPool& pool, F term) {
  const Source<A> source(in);
  return pool.ParallelSum(in.numel(), 16 * kChunk, [&](int64_t begin, int64_t end) {
    double sum = 0;
    InChunks(begin, end, [&](int64_t first, int64_t count) {
      A buffer[kChunk];
      const A* x = source.At(first, count, buffer);
      sum += static_cast<double>(SumOf<A>(count, [x, term](int64_t i) { return term(x[i]); }));
    });
    return sum;
  });
}

template <class A>
void StoreScalar(const Tensor& out, double value, bool accumulate) {
  A& to = *out.data<A>();
  to = static_cast<A>((accumulate ? static_cast<double>(to) : 0.0) + value);
}

}  // namespace

void Compute(const ops::SgdStep& o, Context& c) {
  VisitWide(o.param.dtype(), [&]<class A>() { Sgd<A>(o, c.pool); });
}

void Compute(const ops::AdamStep& o, Context& c) {
  VisitWide(o.param.dtype(), [&]<class A>() { Adam<A>(o, c.pool); });
}

void Compute(const ops::Sum& o, Context& c) {
  VisitWide(o.in.dtype(), [&]<class A>() {
    StoreScalar<A>(o.out, o.factor * SumTerms<A>(o.in, c.pool, [](A x) { return x; }), o.accumulate);
  });
}

void Compute(const ops::SquaredNorm& o, Context& c) {
  VisitWide(o.in.dtype(), [&]<class A>() {
    const int64_t n = o.in.numel();
    if (n == 0) return StoreScalar<A>(o.out, 0, o.accumulate);
    for (int64_t first = 0; first < n; first += ops::kNormBlock) {
      const Tensor block = o.in.Flat().Slice(first, std::min(ops::kNormBlock, n - first));
      StoreScalar<A>(o.out, SumTerms<A>(block, c.pool, [](A x) { return x * x; }), o.accumulate || first > 0);
    }
  });
}

void Compute(const ops::ClipFactor& o, Context&) {
  VisitWide(o.out.dtype(), [&]<class A>() {
    const double norm = o.scale * std::sqrt(static_cast<double>(*o.squared_norm.data<A>()));
    const double factor = o.max_norm / (norm + 1e-6);
    StoreScalar<A>(o.out, o.scale * (factor > 1 ? 1 : factor), false);  // a NaN norm gives NaN, so that it is noticed
  });
}

}  // namespace twofold::cpu
