// Attention in tiles of query rows, so that only the scores of one tile are ever stored; the backward pass recomputes
// the probabilities from the log-sum-exp of each row (Dao et al. 2022, FlashAttention; tiled over queries only).
//
// The scores of a tile are stored transposed, keys by query rows, so that rows are the lanes of vectors: the softmax
// needs no sum within a vector, and every product reads its operands in place. Keys that a causal row may not see are
// skipped in the products, by groups of a few rows. Heads are divided among the threads. f32 and f64 heads are read and
// written in place, strided; BF16 and F16 heads go through copies.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/cpu/kernels.h"
#include "kernels/cpu/matrix_access.h"
#include "kernels/cpu/small_product.h"
#include "kernels/cpu/vector_math.h"

namespace twofold::cpu {
namespace {

// Query rows of a tile: two registers of 64 bytes. AttentionTiles in core/device/ops/attention_tile.h depends on it.
template <class A>
constexpr int64_t kTile = 128 / sizeof(A);
constexpr int64_t kStrip = 8;  // rows or keys that are skipped together where the causal diagonal passes

// One head of a tensor: rows of head_dim elements, `stride` apart.
template <class A>
struct Head {
  A* data;
  int64_t stride;
  A* row(int64_t r) const { return data + r * stride; }
};

struct Sizes {
  int64_t batch, heads, kv_heads, dim, queries, keys;
  bool causal;
  template <class Op>
  explicit Sizes(const Op& o)
      : batch(o.q.dim(0)),
        heads(o.block.heads),
        kv_heads(o.block.kv_heads),
        dim(o.block.head_dim),
        queries(o.block.queries),
        keys(o.block.keys),
        causal(o.block.causal) {}
  int64_t group() const { return heads / kv_heads; }
  template <class A>
  int64_t tiles() const {
    return (queries + kTile<A> - 1) / kTile<A>;
  }
  double scale() const { return 1.0 / std::sqrt(static_cast<double>(dim)); }
};

// Rows of each batch of a tensor [b, t, c], accessed head by head.
template <class A>
class HeadAccess {
 public:
  // Rows [first, first + rows), from `column` on.
  HeadAccess(const Tensor& t, int64_t column, int64_t first, int64_t rows, int64_t dim, Scratch& scratch)
      : heads_({.tensor = t,
                .stride = t.dim(2),
                .batch = t.dim(1) * t.dim(2),
                .head = dim,
                .first = first * t.dim(2) + column},
               rows, dim, scratch) {}

  // A head of batch `b`, for writing; and with its present values.
  Head<A> At(int64_t b, int64_t head) const { return {heads_.At(b, head), heads_.stride()}; }
  Head<A> Read(int64_t b, int64_t head) const { return {heads_.Read(b, head), heads_.stride()}; }
  // After writing to At(b, head).
  void Put(int64_t b, int64_t head) const { heads_.Put(b, head); }

 private:
  MatrixAccess<A> heads_;
};

// The heads of an operation's tensors: heads of queries begin at the first column, heads of keys and values end at the
// last.
template <class A, class Op>
class Accesses {
 public:
  Accesses(const Op& o, Scratch& scratch) : o_(o), scratch_(scratch) {}
  HeadAccess<A> Queries(const Tensor& t) const { return Rows(t, 0, o_.block.first_query, o_.block.queries); }
  HeadAccess<A> Keys(const Tensor& t) const { return KeyRows(t, 2); }
  HeadAccess<A> Values(const Tensor& t) const { return KeyRows(t, 1); }

 private:
  HeadAccess<A> Rows(const Tensor& t, int64_t column, int64_t first, int64_t rows) const {
    return HeadAccess<A>(t, column, first, rows, o_.block.head_dim, scratch_);
  }
  HeadAccess<A> KeyRows(const Tensor& t, int64_t from_last) const {
    return Rows(t, t.dim(2) - from_last * o_.block.kv_heads * o_.block.head_dim, o_.block.first_key, o_.block.keys);
  }
  const Op& o_;
  Scratch& scratch_;
};

// Query rows [first, first + rows) against keys [0, keys), which are all keys that any of the rows may see.
struct Tile {
  int64_t first, rows, keys;
  bool causal;
  Tile(const Sizes& s, int64_t index, int64_t most)
      : first(index * most),
        rows(std::min(most, s.queries - first)),
        keys(s.causal ? first + rows : s.keys),
        causal(s.causal) {}
  int64_t visible(int64_t row) const { return causal ? first + row + 1 : keys; }        // keys [0, visible)
  int64_t blind(int64_t key) const { return causal && key > first ? key - first : 0; }  // rows [0, blind) do not see it
};

// A thread's memory for one tile. In a short tile, the lanes of missing rows hold values that are never read.
template <class A>
struct TileMemory {
  A *rows, *scores;  // [dim][kTile], [keys][kTile]
  TileMemory(const Sizes& s, Scratch& scratch)
      : rows(scratch.Take<A>(kTile<A> * s.dim)), scores(scratch.Take<A>(kTile<A> * s.keys)) {}
};

// to.scores[key][row] = factor * x[row] . y[key]
template <class A>
void Scores(const Tile& tile, const Sizes& s, double factor, const Head<A>& x, const Head<A>& y, TileMemory<A>& to) {
  PackTransposed(x.row(tile.first), x.stride, tile.rows, s.dim, static_cast<A>(factor), kTile<A>, to.rows);
  Multiply(SmallProduct<A>{.m = tile.keys,
                           .n = kTile<A>,
                           .k = s.dim,
                           .a = y.data,
                           .a_row = y.stride,
                           .b = to.rows,
                           .ldb = kTile<A>,
                           .c = to.scores,
                           .ldc = kTile<A>});
}

// out[row] (+)= factor[row] * sum over keys of weights[key][row] * y[key]
template <class A>
void Combine(const Tile& tile, const Sizes& s, const A* weights, const Head<A>& y, const A* factor, bool add,
             const Head<A>& out) {
  for (int64_t row = 0; row < tile.rows; row += kStrip) {
    const int64_t rows = std::min(kStrip, tile.rows - row);
    Multiply(SmallProduct<A>{.m = rows,
                             .n = s.dim,
                             .k = tile.visible(row + rows - 1),
                             .a = weights + row,
                             .a_column = kTile<A>,
                             .b = y.data,
                             .ldb = y.stride,
                             .c = out.row(tile.first + row),
                             .ldc = out.stride,
                             .add = add,
                             .factor = factor == nullptr ? nullptr : factor + row});
  }
}

// out[key] (+)= sum over rows of weights[key][row] * x[row]
template <class A>
void Spread(const Tile& tile, const Sizes& s, const A* weights, const Head<A>& x, bool add, const Head<A>& out) {
  const auto strip = [&](int64_t key, int64_t keys) {
    const int64_t blind = tile.blind(key);
    Multiply(SmallProduct<A>{.m = keys,
                             .n = s.dim,
                             .k = tile.rows - blind,
                             .a = weights + key * kTile<A> + blind,
                             .a_row = kTile<A>,
                             .a_column = 1,
                             .b = x.row(tile.first + blind),
                             .ldb = x.stride,
                             .c = out.row(key),
                             .ldc = out.stride,
                             .add = add});
  };
  const int64_t seen_by_all = tile.causal ? tile.first : tile.keys;
  if (seen_by_all > 0) strip(0, seen_by_all);
  for (int64_t key = seen_by_all; key < tile.keys; key += kStrip) strip(key, std::min(kStrip, tile.keys - key));
}

// f(i, l, sees) for every element i of the scores of keys [begin, end), in order; l is its row within the tile. `sees`
// is a constant for the keys that all rows see, which are most of them.
template <class A, class F>
void ForScores(const Tile& tile, int64_t begin, int64_t end, F f) {
  const int64_t seen_by_all = std::clamp(tile.causal ? tile.first + 1 : tile.keys, begin, end);
  for (int64_t key = begin; key < seen_by_all; ++key) {
#pragma omp simd
    for (int64_t l = 0; l < kTile<A>; ++l) f(key * kTile<A> + l, l, true);
  }
  for (int64_t key = seen_by_all; key < end; ++key) {
    const auto blind = static_cast<int32_t>(tile.blind(key));
#pragma omp simd
    for (int64_t l = 0; l < kTile<A>; ++l) f(key * kTile<A> + l, l, static_cast<int32_t>(l) >= blind);
  }
}

// largest[row] = the largest score that the row may see.
template <class A>
void LargestScores(const Tile& tile, const A* scores, A* largest) {
  std::fill_n(largest, kTile<A>, -std::numeric_limits<A>::infinity());
  ForScores<A>(tile, 0, tile.keys, [=](int64_t i, int64_t l, bool sees) {
    largest[l] = sees && scores[i] > largest[l] ? scores[i] : largest[l];
  });
}

// scores -> e^(score - largest), 0 if a row may not see the key; sums of the rows. Blocks of keys are summed
// separately.
template <class A>
void ExpScores(const Tile& tile, const A* largest, A* scores, A* sums) {
  constexpr int64_t kBlock = 64;
  std::fill_n(sums, kTile<A>, A(0));
  for (int64_t begin = 0; begin < tile.keys; begin += kBlock) {
    A block[kTile<A>] = {};
    ForScores<A>(tile, begin, std::min(tile.keys, begin + kBlock), [&, scores](int64_t i, int64_t l, bool sees) {
      scores[i] = sees ? Exp(scores[i] - largest[l]) : A(0);
      block[l] += scores[i];
    });
#pragma omp simd
    for (int64_t l = 0; l < kTile<A>; ++l) sums[l] += block[l];
  }
}

// Merges two results. Row r holds the result over other keys, with log-sum-exp lse[r]. Sets lse[r] to that of all keys,
// scales the row by its share of the total, and returns the share of the keys with log-sum-exp `now`.
template <class A>
A MakeRoom(A now, A& lse, A* row, int64_t dim) {
  const A before = lse, larger = std::max(before, now);
  lse = larger + std::log1p(std::exp(std::min(before, now) - larger));
  const A share = std::exp(before - lse);
#pragma omp simd
  for (int64_t i = 0; i < dim; ++i) row[i] *= share;
  return std::exp(now - lse);
}

// out and lse of one tile. Rows are divided by their sums after the product, because `out` is the smaller matrix.
template <class A>
void ForwardTile(const Tile& tile, const Sizes& s, const Head<A>& q, const Head<A>& k, const Head<A>& v, bool merge,
                 TileMemory<A>& memory, A* lse, const Head<A>& out) {
  A largest[kTile<A>], sums[kTile<A>];
  Scores(tile, s, s.scale(), q, k, memory);
  LargestScores(tile, memory.scores, largest);
  ExpScores(tile, largest, memory.scores, sums);
  for (int64_t r = 0; r < tile.rows; ++r) {
    const A now = largest[r] + std::log(sums[r]);
    sums[r] = A(1) / sums[r];
    if (merge) {
      sums[r] *= MakeRoom(now, lse[tile.first + r], out.row(tile.first + r), s.dim);
    } else {
      lse[tile.first + r] = now;
    }
  }
  Combine(tile, s, memory.scores, v, sums, merge, out);
}

// The tensors that the backward pass of one head reads and writes.
template <class A>
struct Gradients {
  Head<A> q, k, v, out, dout, dq, dk, dv;
  const A* lse;
};

// scores -> probabilities p; dp -> p * (dp - sum(dout * out)) * scale, the gradient of the scores before
// scaling.
template <class A>
void SoftmaxBackward(const Tile& tile, const Sizes& s, const Gradients<A>& g, A* scores, A* dp) {
  constexpr int64_t kRows = kTile<A>;
  const A scale = static_cast<A>(s.scale());
  A lse[kRows] = {}, delta[kRows] = {};
  for (int64_t r = 0; r < tile.rows; ++r) {
    const A* out = g.out.row(tile.first + r);
    const A* dout = g.dout.row(tile.first + r);
    delta[r] = SumOf<A>(s.dim, [=](int64_t i) { return out[i] * dout[i]; });
    lse[r] = g.lse[tile.first + r];
  }
  ForScores<A>(tile, 0, tile.keys, [&, scores, dp](int64_t i, int64_t l, bool sees) {
    scores[i] = sees ? Exp(scores[i] - lse[l]) : A(0);
    dp[i] = scores[i] * (dp[i] - delta[l]) * scale;
  });
}

// Goes through the tiles from the last, which sees every key: it writes dk and dv (`add_keys` false), the others add to
// them.
template <class A>
void BackwardHead(const Sizes& s, const Gradients<A>& g, bool add_queries, bool add_keys, TileMemory<A>& scores,
                  TileMemory<A>& dp) {
  const int64_t tiles = s.tiles<A>();
  for (int64_t index = tiles - 1; index >= 0; --index) {
    const Tile tile(s, index, kTile<A>);
    const bool add_tile = add_keys || index + 1 < tiles;
    Scores(tile, s, s.scale(), g.q, g.k, scores);
    Scores(tile, s, 1, g.dout, g.v, dp);
    SoftmaxBackward(tile, s, g, scores.scores, dp.scores);
    Spread(tile, s, scores.scores, g.dout, add_tile, g.dv);
    Spread(tile, s, dp.scores, g.q, add_tile, g.dk);
    Combine(tile, s, dp.scores, g.k, static_cast<const A*>(nullptr), add_queries, g.dq);
  }
}

// each(b, kv, memory) for every batch and key-value head; a thread takes its heads one after another. make(s, scratch)
// creates a thread's memory.
template <class Make, class Each>
void ForHeads(const Sizes& s, Context& c, Make make, Each each) {
  const int64_t heads = s.batch * s.kv_heads, parts = std::min<int64_t>(c.pool.threads(), heads);
  std::vector<decltype(make(c.scratch))> memory;
  for (int64_t part = 0; part < parts; ++part) memory.push_back(make(c.scratch));
  c.pool.ParallelForEach(parts, 1, [&](int64_t part) {
    for (int64_t i = part * heads / parts; i < (part + 1) * heads / parts; ++i) {
      each(i / s.kv_heads, i % s.kv_heads, memory[static_cast<size_t>(part)]);
    }
  });
}

template <class A>
void Forward(const ops::AttentionBlockForward& o, Context& c) {
  struct Memory {
    TileMemory<A> tile;
    HeadAccess<A> q, k, v, out;
  };
  const Sizes s(o);
  const auto make = [&](Scratch& scratch) {
    const Accesses<A, ops::AttentionBlockForward> access(o, scratch);
    return Memory{TileMemory<A>(s, scratch), access.Queries(o.q), access.Keys(o.kv), access.Values(o.kv),
                  access.Queries(o.out)};
  };
  ForHeads(s, c, make, [&](int64_t b, int64_t kv, Memory& m) {
    const Head<A> k = m.k.Read(b, kv), v = m.v.Read(b, kv);
    for (int64_t head = kv * s.group(); head < (kv + 1) * s.group(); ++head) {
      const Head<A> q = m.q.Read(b, head), out = m.out.At(b, head);
      A* lse = o.lse.data<A>() + (b * s.heads + head) * o.q.dim(1) + o.block.first_query;
      for (int64_t i = 0; i < s.tiles<A>(); ++i) {
        ForwardTile(Tile(s, i, kTile<A>), s, q, k, v, o.merge, m.tile, lse, out);
      }
      m.out.Put(b, head);
    }
  });
}

template <class A>
void Backward(const ops::AttentionBlockBackward& o, Context& c) {
  struct Memory {
    TileMemory<A> scores, dp;
    HeadAccess<A> q, k, v, dq, dk, dv, out, dout;
  };
  const Sizes s(o);
  const auto make = [&](Scratch& scratch) {
    const Accesses<A, ops::AttentionBlockBackward> access(o, scratch);
    return Memory{TileMemory<A>(s, scratch), TileMemory<A>(s, scratch), access.Queries(o.q), access.Keys(o.kv),
                  access.Values(o.kv),       access.Queries(o.dq),      access.Keys(o.dkv),  access.Values(o.dkv),
                  access.Queries(o.out),     access.Queries(o.dout)};
  };
  ForHeads(s, c, make, [&](int64_t b, int64_t kv, Memory& m) {
    Gradients<A> g{.k = m.k.Read(b, kv), .v = m.v.Read(b, kv), .dk = m.dk.At(b, kv), .dv = m.dv.At(b, kv)};
    for (int64_t i = 0; i < s.group(); ++i) {
      const int64_t head = kv * s.group() + i;
      g.q = m.q.Read(b, head), g.out = m.out.Read(b, head), g.dout = m.dout.Read(b, head), g.dq = m.dq.At(b, head);
      g.lse = o.lse.data<A>() + (b * s.heads + head) * o.q.dim(1) + o.block.first_query;
      BackwardHead(s, g, o.accumulate, o.accumulate || i > 0, m.scores, m.dp);
      m.dq.Put(b, head);
    }
    m.dk.Put(b, kv);
    m.dv.Put(b, kv);
  });
}

template <class Op>
ops::AttentionBlock WholeSequence(const Op& o) {
  const int64_t t = o.qkv.dim(1);
  return {.heads = o.heads,
          .kv_heads = o.kv_heads,
          .head_dim = o.qkv.dim(2) / (o.heads + 2 * o.kv_heads),
          .queries = t,
          .keys = t,
          .causal = o.causal};
}

}  // namespace

void Compute(const ops::AttentionBlockForward& o, Context& c) {
  VisitWide(o.q.dtype(), [&]<class A>() { Forward<A>(o, c); });
}
void Compute(const ops::AttentionBlockBackward& o, Context& c) {
  VisitWide(o.q.dtype(), [&]<class A>() { Backward<A>(o, c); });
}
// A whole sequence is one rectangle, whose results may be BF16 or F16.
void Compute(const ops::AttentionForward& o, Context& c) {
  const ops::AttentionBlock whole = WholeSequence(o);
  const Shape rows{o.qkv.dim(0), whole.queries, whole.heads * whole.head_dim};
  Compute(ops::AttentionBlockForward{.q = o.qkv, .kv = o.qkv, .out = o.out.View(rows), .lse = o.lse, .block = whole},
          c);
}
void Compute(const ops::AttentionBackward& o, Context& c) {
  const ops::AttentionBlock whole = WholeSequence(o);
  const Shape rows{o.qkv.dim(0), whole.queries, whole.heads * whole.head_dim};
  Compute(ops::AttentionBlockBackward{.q = o.qkv,
                                      .kv = o.qkv,
                                      .out = o.out.View(rows),
                                      .lse = o.lse,
                                      .dout = o.dout.View(rows),
                                      .dq = o.dqkv,
                                      .dkv = o.dqkv,
                                      .block = whole},
          c);
}

}  // namespace twofold::cpu
