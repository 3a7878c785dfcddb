// Sums over rows, and lookups in tables of tokens and positions.
//
// Sums over rows are divided among threads by columns, so each column is summed in one fixed order for any number of
// threads.
#include <algorithm>
#include <numeric>

#include "kernels/cpu/kernels.h"

namespace twofold::cpu {
namespace {

using ops::Op;

// Maps token ids of either type to rows of a table of `rows` rows, which holds ids from `first` on.
class Ids {
 public:
  Ids(const Tensor& ids, int64_t first, int64_t vocab, int64_t rows)
      : data_(ids.raw()),
        bytes_(ids.dtype() == DType::kU8),
        first_(first),
        limit_(vocab > 0 ? vocab : rows),
        rows_(rows) {}
  int64_t operator[](int64_t i) const {  // negative: the id is in another table
    const int64_t id = bytes_ ? static_cast<const uint8_t*>(data_)[i] : static_cast<const int32_t*>(data_)[i];
    TWOFOLD_CHECK_GE(id, 0);
    TWOFOLD_CHECK_LT(id, limit_);
    const int64_t row = id - first_;
    return row < rows_ ? row : -1;
  }

 private:
  const void* data_;
  bool bytes_;
  int64_t first_, limit_, rows_;
};

constexpr int64_t kColumnGrain = 64;

// sums[j] = sum over rows of in[r, first + j], `count` <= kChunk columns. Blocks of rows are summed separately, four
// rows at a time, so that rounding errors grow with the number of blocks.
template <class A>
void SumColumns(const Source<A>& in, int64_t rows, int64_t columns, int64_t first, int64_t count, A* sums) {
  constexpr int64_t kBlock = 64;
  A buffers[4][kChunk], block[kChunk];
  std::fill_n(sums, count, A(0));
  for (int64_t start = 0; start < rows; start += kBlock) {
    const int64_t end = std::min(rows, start + kBlock);
    std::fill_n(block, count, A(0));
    const auto row = [&](int64_t r, A* buffer) { return in.At(r * columns + first, count, buffer); };
    int64_t r = start;
    for (; r + 4 <= end; r += 4) {
      MapChunk(count, block, block, row(r, buffers[0]), row(r + 1, buffers[1]), row(r + 2, buffers[2]),
               row(r + 3, buffers[3]), [](A s, A w, A x, A y, A z) { return s + ((w + x) + (y + z)); });
    }
    for (; r < end; ++r) MapChunk(count, block, block, row(r, buffers[0]), [](A s, A x) { return s + x; });
    MapChunk(count, sums, sums, block, [](A s, A x) { return s + x; });
  }
}

void ColumnSums(const Tensor& in, int64_t rows, int64_t columns, const Tensor& out, bool accumulate, Context& c) {
  VisitWide(in.dtype(), [&]<class A>() {
    const Source<A> source(in);
    c.pool.ParallelFor(columns, kColumnGrain, [&](int64_t begin, int64_t end) {
      InChunks(begin, end, [&](int64_t first, int64_t count) {
        A sums[kChunk];
        SumColumns(source, rows, columns, first, count, sums);
        StoreOrAdd(out, first, count, sums, accumulate);
      });
    });
  });
}

// dtable[id] += dy[r], for a table that holds A.
template <class A>
void AddRows(const ops::EmbeddingBackward& o, const Ids& ids, int64_t begin, int64_t end) {
  const int64_t columns = Columns(o.dy), rows = o.ids.numel();
  const Source<A> dy(o.dy);
  A* table = o.dtable.data<A>();
  for (int64_t r = 0; r < rows; ++r) {
    const int64_t id = ids[r];
    if (id < 0) continue;
    A* to = table + id * columns;
    InChunks(begin, end, [&](int64_t first, int64_t count) {
      A buffer[kChunk];
      MapChunk(count, to + first, to + first, dy.At(r * columns + first, count, buffer),
               [](A t, A d) { return t + d; });
    });
  }
}

// The same for a BF16 or F16 table: all rows of one id are summed first, so that each element is rounded once. `order`
// holds the rows sorted by id.
void AddRowsOnce(const ops::EmbeddingBackward& o, const Ids& ids, const int32_t* order, int64_t begin, int64_t end) {
  const int64_t columns = Columns(o.dy), rows = o.ids.numel();
  const Source<float> dy(o.dy);
  for (int64_t i = 0; i < rows;) {
    const int64_t id = ids[order[i]];
    int64_t next = i;
    while (next < rows && ids[order[next]] == id) ++next;
    if (id >= 0)
      InChunks(begin, end, [&](int64_t first, int64_t count) {
        float sum[kChunk], buffer[kChunk];
        std::fill_n(sum, count, 0.f);
        for (int64_t j = i; j < next; ++j) {
          MapChunk(count, sum, sum, dy.At(order[j] * columns + first, count, buffer),
                   [](float s, float d) { return s + d; });
        }
        StoreOrAdd(o.dtable, id * columns + first, count, sum, true);  // cleared before, unless it accumulates
      });
    i = next;
  }
}

}  // namespace

void Compute(const ops::ColumnSum& o, Context& c) {
  ColumnSums(o.in, Rows(o.in), Columns(o.in), o.out, o.accumulate, c);
}

void Compute(const ops::EmbeddingForward& o, Context& c) {
  const int64_t columns = Columns(o.out), row_bytes = columns * ElementSize(o.out.dtype());
  const Ids ids(o.ids, o.first, o.vocab, o.table.dim(0));
  const auto* table = static_cast<const std::byte*>(o.table.raw());
  auto* out = static_cast<std::byte*>(o.out.raw());
  c.pool.ParallelForEach(o.ids.numel(), RowGrain(columns), [&](int64_t r) {
    const int64_t id = ids[r];
    if (id < 0)
      std::memset(out + r * row_bytes, 0, static_cast<size_t>(row_bytes));
    else
      std::memcpy(out + r * row_bytes, table + id * row_bytes, static_cast<size_t>(row_bytes));
  });
}

void Compute(const ops::EmbeddingBackward& o, Context& c) {
  const Ids ids(o.ids, o.first, o.vocab, o.dtable.dim(0));
  if (!o.accumulate) {
    c.pool.ParallelFor(o.dtable.numel(), 16 * kChunk,
                       [&](int64_t begin, int64_t end) { SetZero(o.dtable, begin, end - begin); });
  }
  const bool narrow = o.dtable.dtype() != ops::AccumulationType(o.dtable.dtype());
  int32_t* order = narrow ? c.scratch.Take<int32_t>(o.ids.numel()) : nullptr;
  if (narrow) {
    std::iota(order, order + o.ids.numel(), 0);
    std::sort(order, order + o.ids.numel(), [&](int32_t a, int32_t b) {
      const int64_t id_a = ids[a], id_b = ids[b];
      return id_a != id_b ? id_a < id_b : a < b;
    });
  }
  c.pool.ParallelFor(Columns(o.dy), kColumnGrain, [&](int64_t begin, int64_t end) {
    if (narrow) return AddRowsOnce(o, ids, order, begin, end);
    VisitWide(o.dtable.dtype(), [&]<class A>() { AddRows<A>(o, ids, begin, end); });
  });
}

// out = x, plus row place(r) of a table in row r.
template <class Place>
static void AddTableRows(const Tensor& x, const Tensor& table, const Tensor& out, ThreadPool& pool,
                         const Place& place) {
  const int64_t columns = Columns(x);
  VisitWide(x.dtype(), [&]<class A>() {
    const Source<A> x_of(x), table_of(table);
    const Sink<A> out_of(out);
    pool.ParallelForEach(Rows(x), RowGrain(columns), [&](int64_t row) {
      const int64_t at = row * columns, from = place(row) * columns;
      InChunks(0, columns, [&](int64_t first, int64_t count) {
        A buffers[3][kChunk];
        A* y = out_of.At(at + first, buffers[0]);
        MapChunk(count, y, x_of.At(at + first, count, buffers[1]), table_of.At(from + first, count, buffers[2]),
                 [](A a, A b) { return a + b; });
        out_of.Put(at + first, count, y);
      });
    });
  });
}

void Compute(const ops::AddBias& o, Context& c) {
  AddTableRows(o.x, o.bias, o.out, c.pool, [](int64_t) { return int64_t{0}; });
}

void Compute(const ops::PositionForward& o, Context& c) {
  const ops::IndexMap positions = ops::PositionsOr(o.positions, o.x.dim(1));
  AddTableRows(o.x, o.table, o.out, c.pool, [&](int64_t row) { return positions.Of(row); });
}

// Positions repeat every `period` rows, so the rows of one position are `period` rows apart.
void Compute(const ops::PositionBackward& o, Context& c) {
  const ops::IndexMap positions = ops::PositionsOr(o.positions, o.dy.dim(1));
  const int64_t columns = Columns(o.dy), rows = Rows(o.dy), period = positions.block * positions.blocks;
  if (!o.accumulate) SetZero(o.dtable, 0, o.dtable.numel());
  VisitWide(o.dy.dtype(), [&]<class A>() {
    const Source<A> dy(o.dy);
    c.pool.ParallelForEach(std::min(rows, period), RowGrain(columns), [&](int64_t row) {
      const int64_t repeats = (rows - row + period - 1) / period, at = positions.Of(row) * columns;
      InChunks(0, columns, [&](int64_t first, int64_t count) {
        A sums[kChunk];
        SumColumns(dy, repeats, period * columns, row * columns + first, count, sums);
        StoreOrAdd(o.dtable, at + first, count, sums, o.accumulate);
      });
    });
  });
}

void Compute(const ops::CopyColumns& o, Context& c) {
  VisitWide(o.in.dtype() == DType::kF64 ? o.in.dtype() : o.out.dtype(), [&]<class A>() {
    const Source<A> in(o.in);
    c.pool.ParallelForEach(Rows(o.in), RowGrain(o.columns), [&](int64_t row) {
      const int64_t from = row * Columns(o.in) + o.in_column, to = row * Columns(o.out) + o.out_column;
      InChunks(0, o.columns, [&](int64_t first, int64_t count) {
        A buffer[kChunk];
        StoreOrAdd(o.out, to + first, count, in.At(from + first, count, buffer), o.accumulate);
      });
    });
  });
}

}  // namespace twofold::cpu
