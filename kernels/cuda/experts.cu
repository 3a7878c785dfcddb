// Mixture of experts: routing, and copying rows of tokens to expert slots and back.

#include "kernels/cuda/kernels.h"
#include "kernels/cuda/reduce.h"
#include "kernels/cuda/row_loop.h"

namespace twofold::cuda {
namespace {

constexpr int kThreads = 128, kTokensABlock = kThreads / kWarp;

// ---- Routing ----

// A logit and its place: the larger logit wins, ties go to the first; place -1: none. Only logit 0 may be NaN, and then
// it wins.
template <class A>
struct Best {
  A value;
  int place;
  __device__ void Meet(A other_value, int other) {
    if (other < 0) return;
    const bool nan = other_value != other_value;
    if (place < 0 || nan || other_value > value || (other_value == value && other < place))
      value = other_value, place = other;
  }
};

// One warp per token. Chooses the k largest logits; ties go to the first. When only NaNs are left, choice number j is
// expert j.
template <class T>
__global__ void __launch_bounds__(kThreads) RouteTokens(const T* logits, int64_t tokens, int experts, int k,
                                                        Wide<T>* probabilities, Wide<T>* weights, int32_t* choices) {
  using A = Wide<T>;
  const int64_t token = int64_t{blockIdx.x} * kTokensABlock + threadIdx.x / kWarp;
  if (token >= tokens) return;  // the whole warp returns
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const T* x = logits + token * experts;
  A* p = probabilities + token * experts;
  int32_t* chosen = choices + token * k;
  A last_value = 0, top = 0;
  int last = -1;
  for (int j = 0; j < k; ++j) {
    Best<A> best{0, -1};
    for (int i = lane; i < experts; i += kWarp) {
      const A value = As<A>(x[i]);
      const bool left = j == 0 || value < last_value || (value == last_value && i > last);
      if (left && (value == value || i == 0)) best.Meet(value, i);
    }
    for (int step = kWarp / 2; step > 0; step /= 2) {
      const A value = __shfl_xor_sync(kAllLanes, best.value, step);
      best.Meet(value, __shfl_xor_sync(kAllLanes, best.place, step));
    }
    last = best.place < 0 ? j : best.place;
    last_value = As<A>(x[last]);
    if (j == 0) top = last_value;
    if (lane == 0) chosen[j] = last;
  }
  A sum = 0;
  for (int i = lane; i < experts; i += kWarp) sum += std::exp(As<A>(x[i]) - top);
  sum = WarpSum(sum);
  for (int i = lane; i < experts; i += kWarp) p[i] = std::exp(As<A>(x[i]) - top) / sum;
  __syncwarp();  // lane 0 has written `chosen`
  A of_chosen = 0;
  for (int j = 0; j < k; ++j) of_chosen += std::exp(As<A>(x[chosen[j]]) - top) / sum;
  for (int j = lane; j < k; j += kWarp) {
    const A mine = std::exp(As<A>(x[chosen[j]]) - top) / sum;
    weights[token * k + j] = k == 1 ? mine : mine / of_chosen;
  }
}

constexpr int kCounted = ops::kChoicesCounted;

// Loads the choices of a thread block for all its threads; returns how many there are.
__device__ inline int LoadChoices(const int32_t* chosen, int64_t choices, int32_t* here) {
  const int64_t first = int64_t{blockIdx.x} * kCounted;
  const int n = static_cast<int>(choices - first < kCounted ? choices - first : kCounted);
  for (int i = static_cast<int>(threadIdx.x); i < n; i += static_cast<int>(blockDim.x)) here[i] = chosen[first + i];
  __syncthreads();
  return n;
}

// counts[block, e]: how many of the block's choices are expert e. Thread e looks at all of them.
__global__ void __launch_bounds__(1024)
    CountChoices(const int32_t* chosen, int64_t choices, int experts, int32_t* counts) {
  __shared__ int32_t here[kCounted];
  const int n = LoadChoices(chosen, choices, here);
  const int expert = static_cast<int>(threadIdx.x);
  if (expert >= experts) return;
  int32_t count = 0;
  for (int i = 0; i < n; ++i) count += here[i] == expert;
  counts[int64_t{blockIdx.x} * experts + expert] = count;
}

// all[e] = the sum over blocks of counts[block, e].
__global__ void __launch_bounds__(1024) SumCounts(const int32_t* counts, int64_t blocks, int experts, int32_t* all) {
  const int expert = static_cast<int>(threadIdx.x);
  if (expert >= experts) return;
  int32_t sum = 0;
  for (int64_t b = 0; b < blocks; ++b) sum += counts[b * experts + expert];
  all[expert] = sum;
}

// Thread e numbers the choices of expert e, continuing from the previous blocks. `all`: how many choices each expert
// has, if numbers go on from expert to expert; else null.
__global__ void __launch_bounds__(1024) NumberChoices(const int32_t* chosen, int64_t choices, int experts,
                                                      const int32_t* counts, const int32_t* all, int32_t* places) {
  __shared__ int32_t here[kCounted];
  const int64_t first = int64_t{blockIdx.x} * kCounted;
  const int n = LoadChoices(chosen, choices, here);
  const int expert = static_cast<int>(threadIdx.x);
  if (expert >= experts) return;
  int32_t next = 0;
  for (int e = 0; all != nullptr && e < expert; ++e) next += all[e];
  for (unsigned b = 0; b < blockIdx.x; ++b) next += counts[int64_t{b} * experts + expert];
  for (int i = 0; i < n; ++i) {
    if (here[i] == expert) places[first + i] = next++;
  }
}

dim3 AThreadForEach(int64_t experts) { return dim3(static_cast<unsigned>(CeilDiv(experts, kWarp) * kWarp)); }

int32_t* Count(const ops::Choices& choices, int64_t experts, const Context& c) {
  auto* counts = reinterpret_cast<int32_t*>(c.workspace);
  const int64_t n = choices.experts.numel();
  Launch(CountChoices, dim3(static_cast<unsigned>(CeilDiv(n, kCounted))), AThreadForEach(experts), 0, c.stream,
         At<int32_t>(choices.experts), n, static_cast<int>(experts), counts);
  return counts;
}

// One warp per token. Through the weights w_j = p_j / sum of the chosen p: dlogit_j = w_j (dw_j - sum of w dw). With a
// single choice w = p: dlogit_i = p (1{i chosen} - p_i) dw. The gradient of the load-balancing loss is added,
// d P_i / d p_ti = 1 / T, through the softmax.
template <class T>
__global__ void __launch_bounds__(kThreads)
    RouteTokensBackward(const Wide<T>* probabilities, const Wide<T>* dweights, const int32_t* choices,
                        const int32_t* counts, int64_t tokens, int experts, int k, Wide<T> share, Wide<T> factor,
                        T* dlogits) {
  using A = Wide<T>;
  const int64_t token = int64_t{blockIdx.x} * kTokensABlock + threadIdx.x / kWarp;
  if (token >= tokens) return;
  const int lane = static_cast<int>(threadIdx.x) % kWarp;
  const A* p = probabilities + token * experts;
  const A* dw = dweights + token * k;
  const int32_t* chosen = choices + token * k;
  A of_chosen = 0, mean = 0, balance = 0;
  for (int j = 0; j < k; ++j) of_chosen += p[chosen[j]];
  for (int j = 0; j < k; ++j) mean += p[chosen[j]] / of_chosen * dw[j];
  if (counts != nullptr) {
    for (int i = lane; i < experts; i += kWarp) balance += p[i] * share * static_cast<A>(counts[i]);
    balance = WarpSum(balance);
  }
  for (int i = lane; i < experts; i += kWarp) {
    A d = 0;
    if (k == 1) {
      d = p[chosen[0]] * dw[0] * (A(i == chosen[0]) - p[i]);
    } else {
      for (int j = 0; j < k; ++j) d += i == chosen[j] ? p[i] / of_chosen * (dw[j] - mean) : A(0);
    }
    if (counts != nullptr) d += factor * p[i] * (share * static_cast<A>(counts[i]) - balance);
    Store(dlogits + token * experts + i, d);
  }
}

// ---- Rows to slots and back ----

// The rows of slots: an expert has `capacity` of them, the next one's begin `expert` rows later. 0: places are rows.
struct SlotRows {
  int64_t capacity, expert;
  explicit SlotRows(const Tensor& slots)
      : capacity(slots.dim(-2)), expert(slots.shape().rank() == 3 ? slots.dim(-2) : 0) {}
  __device__ int64_t Of(int32_t of, int32_t place) const { return of * expert + place; }
};

// The choice whose row each slot takes; -1 for none.
__global__ void __launch_bounds__(256) NoChoices(int32_t* taken_by, int64_t slots) {
  const int64_t slot = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (slot < slots) taken_by[slot] = -1;
}
__global__ void __launch_bounds__(256)
    TakeSlots(const int32_t* experts, const int32_t* places, int64_t choices, SlotRows rows, int32_t* taken_by) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i < choices && places[i] < rows.capacity) taken_by[rows.Of(experts[i], places[i])] = static_cast<int32_t>(i);
}

// Calls f(column, count) for the packs of a row of `columns` that belong to `thread` of `threads`; count = kPack if
// rows are whole packs.
template <int kPack, class F>
__device__ inline void ForColumns(int columns, bool packs, int thread, int threads, F f) {
#pragma unroll 4
  for (int column = thread * kPack; column < columns; column += threads * kPack) {
    f(column, packs || columns - column >= kPack ? kPack : columns - column);
  }
}

// One block per slot: it writes the slot once, with its row or zeros.
template <class T>
__global__ void __launch_bounds__(kThreads)
    FillSlots(const T* x, const int32_t* taken_by, const Wide<T>* weights, int k, int columns, bool packs, T* slots) {
  using A = Wide<T>;
  constexpr int kPack = kPerLoad<T>;
  const int32_t choice = taken_by[blockIdx.x];
  T* to = slots + int64_t{blockIdx.x} * columns;
  const T* from = x + int64_t{choice < 0 ? 0 : choice / k} * columns;
  const A weight = choice < 0 ? A(0) : weights != nullptr ? weights[choice] : A(1);
  ForColumns<kPack>(columns, packs, static_cast<int>(threadIdx.x), static_cast<int>(blockDim.x),
                    [&](int column, int count) {
                      A values[kPack] = {};
                      if (choice >= 0) LoadSome(from + column, packs, count, values);
                      if (weights != nullptr) {
#pragma unroll
                        for (int i = 0; i < kPack; ++i) values[i] *= weight;
                      }
                      StoreSome(to + column, packs, count, values);
                    });
}

// One block per token.
template <class T>
__global__ void __launch_bounds__(kThreads)
    AddSlots(const T* slots, const int32_t* experts, const int32_t* places, const Wide<T>* weights, int k,
             SlotRows rows, int columns, bool packs, T* y) {
  using A = Wide<T>;
  constexpr int kPack = kPerLoad<T>;
  const int64_t token = blockIdx.x;
  ForColumns<kPack>(columns, packs, static_cast<int>(threadIdx.x), static_cast<int>(blockDim.x),
                    [&](int column, int count) {
                      A sum[kPack] = {};
                      for (int j = 0; j < k; ++j) {
                        const int64_t at = token * k + j;
                        if (places[at] >= rows.capacity) continue;
                        const A weight = weights != nullptr ? weights[at] : A(1);
                        A values[kPack];
                        LoadSome(slots + rows.Of(experts[at], places[at]) * columns + column, packs, count, values);
#pragma unroll
                        for (int i = 0; i < kPack; ++i) sum[i] += weight * values[i];
                      }
                      StoreSome(y + token * columns + column, packs, count, sum);
                    });
}

// One warp per choice.
template <class T>
__global__ void __launch_bounds__(kThreads)
    WeighSlots(const T* slots, const int32_t* experts, const int32_t* places, const T* dy, int64_t choices, int k,
               SlotRows rows, int columns, bool packs, Wide<T>* dweights) {
  using A = Wide<T>;
  constexpr int kPack = kPerLoad<T>;
  const int64_t at = int64_t{blockIdx.x} * kTokensABlock + threadIdx.x / kWarp;
  if (at >= choices) return;  // the whole warp returns
  A sum = 0;
  if (places[at] < rows.capacity) {
    const T* x = slots + rows.Of(experts[at], places[at]) * columns;
    const T* d = dy + at / k * columns;
    ForColumns<kPack>(columns, packs, static_cast<int>(threadIdx.x) % kWarp, kWarp, [&](int column, int count) {
      A a[kPack], b[kPack];
      LoadSome(x + column, packs, count, a);
      LoadSome(d + column, packs, count, b);
#pragma unroll
      for (int i = 0; i < kPack; ++i) sum += a[i] * b[i];
    });
  }
  sum = WarpSum(sum);
  if (threadIdx.x % kWarp == 0) dweights[at] = sum;
}

dim3 GridOf(int64_t n, int64_t each = 1) { return dim3(static_cast<unsigned>(CeilDiv(n, each))); }

}  // namespace

void Compute(const ops::RouteForward& o, const Context& c) {
  const int64_t tokens = Rows(o.logits), experts = Columns(o.logits), k = o.choices.experts.dim(1);
  ForFloat(o.logits.dtype(), [&]<class T>() {
    Launch(RouteTokens<T>, GridOf(tokens, kTokensABlock), dim3(kThreads), 0, c.stream, At<T>(o.logits), tokens,
           static_cast<int>(experts), static_cast<int>(k), At<Wide<T>>(o.probabilities), At<Wide<T>>(o.weights),
           At<int32_t>(o.choices.experts));
  });
  const int32_t* counts = Count(o.choices, experts, c);
  int32_t* all = o.counts.empty() ? nullptr : At<int32_t>(o.counts);
  if (all != nullptr) {
    Launch(SumCounts, dim3(1), AThreadForEach(experts), 0, c.stream, counts, CeilDiv(tokens * k, kCounted),
           static_cast<int>(experts), all);
  }
  Launch(NumberChoices, GridOf(tokens * k, kCounted), AThreadForEach(experts), 0, c.stream,
         At<int32_t>(o.choices.experts), tokens * k, static_cast<int>(experts), counts, all,
         At<int32_t>(o.choices.places));
}

void Compute(const ops::RouteBackward& o, const Context& c) {
  const int64_t tokens = Rows(o.dlogits), experts = Columns(o.dlogits), k = o.choices.experts.dim(1);
  int32_t* counts = nullptr;
  if (o.balance != 0 && tokens > 0) {
    counts = Count(o.choices, experts, c);
    Launch(SumCounts, dim3(1), AThreadForEach(experts), 0, c.stream, counts, CeilDiv(tokens * k, kCounted),
           static_cast<int>(experts), counts);  // into the counts of block 0: a thread reads its own only
  }
  ForFloat(o.dlogits.dtype(), [&]<class T>() {
    using A = Wide<T>;
    const double all = static_cast<double>(tokens);
    Launch(RouteTokensBackward<T>, GridOf(tokens, kTokensABlock), dim3(kThreads), 0, c.stream, At<A>(o.probabilities),
           At<A>(o.dweights), At<int32_t>(o.choices.experts), counts, tokens, static_cast<int>(experts),
           static_cast<int>(k), static_cast<A>(1.0 / (all * static_cast<double>(k))),
           static_cast<A>(o.balance * static_cast<double>(experts) / all), At<T>(o.dlogits));
  });
}

void Compute(const ops::Dispatch& o, const Context& c) {
  const int64_t columns = Columns(o.x), slots = Rows(o.slots), choices = o.choices.experts.numel();
  auto* taken_by = reinterpret_cast<int32_t*>(c.workspace);
  Launch(NoChoices, GridOf(slots, 256), dim3(256), 0, c.stream, taken_by, slots);
  Launch(TakeSlots, GridOf(choices, 256), dim3(256), 0, c.stream, At<int32_t>(o.choices.experts),
         At<int32_t>(o.choices.places), choices, SlotRows(o.slots), taken_by);
  ForFloat(o.x.dtype(), [&]<class T>() {
    Launch(FillSlots<T>, GridOf(columns == 0 ? 0 : slots), dim3(kThreads), 0, c.stream, At<T>(o.x), taken_by,
           At<Wide<T>>(o.weights), static_cast<int>(o.choices.experts.dim(1)), static_cast<int>(columns),
           PacksFit(kPerLoad<T>, columns, {&o.x, &o.slots}), At<T>(o.slots));
  });
}

void Compute(const ops::Combine& o, const Context& c) {
  const int64_t columns = Columns(o.y);
  ForFloat(o.y.dtype(), [&]<class T>() {
    Launch(AddSlots<T>, GridOf(Rows(o.y)), dim3(kThreads), 0, c.stream, At<T>(o.slots), At<int32_t>(o.choices.experts),
           At<int32_t>(o.choices.places), At<Wide<T>>(o.weights), static_cast<int>(o.choices.experts.dim(1)),
           SlotRows(o.slots), static_cast<int>(columns), PacksFit(kPerLoad<T>, columns, {&o.slots, &o.y}), At<T>(o.y));
  });
}

void Compute(const ops::CombineWeights& o, const Context& c) {
  const int64_t columns = Columns(o.dy), choices = o.choices.experts.numel();
  ForFloat(o.dy.dtype(), [&]<class T>() {
    Launch(WeighSlots<T>, GridOf(choices, kTokensABlock), dim3(kThreads), 0, c.stream, At<T>(o.slots),
           At<int32_t>(o.choices.experts), At<int32_t>(o.choices.places), At<T>(o.dy), choices,
           static_cast<int>(o.choices.experts.dim(1)), SlotRows(o.slots), static_cast<int>(columns),
           PacksFit(kPerLoad<T>, columns, {&o.slots, &o.dy}), At<Wide<T>>(o.dweights));
  });
}

}  // namespace twofold::cuda
