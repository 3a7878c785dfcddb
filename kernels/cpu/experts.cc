// Mixtures of experts: routing, dispatch of token rows to the experts' slots, and combination.
//
// One thread processes each token's row from beginning to end. Only the numbering of choices, which goes in token
// order, runs on a single thread.

#include <numeric>

#include "kernels/cpu/kernels.h"
#include "kernels/cpu/vector_math.h"

namespace twofold::cpu {
namespace {

// Indices of the k largest of n values in descending order; among equals the first. If no number is left (NaN),
// chosen[j] = j.
template <class A>
void Largest(const A* values, int64_t n, int64_t k, int32_t* chosen) {
  for (int64_t j = 0; j < k; ++j) {
    int64_t best = -1;
    for (int64_t i = 0; i < n; ++i) {
      const bool left =
          j == 0 || values[i] < values[chosen[j - 1]] || (values[i] == values[chosen[j - 1]] && i > chosen[j - 1]);
      if (left && (best < 0 || values[i] > values[best])) best = i;
    }
    chosen[j] = static_cast<int32_t>(best < 0 ? j : best);
  }
}

// The slot row of each choice; calls f(j, row of the slots) for the choices of token t that have one.
class Slots {
 public:
  Slots(const ops::Choices& choices, const Tensor& slots)
      : experts_(choices.experts.data<int32_t>()),
        places_(choices.places.data<int32_t>()),
        k_(choices.experts.dim(1)),
        capacity_(slots.dim(-2)),
        expert_(slots.shape().rank() == 3 ? capacity_ : 0) {}
  int64_t choices() const { return k_; }
  template <class F>
  void ForToken(int64_t t, F f) const {
    for (int64_t j = 0; j < k_; ++j) {
      const int64_t at = t * k_ + j;
      if (places_[at] < capacity_) f(j, experts_[at] * expert_ + places_[at]);
    }
  }

 private:
  const int32_t *experts_, *places_;
  int64_t k_, capacity_, expert_;  // expert_: rows from one expert's slots to the next's; 0: places are rows
};

// The number of choices of each expert.
int32_t* Count(const ops::Choices& choices, int64_t experts, Context& c) {
  int32_t* counts = c.scratch.Take<int32_t>(experts);
  std::fill_n(counts, experts, 0);
  const int32_t* chosen = choices.experts.data<int32_t>();
  for (int64_t i = 0; i < choices.experts.numel(); ++i) ++counts[chosen[i]];
  return counts;
}

template <class A>
void RouteToken(const ops::RouteForward& o, const Source<A>& logits, int64_t t) {
  const int64_t experts = Columns(o.logits), k = o.choices.experts.dim(1);
  A buffer[kChunk];
  const A* row = logits.At(t * experts, experts, buffer);
  int32_t* chosen = o.choices.experts.data<int32_t>() + t * k;
  Largest(row, experts, k, chosen);
  A* p = o.probabilities.data<A>() + t * experts;
  const A top = row[chosen[0]];
  A sum = 0;
  for (int64_t i = 0; i < experts; ++i) sum += p[i] = Exp(row[i] - top);
  for (int64_t i = 0; i < experts; ++i) p[i] /= sum;
  A of_chosen = 0;
  for (int64_t j = 0; j < k; ++j) of_chosen += p[chosen[j]];
  A* weights = o.weights.data<A>() + t * k;
  for (int64_t j = 0; j < k; ++j) weights[j] = k == 1 ? p[chosen[j]] : p[chosen[j]] / of_chosen;
}

// Backward through w_j = p_j / sum of the chosen p: dlogit_j = w_j (dw_j - sum of w dw). With a single choice, w = p:
// dlogit_i = p (1{i chosen} - p_i) dw.
template <class A>
void WeightsBackward(const A* p, const A* dweights, const int32_t* chosen, int64_t k, int64_t experts, A* dlogits) {
  if (k == 1) {
    const A factor = p[chosen[0]] * dweights[0];
    for (int64_t i = 0; i < experts; ++i) dlogits[i] = -factor * p[i];
    dlogits[chosen[0]] += factor;
    return;
  }
  std::fill_n(dlogits, experts, A(0));
  A of_chosen = 0, mean = 0;
  for (int64_t j = 0; j < k; ++j) of_chosen += p[chosen[j]];
  for (int64_t j = 0; j < k; ++j) mean += p[chosen[j]] / of_chosen * dweights[j];
  for (int64_t j = 0; j < k; ++j) dlogits[chosen[j]] = p[chosen[j]] / of_chosen * (dweights[j] - mean);
}

}  // namespace

void Compute(const ops::RouteForward& o, Context& c) {
  const int64_t tokens = Rows(o.logits), experts = Columns(o.logits), k = o.choices.experts.dim(1);
  VisitWide(o.logits.dtype(), [&]<class A>() {
    const Source<A> logits(o.logits);
    c.pool.ParallelForEach(tokens, RowGrain(experts), [&](int64_t t) { RouteToken(o, logits, t); });
  });
  const int32_t* chosen = o.choices.experts.data<int32_t>();
  int32_t* places = o.choices.places.data<int32_t>();
  int32_t* taken = nullptr;  // by expert: the place of its next choice
  if (o.counts.empty()) {
    taken = c.scratch.Take<int32_t>(experts);
    std::fill_n(taken, experts, 0);
  } else {
    taken = Count(o.choices, experts, c);
    std::copy_n(taken, experts, o.counts.data<int32_t>());
    std::exclusive_scan(taken, taken + experts, taken, 0);
  }
  for (int64_t i = 0; i < tokens * k; ++i) places[i] = taken[chosen[i]]++;
}

// The gradient of the balance loss: d P_i / d p_ti = 1 / T, then through the softmax.
void Compute(const ops::RouteBackward& o, Context& c) {
  const int64_t tokens = Rows(o.dlogits), experts = Columns(o.dlogits), k = o.choices.experts.dim(1);
  const int32_t* counts = o.balance != 0 ? Count(o.choices, experts, c) : nullptr;
  VisitWide(o.dlogits.dtype(), [&]<class A>() {
    const Sink<A> dlogits_of(o.dlogits);
    const A share = static_cast<A>(1.0 / static_cast<double>(tokens * k));
    const A factor = static_cast<A>(o.balance * static_cast<double>(experts) / static_cast<double>(tokens));
    c.pool.ParallelForEach(tokens, RowGrain(experts), [&](int64_t t) {
      A buffer[kChunk];
      A* dlogits = dlogits_of.At(t * experts, buffer);
      const A* p = o.probabilities.data<A>() + t * experts;
      WeightsBackward(p, o.dweights.data<A>() + t * k, o.choices.experts.data<int32_t>() + t * k, k, experts, dlogits);
      if (counts != nullptr) {
        A mean = 0;
        for (int64_t i = 0; i < experts; ++i) mean += p[i] * share * static_cast<A>(counts[i]);
        for (int64_t i = 0; i < experts; ++i) dlogits[i] += factor * p[i] * (share * static_cast<A>(counts[i]) - mean);
      }
      dlogits_of.Put(t * experts, experts, dlogits);
    });
  });
}

void Compute(const ops::Dispatch& o, Context& c) {
  const int64_t columns = Columns(o.x);
  const Slots slots(o.choices, o.slots);
  c.pool.ParallelFor(o.slots.numel(), 16 * kChunk,
                     [&](int64_t begin, int64_t end) { SetZero(o.slots, begin, end - begin); });
  VisitWide(o.x.dtype(), [&]<class A>() {
    const Source<A> x_of(o.x);
    const Sink<A> slots_of(o.slots);
    c.pool.ParallelForEach(Rows(o.x), RowGrain(columns), [&](int64_t t) {
      slots.ForToken(t, [&](int64_t j, int64_t slot) {
        if (o.weights.empty()) {
          const auto bytes = static_cast<size_t>(columns * ElementSize(o.x.dtype()));
          std::memcpy(AddressOf(o.slots, slot * columns), AddressOf(o.x, t * columns), bytes);
          return;
        }
        const A weight = o.weights.data<A>()[t * slots.choices() + j];
        InChunks(0, columns, [&](int64_t first, int64_t count) {
          A buffer[kChunk], result[kChunk];
          A* to = slots_of.At(slot * columns + first, result);
          MapChunk(count, to, x_of.At(t * columns + first, count, buffer), [weight](A x) { return weight * x; });
          slots_of.Put(slot * columns + first, count, to);
        });
      });
    });
  });
}

void Compute(const ops::Combine& o, Context& c) {
  const int64_t columns = Columns(o.y);
  const Slots slots(o.choices, o.slots);
  VisitWide(o.y.dtype(), [&]<class A>() {
    const Source<A> slots_of(o.slots);
    const Sink<A> y_of(o.y);
    c.pool.ParallelForEach(Rows(o.y), RowGrain(columns), [&](int64_t t) {
      InChunks(0, columns, [&](int64_t first, int64_t count) {
        A buffer[kChunk], sum[kChunk];
        std::fill_n(sum, count, A(0));
        slots.ForToken(t, [&](int64_t j, int64_t slot) {
          const A weight = o.weights.empty() ? A(1) : o.weights.data<A>()[t * slots.choices() + j];
          MapChunk(count, sum, sum, slots_of.At(slot * columns + first, count, buffer),
                   [weight](A s, A x) { return s + weight * x; });
        });
        y_of.Put(t * columns + first, count, sum);
      });
    });
  });
}

void Compute(const ops::CombineWeights& o, Context& c) {
  const int64_t columns = Columns(o.dy);
  const Slots slots(o.choices, o.slots);
  VisitWide(o.dy.dtype(), [&]<class A>() {
    const Source<A> slots_of(o.slots), dy_of(o.dy);
    c.pool.ParallelForEach(Rows(o.dy), RowGrain(columns), [&](int64_t t) {
      A* dweights = o.dweights.data<A>() + t * slots.choices();
      std::fill_n(dweights, slots.choices(), A(0));
      slots.ForToken(t, [&](int64_t j, int64_t slot) {
        A buffer[kChunk], of_dy[kChunk];
        dweights[j] = SumOfChunks<A>(columns, [&](int64_t first, int64_t count) {
          const A* x = slots_of.At(slot * columns + first, count, buffer);
          const A* d = dy_of.At(t * columns + first, count, of_dy);
          return SumOf<A>(count, [=](int64_t i) { return x[i] * d[i]; });
        });
      });
    });
  });
}

}  // namespace twofold::cpu
