// Sums over rows, biases, and position tables.
#include "kernels/cuda/column_reduce.h"
#include "kernels/cuda/sweep.h"

namespace twofold::cuda {
namespace {

template <class T>
struct RowTerms {
  const T* in;
  int64_t columns;
  template <int N>
  __device__ void operator()(int64_t row, int64_t column, bool whole, int64_t count, Wide<T> (&sums)[1][N]) const {
    Wide<T> x[N];
    LoadSome(in + row * columns + column, whole, count, x);
#pragma unroll
    for (int i = 0; i < N; ++i) sums[0][i] += x[i];
  }
};

// IndexMap::Of for rows. Their number plus the first position is below 2^32, so 32-bit divisions, which are fast,
// suffice.
struct RowPositions {
  uint32_t first, block;
  int blocks;
  int64_t offset[2];
  __device__ int64_t operator()(int64_t row) const {
    const uint32_t i = first + static_cast<uint32_t>(row), b = i / block;
    return (blocks == 2 && b % 2 == 1 ? offset[1] : offset[0]) + (i - b * block);
  }
};
RowPositions PositionsFor(const ops::IndexMap& positions, int64_t rows) {
  TWOFOLD_CHECK_LT(positions.first + rows, int64_t{1} << 32);
  return {static_cast<uint32_t>(positions.first),
          static_cast<uint32_t>(positions.block),
          positions.blocks,
          {positions.offset[0], positions.offset[1]}};
}
struct NoPositions {
  __device__ int64_t operator()(int64_t) const { return 0; }
};

// out = x, plus row place(r) of a table in row r.
template <class T, class Place>
struct AddTableRows {
  const T *x, *table;
  T* out;
  int64_t columns;
  Place place;
  template <int N>
  struct Loaded {
    Raw<T, N> x, table;
  };
  template <int N>
  __device__ Loaded<N> Load(int64_t row, int64_t column) const {
    return {LoadRaw<N>(x + row * columns + column), LoadRaw<N>(table + place(row) * columns + column)};
  }
  template <int N>
  __device__ void Finish(int64_t row, int64_t column, const Loaded<N>& loaded) const {
    Wide<T> y[N];
#pragma unroll
    for (int i = 0; i < N; ++i) y[i] = As<Wide<T>>(loaded.x[i]) + As<Wide<T>>(loaded.table[i]);
    StorePack(out + row * columns + column, y);
  }
};
template <class Place>
void AddTable(const Tensor& x, const Tensor& table, const Tensor& out, const Place& place, const Context& c) {
  ForFloat(x.dtype(), [&]<class T>() {
    const int64_t columns = Columns(x);
    const AddTableRows<T, Place> f{At<T>(x), At<T>(table), At<T>(out), columns, place};
    SweepRows<PackOf<T>, 4>(f, Rows(x), columns, PacksFit(PackOf<T>, columns, {&x, &table, &out}), c);
  });
}

// Positions repeat every `period` rows: row r of the table's gradient is the sum of rows r, r + period, .. of dy.
template <class T, class To>
struct SumPositions {
  const T* dy;
  To* dtable;
  int64_t columns, rows, period;
  RowPositions place;
  bool accumulate;
  template <int N>
  struct Loaded {
    Wide<T> sums[N];
  };
  template <int N>
  __device__ Loaded<N> Load(int64_t row, int64_t column) const {
    Loaded<N> loaded = {};
#pragma unroll 4
    for (int64_t r = row; r < rows; r += period) {
      const Raw<T, N> x = LoadRaw<N>(dy + r * columns + column);
#pragma unroll
      for (int i = 0; i < N; ++i) loaded.sums[i] += As<Wide<T>>(x[i]);
    }
    return loaded;
  }
  template <int N>
  __device__ void Finish(int64_t row, int64_t column, const Loaded<N>& loaded) const {
    To* to = dtable + place(row) * columns + column;
    Wide<T> sums[N];
    if (accumulate) LoadPack(to, sums);
#pragma unroll
    for (int i = 0; i < N; ++i) sums[i] = accumulate ? sums[i] + loaded.sums[i] : loaded.sums[i];
    StorePack(to, sums);
  }
};

}  // namespace

void Compute(const ops::ColumnSum& o, const Context& c) {
  ForFloat(o.in.dtype(), [&]<class T>() {
    const int64_t columns = Columns(o.in);
    ReduceColumns<1, T>(RowTerms<T>{At<T>(o.in), columns}, PacksFit(kPerLoad<T>, columns, {&o.in}), Rows(o.in), columns,
                        {o.out}, o.accumulate, c);
  });
}

void Compute(const ops::AddBias& o, const Context& c) { AddTable(o.x, o.bias, o.out, NoPositions(), c); }

void Compute(const ops::PositionForward& o, const Context& c) {
  AddTable(o.x, o.table, o.out, PositionsFor(ops::PositionsOr(o.positions, o.x.dim(1)), Rows(o.x)), c);
}

void Compute(const ops::PositionBackward& o, const Context& c) {
  const ops::IndexMap positions = ops::PositionsOr(o.positions, o.dy.dim(1));
  const int64_t columns = Columns(o.dy), rows = Rows(o.dy), period = positions.block * positions.blocks;
  const int64_t places = std::min(rows, period);
  if (!o.accumulate && places < o.dtable.dim(0) && columns > 0) {  // some table rows receive nothing
    Check(cudaMemsetAsync(At<void>(o.dtable), 0, static_cast<size_t>(o.dtable.bytes().value()), c.stream));
  }
  ForFloat(o.dy.dtype(), [&]<class T>() {
    ForFloat(o.dtable.dtype(), [&]<class To>() {
      constexpr int kN = PackOf<T, To>;
      const SumPositions<T, To> f{At<T>(o.dy), At<To>(o.dtable), columns, rows, period, PositionsFor(positions, rows),
                                  o.accumulate};
      SweepRows<kN, 1>(f, places, columns, PacksFit(kN, columns, {&o.dy, &o.dtable}), c);
    });
  });
}

}  // namespace twofold::cuda
