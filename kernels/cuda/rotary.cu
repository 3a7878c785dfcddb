// Rotary position embedding (Su et al. 2021) that rotates pairs of elements from the two halves.
#include <cmath>

#include "kernels/cuda/kernels.h"
#include "kernels/cuda/launch.h"
#include "kernels/cuda/packs.h"

namespace twofold::cuda {
namespace {

constexpr int kThreads = 256;

// Frequencies are passed as kernel arguments, this many at a time.
constexpr int kFrequencies = 128;
struct Frequencies {
  double at[kFrequencies];
};

template <class A>
__global__ void FillRotaryTable(A* table, int64_t rows, int half, int first, int count, Frequencies frequencies) {
  const int64_t item = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (item >= rows * count) return;
  const int64_t row = item / count;
  const int i = static_cast<int>(item % count);
  const double angle = static_cast<double>(row) * frequencies.at[i];
  A* to = table + row * 2 * half + first + i;
  to[0] = static_cast<A>(std::cos(angle));
  to[half] = static_cast<A>(std::sin(angle));
}

// An ops::IndexMap of rows without a dynamically indexed array, which would be in memory.
struct Positions {
  int64_t first, block, even, odd;  // offsets of even blocks and of odd ones
  template <class Index>
  __device__ int64_t Of(int64_t row) const {
    const auto i = static_cast<Index>(row + first), b = i / static_cast<Index>(block);
    return (b % 2 == 0 ? even : odd) + static_cast<int64_t>(i - b * static_cast<Index>(block));
  }
};
Positions PositionsOf(const ops::IndexMap& map) {
  return {map.first, map.block, map.offset[0], map.blocks == 2 ? map.offset[1] : map.offset[0]};
}

template <class T>
struct RotaryOf {
  const T* x;
  const Wide<T>* table;
  T* y;
  int64_t rows, items;  // items per row: first those that rotate, then those that copy
  int columns, heads, head_dim, turning;
  Wide<T> sign;
  Positions positions;
};

// An item of a row is either a pack of the first half with its partner of the second, in kHeads neighbouring heads,
// which have the same angles; or, behind the heads, 2 * kHeads packs to copy.
constexpr int kHeads = 4;

template <class T, int kPack, class Index>
__global__ void __launch_bounds__(kThreads) Rotate(RotaryOf<T> o) {
  using A = Wide<T>;
  const int64_t id = int64_t{blockIdx.x} * kThreads + threadIdx.x;
  if (id >= o.rows * o.items) return;
  const int64_t row = static_cast<Index>(id) / static_cast<Index>(o.items);
  int item = static_cast<int>(id - row * o.items);
  const T* x = o.x + row * o.columns;
  T* y = o.y + row * o.columns;
  if (item >= o.turning) {
    const int copying = static_cast<int>(o.items) - o.turning;
    item -= o.turning;
#pragma unroll
    for (int k = 0; k < 2 * kHeads; ++k) {
      const int at = o.heads * o.head_dim + (k * copying + item) * kPack;
      if (at < o.columns) *reinterpret_cast<Pack<T, kPack>*>(y + at) = *reinterpret_cast<const Pack<T, kPack>*>(x + at);
    }
    return;
  }
  const int half = o.head_dim / 2, packs = half / kPack, i = item % packs * kPack, first = item / packs * kHeads;
  const A* angles = o.table + o.positions.template Of<Index>(row) * o.head_dim + i;
  A a[kHeads][kPack], b[kHeads][kPack], cosines[kPack], sines[kPack];
#pragma unroll
  for (int h = 0; h < kHeads; ++h) {
    if (first + h >= o.heads) break;
    LoadPack(x + (first + h) * o.head_dim + i, a[h]);
    LoadPack(x + (first + h) * o.head_dim + half + i, b[h]);
  }
  LoadPack(angles, cosines);
  LoadPack(angles + half, sines);
#pragma unroll
  for (int h = 0; h < kHeads; ++h) {
    if (first + h >= o.heads) break;
    A ya[kPack], yb[kPack];
#pragma unroll
    for (int k = 0; k < kPack; ++k) {
      const A s = o.sign * sines[k];
      ya[k] = a[h][k] * cosines[k] - b[h][k] * s;
      yb[k] = b[h][k] * cosines[k] + a[h][k] * s;
    }
    StorePack(y + (first + h) * o.head_dim + i, ya);
    StorePack(y + (first + h) * o.head_dim + half + i, yb);
  }
}

template <class T, int kPack>
void RotateRows(const ops::Rotary& o, const Context& c) {
  const int64_t head_dim = o.table.dim(1), columns = Columns(o.x), rest = columns - o.heads * head_dim;
  RotaryOf<T> of{.x = At<T>(o.x),
                 .table = At<Wide<T>>(o.table),
                 .y = At<T>(o.y),
                 .rows = Rows(o.x),
                 .items = 0,
                 .columns = static_cast<int>(columns),
                 .heads = static_cast<int>(o.heads),
                 .head_dim = static_cast<int>(head_dim),
                 .turning = 0,
                 .sign = Wide<T>(o.inverse ? -1 : 1),
                 .positions = PositionsOf(ops::PositionsOr(o.positions, o.x.dim(1)))};
  of.turning = static_cast<int>(CeilDiv(o.heads, kHeads) * (head_dim / 2 / kPack));
  of.items = of.turning + (of.x == of.y ? 0 : CeilDiv(rest, int64_t{2} * kHeads * kPack));
  const int64_t blocks = CeilDiv(of.rows * of.items, kThreads);
  const bool small = of.rows * of.items < int64_t{1} << 31;
  Launch(small ? Rotate<T, kPack, uint32_t> : Rotate<T, kPack, int64_t>, dim3(static_cast<unsigned>(blocks)),
         dim3(kThreads), 0, c.stream, of);
}

}  // namespace

void Compute(const ops::RotaryTable& o, const Context& c) {
  const int64_t rows = o.table.dim(0), half = o.table.dim(1) / 2;
  for (int64_t first = 0; first < half; first += kFrequencies) {
    Frequencies frequencies = {};
    const int64_t count = std::min<int64_t>(half - first, kFrequencies);
    std::copy_n(o.frequencies.begin() + first, count, frequencies.at);
    const dim3 grid(static_cast<unsigned>(CeilDiv(rows * count, kThreads)));
    const auto launch = [&]<class A>(A* table) {
      Launch(FillRotaryTable<A>, grid, dim3(kThreads), 0, c.stream, table, rows, static_cast<int>(half),
             static_cast<int>(first), static_cast<int>(count), frequencies);
    };
    if (o.table.dtype() == DType::kF64)
      launch(At<double>(o.table));
    else
      launch(At<float>(o.table));
  }
}

void Compute(const ops::Rotary& o, const Context& c) {
  ForFloat(o.x.dtype(), [&]<class T>() {
    constexpr int kPack = kPerLoad<T>;
    const bool packs = o.table.dim(1) / 2 % kPack == 0 && PacksFit(kPack, Columns(o.x), {&o.x, &o.y, &o.table});
    if (packs)
      RotateRows<T, kPack>(o, c);
    else
      RotateRows<T, 1>(o, c);
  });
}

}  // namespace twofold::cuda
