// Embedding tables.
//
// The backward pass adds each row of dy to the table row that its id names, and adds the terms of each element in the
// order of their places. It sorts the ids together with their places, and then sums pieces of kEmbeddingPiece of them
// in parallel. An id whose rows are in one piece is finished there. The partial sums of the other ids are stored and
// added afterwards. So no thread handles a frequent id alone, there are no atomic additions, and each element is
// rounded once.
#include "kernels/cuda/sweep.h"

namespace twofold::cuda {
namespace {

// Maps ids of type Id to rows of a table of `rows` rows that holds ids from `first` on.
template <class Id>
struct RowsOfIds {
  const Id* ids;
  int64_t first, limit, rows;
  // Returns a negative number for ids without a row here: -1 for a row of another table; -2 for an invalid id, a
  // caller's error.
  __device__ int64_t operator()(int64_t i) const {
    const int64_t id = ids[i], row = id - first;
    return id < 0 || id >= limit ? -2 : row >= 0 && row < rows ? row : -1;
  }
};
template <class Id>
RowsOfIds<Id> RowsFor(const Tensor& ids, int64_t first, int64_t vocab, int64_t rows) {
  return {At<Id>(ids), first, vocab > 0 ? vocab : rows, rows};
}

// ---- Forward ----

// T has the size of an element. An invalid id gives NaN, which shows up in the loss.
template <class T, class Id>
struct CopyTableRows {
  RowsOfIds<Id> row_of;
  const T* table;
  T* out;
  int64_t columns;
  template <int N>
  struct Loaded {
    Raw<T, N> x;
  };
  template <int N>
  __device__ Loaded<N> Load(int64_t row, int64_t column) const {
    const int64_t from = row_of(row);
    if (from >= 0) return {LoadRaw<N>(table + from * columns + column)};
    Loaded<N> none;
#pragma unroll
    for (int k = 0; k < N / Raw<T, N>::kEach; ++k) {
#pragma unroll
      for (int i = 0; i < Raw<T, N>::kEach; ++i) none.x.packs[k].at[i] = from == -2 ? static_cast<T>(~T(0)) : T(0);
    }
    return none;
  }
  template <int N>
  __device__ void Finish(int64_t row, int64_t column, const Loaded<N>& loaded) const {
    *reinterpret_cast<Pack<T, N>*>(out + row * columns + column) = loaded.x.packs[0];
  }
};

// ---- Backward: the order ----

// (row of the table) << 32 | place; entries without a row come last.
using Keyed = unsigned long long;
constexpr Keyed kNowhere = ~Keyed{0};
__device__ inline int64_t RowOf(Keyed k) { return static_cast<int64_t>(k >> 32); }
__device__ inline int64_t PlaceOf(Keyed k) { return static_cast<int64_t>(k & 0xffffffffu); }

constexpr int kRun = 2048, kRunsMerged = 16;

// Sorts runs of kRun keys (Batcher 1968).
template <class Id>
__global__ void __launch_bounds__(kRun / 2) SortRuns(RowsOfIds<Id> row_of, int64_t n, Keyed* keys) {
  __shared__ Keyed run[kRun];
  const int64_t begin = int64_t{blockIdx.x} * kRun;
  const int thread = static_cast<int>(threadIdx.x);
  for (int i = thread; i < kRun; i += kRun / 2) {
    const int64_t row = begin + i < n ? row_of(begin + i) : -1;
    run[i] = row < 0 ? kNowhere - static_cast<Keyed>(kRun - 1 - i)
                     : static_cast<Keyed>(row) << 32 | static_cast<Keyed>(begin + i);
  }
  for (int size = 2; size <= kRun; size *= 2) {
    for (int step = size / 2; step > 0; step /= 2) {
      __syncthreads();
      const int low = 2 * thread - (thread & (step - 1)), high = low + step;
      const bool up = (low & size) == 0;
      const Keyed a = run[low], b = run[high];
      if ((a > b) == up) run[low] = b, run[high] = a;
    }
  }
  __syncthreads();
  for (int i = thread; i < kRun; i += kRun / 2) {
    if (begin + i < n) keys[begin + i] = run[i];
  }
}

// Merges groups of kRunsMerged sorted runs of `run` keys: a key's position is the number of smaller keys. Keys with a
// row are distinct; the others may be in any order, so they keep the order of their runs.
__global__ void __launch_bounds__(kSweepBlock) MergeRuns(const Keyed* from, int64_t n, int64_t run, Keyed* to) {
  const int64_t i = int64_t{blockIdx.x} * kSweepBlock + threadIdx.x;
  if (i >= n) return;
  const int64_t group = i / (run * kRunsMerged) * (run * kRunsMerged), mine = i / run * run;
  const Keyed key = from[i];
  int64_t below = i - mine;
  for (int64_t begin = group; begin < n && begin < group + run * kRunsMerged; begin += run) {
    if (begin == mine) continue;
    const auto past = [&](int64_t k) { return from[k] > key || (from[k] == key && begin > mine); };
    below += FirstOf(begin, min(begin + run, n), past) - begin;
  }
  to[group + below] = key;
}

// ---- Backward: the sums ----

template <class T, class To>
struct TableSums {
  const Keyed* keys;
  const T* dy;
  To* dtable;
  // [2, pieces, columns]: of a piece's first and last id, if a neighbouring piece has rows of it too
  Wide<T>* shared_sums;
  int64_t n, columns;
  bool accumulate;

  static constexpr int kPiece = static_cast<int>(ops::rules::kEmbeddingPiece);
  __host__ __device__ int64_t pieces() const { return (n + kPiece - 1) / kPiece; }
  __device__ Wide<T>* SharedSum(int which, int64_t piece) const {
    return shared_sums + (which * pieces() + piece) * columns;
  }
  template <int N>
  __device__ void Write(int64_t row, int64_t column, const Wide<T> (&sums)[N]) const {
    To* to = dtable + row * columns + column;
    Wide<T> total[N];
    if (accumulate) LoadPack(to, total);
#pragma unroll
    for (int i = 0; i < N; ++i) total[i] = accumulate ? total[i] + sums[i] : sums[i];
    StorePack(to, total);
  }
};

// Block (x, y): piece x, columns from N * blockDim.x * y on.
template <int N, class T, class To>
__global__ void __launch_bounds__(128) SumPieces(TableSums<T, To> f) {
  constexpr int kPiece = TableSums<T, To>::kPiece, kBatch = 8;
  static_assert(kPiece % kBatch == 0);
  __shared__ Keyed keys[kPiece + 2];  // including one neighbour on each side
  const int64_t begin = int64_t{blockIdx.x} * kPiece, column = (int64_t{blockIdx.y} * blockDim.x + threadIdx.x) * N;
  for (int i = static_cast<int>(threadIdx.x); i < kPiece + 2; i += static_cast<int>(blockDim.x)) {
    const int64_t at = begin + i - 1;
    keys[i] = at >= 0 && at < f.n ? f.keys[at] : kNowhere;
  }
  __syncthreads();
  if (column >= f.columns || keys[1] >= kNowhere - kRun) return;
  const bool from_before = begin > 0 && RowOf(keys[0]) == RowOf(keys[1]);
  Wide<T> sums[N] = {};
  bool first = true;  // whether this is still the piece's first id
  for (int batch = 1; batch <= kPiece; batch += kBatch) {
    Raw<T, N> x[kBatch];  // loaded together, before any store
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      if (keys[batch + i] < kNowhere - kRun) x[i] = LoadRaw<N>(f.dy + PlaceOf(keys[batch + i]) * f.columns + column);
    }
#pragma unroll
    for (int i = 0; i < kBatch; ++i) {
      const Keyed key = keys[batch + i], next = keys[batch + i + 1];
      if (key >= kNowhere - kRun) continue;
#pragma unroll
      for (int k = 0; k < N; ++k) sums[k] += As<Wide<T>>(x[i][k]);
      if (RowOf(next) == RowOf(key) && batch + i < kPiece) continue;  // the same id continues
      if (first && from_before)
        StorePack(f.SharedSum(0, blockIdx.x) + column, sums);
      else if (RowOf(next) == RowOf(key))
        StorePack(f.SharedSum(1, blockIdx.x) + column, sums);
      else
        f.Write(RowOf(key), column, sums);
      first = false;
#pragma unroll
      for (int k = 0; k < N; ++k) sums[k] = 0;
    }
  }
}

// If an id begins in piece x and continues in the next pieces, adds up their sums for it.
template <int N, class T, class To>
__global__ void __launch_bounds__(128) AddPieces(TableSums<T, To> f) {
  constexpr int kPiece = TableSums<T, To>::kPiece;
  const int64_t piece = blockIdx.x, begin = piece * kPiece, end = begin + kPiece;
  const int64_t column = (int64_t{blockIdx.y} * blockDim.x + threadIdx.x) * N;
  if (column >= f.columns || end >= f.n) return;
  const Keyed last = f.keys[end - 1];
  const int64_t row = RowOf(last);
  if (last >= kNowhere - kRun || RowOf(f.keys[end]) != row) return;
  // it began in an earlier piece
  if (RowOf(f.keys[begin]) == row && begin > 0 && RowOf(f.keys[begin - 1]) == row) return;
  Wide<T> sums[N];
  LoadPack(f.SharedSum(1, piece) + column, sums);
  // The pieces that begin with this id.
  const auto past = [&](int64_t p) { return RowOf(f.keys[p * kPiece]) != row; };
  const int64_t end_of_id = FirstOf(piece + 1, f.pieces(), past);
#pragma unroll 8
  for (int64_t p = piece + 1; p < end_of_id; ++p) {
    Wide<T> more[N];
    LoadPack(f.SharedSum(0, p) + column, more);
#pragma unroll
    for (int k = 0; k < N; ++k) sums[k] += more[k];
  }
  f.Write(row, column, sums);
}

template <int N, class T, class To>
void SumInOrder(const TableSums<T, To>& f, const Context& c) {
  const int64_t packs = CeilDiv(f.columns, N);
  const auto threads = static_cast<unsigned>(std::min<int64_t>(CeilDiv(packs, kWarp) * kWarp, 128));
  const dim3 grid(static_cast<unsigned>(f.pieces()), static_cast<unsigned>(CeilDiv(packs, threads)));
  Launch(SumPieces<N, T, To>, grid, threads, 0, c.stream, f);
  Launch(AddPieces<N, T, To>, grid, threads, 0, c.stream, f);
}

// Sorts the ids' rows and places; the result is in `keys` or in `spare`.
Keyed* SortIds(const ops::EmbeddingBackward& o, Keyed* keys, Keyed* spare, const Context& c) {
  const int64_t n = o.ids.numel();
  ForIndex(o.ids.dtype(), [&]<class Id>() {
    const RowsOfIds<Id> row_of = RowsFor<Id>(o.ids, o.first, o.vocab, o.dtable.dim(0));
    Launch(SortRuns<Id>, static_cast<unsigned>(CeilDiv(n, kRun)), kRun / 2, 0, c.stream, row_of, n, keys);
  });
  for (int64_t run = kRun; run < n; run *= kRunsMerged) {
    Launch(MergeRuns, static_cast<unsigned>(CeilDiv(n, kSweepBlock)), kSweepBlock, 0, c.stream, keys, n, run, spare);
    std::swap(keys, spare);
  }
  return keys;
}

}  // namespace

void Compute(const ops::EmbeddingForward& o, const Context& c) {
  const int64_t columns = Columns(o.out);
  ForIndex(o.ids.dtype(), [&]<class Id>() {
    ForBits(o.out.dtype(), [&]<class T>() {
      constexpr int kN = PackOf<T>;
      const CopyTableRows<T, Id> f{RowsFor<Id>(o.ids, o.first, o.vocab, o.table.dim(0)), At<T>(o.table), At<T>(o.out),
                                   columns};
      SweepRows<kN, 4>(f, o.ids.numel(), columns, PacksFit(kN, columns, {&o.table, &o.out}), c);
    });
  });
}

void Compute(const ops::EmbeddingBackward& o, const Context& c) {
  const int64_t n = o.ids.numel(), columns = Columns(o.dy), spare = CeilDiv(n, 64) * 64;
  TWOFOLD_CHECK_LT(n, int64_t{1} << 31);
  if (!o.accumulate && o.dtable.numel() > 0) {
    Check(cudaMemsetAsync(At<void>(o.dtable), 0, static_cast<size_t>(o.dtable.bytes().value()), c.stream));
  }
  if (n == 0 || columns == 0) return;
  Keyed* memory = reinterpret_cast<Keyed*>(c.workspace);
  const Keyed* keys = SortIds(o, memory, memory + spare, c);
  ForFloat(o.dy.dtype(), [&]<class T>() {
    ForFloat(o.dtable.dtype(), [&]<class To>() {
      const TableSums<T, To> f{keys, At<T>(o.dy), At<To>(o.dtable), reinterpret_cast<Wide<T>*>(memory + 2 * spare),
                               n,    columns,     o.accumulate};
      TWOFOLD_CHECK_LE(static_cast<size_t>(2 * spare) * sizeof(Keyed) +
                           static_cast<size_t>(2 * f.pieces() * columns) * sizeof(Wide<T>),
                       c.workspace_bytes);
      constexpr int kN = PackOf<T, To>;
      if (PacksFit(kN, columns, {&o.dy, &o.dtable}))
        SumInOrder<kN>(f, c);
      else
        SumInOrder<1>(f, c);
    });
  });
}

}  // namespace twofold::cuda
