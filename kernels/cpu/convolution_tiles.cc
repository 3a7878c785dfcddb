#include "kernels/cpu/convolution_tiles.h"

#include <array>
#include <cstddef>
#include <utility>

namespace twofold::cpu {
namespace {

template <class A>
struct VectorOf;
template <>
struct VectorOf<float> {
  typedef float Aligned __attribute__((vector_size(64), aligned(4), may_alias));
};
template <>
struct VectorOf<double> {
  typedef double Aligned __attribute__((vector_size(64), aligned(8), may_alias));
};
template <class A>
using Vector = typename VectorOf<A>::Aligned;  // with any alignment

template <class A>
Vector<A> Load(const A* from) {
  return *reinterpret_cast<const Vector<A>*>(from);
}
template <class A>
void Store(A* to, const Vector<A>& v) {
  *reinterpret_cast<Vector<A>*>(to) = v;
}

template <int P, int V, class A>
void Run(const PixelTile<A>& t) {
  Vector<A> sum[P][V];
#pragma GCC unroll 16
  for (int p = 0; p < P; ++p) {
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) sum[p][v] = t.start == nullptr ? Vector<A>{} : Load(t.start + v * kVector<A>);
  }
  const int64_t step = t.x_pixel;
  for (int64_t a = 0; a < t.rows; ++a) {
    // Every fourth pixel has a pointer; the pixels between are one, two or three steps from one.
    constexpr int kBases = (P + 3) / 4;
    const A* base[kBases];
#pragma GCC unroll 4
    for (int b = 0; b < kBases; ++b) base[b] = t.x + a * t.x_row + 4 * b * step;
    const A* w = t.w + a * t.run * kVector<A>;
    for (int64_t j = 0; j < t.run; ++j, w += kVector<A>) {
      Vector<A> weight[V];
#pragma GCC unroll 4
      for (int v = 0; v < V; ++v) weight[v] = Load(w + v * t.w_panel);
#pragma GCC unroll 16
      for (int p = 0; p < P; ++p) {
        const A x = base[p / 4][p % 4 * step];
#pragma GCC unroll 4
        for (int v = 0; v < V; ++v) sum[p][v] += weight[v] * x;
      }
#pragma GCC unroll 4
      for (int b = 0; b < kBases; ++b) ++base[b];
    }
  }
#pragma GCC unroll 16
  for (int p = 0; p < P; ++p) {
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) Store(t.out + p * t.out_pixel + v * kVector<A>, sum[p][v]);
  }
}

template <int P, int V, class A>
void Run(const WeightTile<A>& t) {
  Vector<A> sum[P][V];
#pragma GCC unroll 16
  for (int p = 0; p < P; ++p) {
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) sum[p][v] = Vector<A>{};
  }
  for (int64_t i = 0; i < t.images; ++i) {
    for (int64_t r = 0; r < t.rows; ++r) {
      const A* x = t.x + i * t.x_image + r * t.x_row;
      const A* dy = t.dy + i * t.dy_image + r * t.dy_row;
      for (int64_t c = 0; c < t.columns; ++c, x += t.x_pixel, dy += t.dy_pixel) {
        Vector<A> slope[V];
#pragma GCC unroll 4
        for (int v = 0; v < V; ++v) slope[v] = Load(dy + v * kVector<A>);
#pragma GCC unroll 16
        for (int p = 0; p < P; ++p) {
          const A value = x[p];
#pragma GCC unroll 4
          for (int v = 0; v < V; ++v) sum[p][v] += slope[v] * value;
        }
      }
    }
  }
#pragma GCC unroll 16
  for (int p = 0; p < P; ++p) {
#pragma GCC unroll 4
    for (int v = 0; v < V; ++v) {
      A* out = t.out + p * kVector<A> + v * t.out_panel;
      Store(out, Load(out) + sum[p][v]);
    }
  }
}

template <class Tile>
using Function = void (*)(const Tile&);

// The functions for 1, 2, ... elements.
template <class Tile, int V, size_t... I>
constexpr auto Functions(std::index_sequence<I...>) {
  return std::array<Function<Tile>, sizeof...(I)>{&Run<static_cast<int>(I) + 1, V>...};
}

template <class Tile>
void Dispatch(const Tile& tile, int64_t count, int64_t panels) {
  static constexpr auto kOne = Functions<Tile, 1>(std::make_index_sequence<MostElements(1)>());
  static constexpr auto kTwo = Functions<Tile, 2>(std::make_index_sequence<MostElements(2)>());
  static constexpr auto kFour = Functions<Tile, 4>(std::make_index_sequence<MostElements(4)>());
  const auto i = static_cast<size_t>(count - 1);
  (panels == 1 ? kOne[i] : panels == 2 ? kTwo[i] : kFour[i])(tile);
}

}  // namespace

void Compute(const PixelTile<float>& tile, int64_t count, int64_t panels) { Dispatch(tile, count, panels); }
void Compute(const PixelTile<double>& tile, int64_t count, int64_t panels) { Dispatch(tile, count, panels); }
void Compute(const WeightTile<float>& tile, int64_t count, int64_t panels) { Dispatch(tile, count, panels); }
void Compute(const WeightTile<double>& tile, int64_t count, int64_t panels) { Dispatch(tile, count, panels); }

}  // namespace twofold::cpu
