// SwiGLU (Shazeer 2020).
#include "kernels/cuda/functions.h"
#include "kernels/cuda/sweep.h"

namespace twofold::cuda {
namespace {

template <class T>
struct SwiGlu {
  const T* x;
  T* y;
  int64_t columns;
  template <int N>
  struct Loaded {
    Raw<T, N> gate, up;
  };
  template <int N>
  __device__ Loaded<N> Load(int64_t row, int64_t column) const {
    const T* gate = x + 2 * row * columns + column;
    return {LoadRaw<N>(gate), LoadRaw<N>(gate + columns)};
  }
  template <int N>
  __device__ void Finish(int64_t row, int64_t column, const Loaded<N>& loaded) const {
    Wide<T> result[N];
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const Wide<T> g = As<Wide<T>>(loaded.gate[i]);
      result[i] = g * Logistic<T>(g) * As<Wide<T>>(loaded.up[i]);
    }
    StorePack(y + row * columns + column, result);
  }
};

// d silu(g) / dg = s + g s (1 - s) with s = sigmoid(g).
template <class T>
struct SwiGluSlopes {
  const T *x, *dy;
  T* dx;  // may be x
  int64_t columns;
  template <int N>
  struct Loaded {
    Raw<T, N> gate, up, dy;
  };
  template <int N>
  __device__ Loaded<N> Load(int64_t row, int64_t column) const {
    const T* gate = x + 2 * row * columns + column;
    return {LoadRaw<N>(gate), LoadRaw<N>(gate + columns), LoadRaw<N>(dy + row * columns + column)};
  }
  template <int N>
  __device__ void Finish(int64_t row, int64_t column, const Loaded<N>& loaded) const {
    using A = Wide<T>;
    A dgate[N], dup[N];
#pragma unroll
    for (int i = 0; i < N; ++i) {
      const A g = As<A>(loaded.gate[i]), s = Logistic<T>(g), u = As<A>(loaded.up[i]), d = As<A>(loaded.dy[i]);
      dup[i] = d * (g * s);
      dgate[i] = d * u * (s + g * s * (1 - s));
    }
    T* to = dx + 2 * row * columns + column;
    StorePack(to, dgate);
    StorePack(to + columns, dup);
  }
};

}  // namespace

void Compute(const ops::SwiGluForward& o, const Context& c) {
  ForFloat(o.x.dtype(), [&]<class T>() {
    const int64_t columns = Columns(o.y);
    SweepRows<PackOf<T>>(SwiGlu<T>{At<T>(o.x), At<T>(o.y), columns}, Rows(o.y), columns,
                         PacksFit(PackOf<T>, columns, {&o.x, &o.y}), c);
  });
}

void Compute(const ops::SwiGluBackward& o, const Context& c) {
  ForFloat(o.x.dtype(), [&]<class T>() {
    const int64_t columns = Columns(o.dy);
    const SwiGluSlopes<T> f{At<T>(o.x), At<T>(o.dy), At<T>(o.dx), columns};
    SweepRows<PackOf<T>>(f, Rows(o.dy), columns, PacksFit(PackOf<T>, columns, {&o.x, &o.dy, &o.dx}), c);
  });
}

}  // namespace twofold::cuda
