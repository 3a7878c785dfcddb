// Tables of tokens.
//
// Backward adds rows of dy to the rows of a table that their ids name, each element's terms in the order of their places: the ids are
// sorted with their places, then pieces of kEmbeddingPiece of them in that order are summed side by side. An id whose rows lie in
// one piece is finished there; the others' sums are kept apart and put together afterwards. So no id, however frequent, is one
// thread's alone, nothing is added atomically, and each element is rounded once.
#include "kernels/cuda/sweep.h"

namespace twofold::cuda {
namespace {

// The rows that ids of type Id have in a table of `rows` rows, which holds ids from `first` on.
template <class Id>
struct RowsOfIds {
  const Id* ids;
  int64_t first, limit, rows;
  // Negative: another table's row, -1; or, -2, nobody's, which is an error of the caller.
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

// T has the size of an element. An id that is nobody's gives NaN, which a loss shows.
template <class T, class Id>
struct CopyTableRows {
  RowsOfIds<Id> row_of;
  const T* table;
  T* out;
  int64_t columns;
  template <int N> struct Loaded { Raw<T, N> x; };
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

// (row of the table) << 32 | place; those that go nowhere come last.
using Keyed = unsigned long long;
constexpr Keyed kNowhere = ~Keyed{0};
__device__ inline int64_t RowOf(Keyed k) { return static_cast<int64_t>(k >> 32); }
__device__ inline int64_t PlaceOf(Keyed k) { return static_cast<int64_t>(k & 0xffffffffu); }

constexpr int kRun = 2048, kRunsMerged = 16;

// Runs of kRun keys, each sorted (Batcher 1968).
template <class Id>
__global__ void __launch_bounds__(kRun / 2) SortRuns(RowsOfIds<Id> row_of, int64_t n, Keyed* keys) {
  __shared__ Keyed run[kRun];
  const int64_t begin = int64_t{blockIdx.x} * kRun;
  const int thread = static_cast<int>(threadIdx.x);
  for (int i = thread; i < kRun; i += kRun / 2) {
    const int64_t row = begin + i < n ? row_of(begin + i) : -1;
    run[i] = row < 0 ? kNowhere - static_cast<Keyed>(kRun - 1 - i) : static_cast<Keyed>(row) << 32 | static_cast<Keyed>(begin + i);
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

// Groups of kRunsMerged sorted runs of `run` keys become one: a key's place is the number of those below it. Keys of rows differ; of
// others any order will do, so that of their runs is taken.
__global__ void __launch_bounds__(kSweepBlock) MergeRuns(const Keyed* from, int64_t n, int64_t run, Keyed* to) {
  const int64_t i = int64_t{blockIdx.x} * kSweepBlock + threadIdx.x;
  if (i >= n) return;
  const int64_t group = i / (run * kRunsMerged) * (run * kRunsMerged), mine = i / run * run;
  const Keyed key = from[i];
  int64_t below = i - mine;
  for (int64_t begin = group; begin < n && begin < group + run * kRunsMerged; begin += run) {
    if (begin == mine) continue;
    int64_t low = begin, high = min(begin + run, n);
    while (low < high) {
      const int64_t middle = (low + high) / 2;
      if (from[middle] < key || (from[middle] == key && begin < mine)) low = middle + 1;
      else high = middle;
    }
    below += low - begin;
  }
  to[group + below] = key;
}

// ---- Backward: the sums ----

template <class T, class To>
struct TableSums {
  const Keyed* keys;
  const T* dy;
  To* dtable;
  Wide<T>* shared_sums;  // [2, pieces, columns]: of the first and the last id of a piece, where a neighbour has rows of it too
  int64_t n, columns;
  bool accumulate;

  static constexpr int kPiece = static_cast<int>(ops::rules::kEmbeddingPiece);
  __host__ __device__ int64_t pieces() const { return (n + kPiece - 1) / kPiece; }
  __device__ Wide<T>* SharedSum(int which, int64_t piece) const { return shared_sums + (which * pieces() + piece) * columns; }
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

// Block (x, y): piece x, columns N * blockDim.x * y and on.
template <int N, class T, class To>
__global__ void __launch_bounds__(128) SumPieces(TableSums<T, To> f) {
  constexpr int kPiece = TableSums<T, To>::kPiece, kBatch = 8;
  static_assert(kPiece % kBatch == 0);
  __shared__ Keyed keys[kPiece + 2];  // the neighbours' too
  const int64_t begin = int64_t{blockIdx.x} * kPiece, column = (int64_t{blockIdx.y} * blockDim.x + threadIdx.x) * N;
  for (int i = static_cast<int>(threadIdx.x); i < kPiece + 2; i += static_cast<int>(blockDim.x)) {
    const int64_t at = begin + i - 1;
    keys[i] = at >= 0 && at < f.n ? f.keys[at] : kNowhere;
  }
  __syncthreads();
  if (column >= f.columns || keys[1] >= kNowhere - kRun) return;
  const bool from_before = begin > 0 && RowOf(keys[0]) == RowOf(keys[1]);
  Wide<T> sums[N] = {};
  bool first = true;  // still the piece's first id
  for (int batch = 1; batch <= kPiece; batch += kBatch) {
    Raw<T, N> x[kBatch];  // on their way together: stores come after
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
      if (RowOf(next) == RowOf(key) && batch + i < kPiece) continue;  // more of it
      if (first && from_before) StorePack(f.SharedSum(0, blockIdx.x) + column, sums);
      else if (RowOf(next) == RowOf(key)) StorePack(f.SharedSum(1, blockIdx.x) + column, sums);
      else f.Write(RowOf(key), column, sums);
      first = false;
#pragma unroll
      for (int k = 0; k < N; ++k) sums[k] = 0;
    }
  }
}

// Where an id begins in piece x and goes on in the next ones: what they have of it, together.
template <int N, class T, class To>
__global__ void __launch_bounds__(128) AddPieces(TableSums<T, To> f) {
  constexpr int kPiece = TableSums<T, To>::kPiece;
  const int64_t piece = blockIdx.x, begin = piece * kPiece, end = begin + kPiece;
  const int64_t column = (int64_t{blockIdx.y} * blockDim.x + threadIdx.x) * N;
  if (column >= f.columns || end >= f.n) return;
  const Keyed last = f.keys[end - 1];
  const int64_t row = RowOf(last);
  if (last >= kNowhere - kRun || RowOf(f.keys[end]) != row) return;
  if (RowOf(f.keys[begin]) == row && begin > 0 && RowOf(f.keys[begin - 1]) == row) return;  // it began before
  Wide<T> sums[N];
  LoadPack(f.SharedSum(1, piece) + column, sums);
  // The pieces that have it at their beginning: up to the one before which its rows end.
  int64_t low = piece + 1, high = f.pieces();
  while (low < high) {
    const int64_t middle = (low + high) / 2;
    if (RowOf(f.keys[middle * kPiece]) == row) low = middle + 1;
    else high = middle;
  }
#pragma unroll 8
  for (int64_t p = piece + 1; p < low; ++p) {
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

// The ids' rows and places in order; in `keys`, or in `spare`.
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
  const int64_t columns = Columns(o.out), element = ElementSize(o.out.dtype());
  ForIndex(o.ids.dtype(), [&]<class Id>() {
    const auto copy = [&]<class T>() {
      constexpr int kN = PackOf<T>;
      const CopyTableRows<T, Id> f{RowsFor<Id>(o.ids, o.first, o.vocab, o.table.dim(0)), At<T>(o.table), At<T>(o.out), columns};
      SweepRows<kN, 4>(f, o.ids.numel(), columns, PacksFit(kN, columns, {&o.table, &o.out}), c);
    };
    if (element == 8) copy.template operator()<uint64_t>();
    else if (element == 4) copy.template operator()<uint32_t>();
    else copy.template operator()<uint16_t>();
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
      const TableSums<T, To> f{keys, At<T>(o.dy), At<To>(o.dtable), reinterpret_cast<Wide<T>*>(memory + 2 * spare), n, columns, o.accumulate};
      TWOFOLD_CHECK_LE(static_cast<size_t>(2 * spare) * sizeof(Keyed) + static_cast<size_t>(2 * f.pieces() * columns) * sizeof(Wide<T>), c.workspace_bytes);
      constexpr int kN = PackOf<T, To>;
      if (PacksFit(kN, columns, {&o.dy, &o.dtable})) SumInOrder<kN>(f, c);
      else SumInOrder<1>(f, c);
    });
  });
}

}  // namespace twofold::cuda
