// Attention in tiles of query rows, so that the scores of one tile are all that is ever stored; the backward
// pass makes the probabilities again from the log-sum-exp of each row (Dao et al. 2022, FlashAttention; tiled
// over queries only).
//
// The scores of a tile lie transposed, keys by query rows, so that rows are the lanes of vectors: the softmax
// needs no sum within a vector, and every product finds its operands as they lie. What a causal row may not
// see is left out of the products, by groups of a few rows. Heads are divided among the threads. f32 and f64
// heads are read and written where they lie, strided; narrow ones through copies.
#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "kernels/cpu/kernels.h"
#include "kernels/cpu/small_product.h"
#include "kernels/cpu/vector_math.h"

namespace twofold::cpu {
namespace {

// Query rows of a tile: two registers of 64 bytes. CpuWorkspace in core/device/ops/attention.cc counts on it.
template <class A>
constexpr int64_t kTile = 128 / sizeof(A);
constexpr int64_t kStrip = 8;  // rows or keys that are cut off together where the causal diagonal passes

// One head of a tensor: t rows of head_dim elements, `stride` apart.
template <class A>
struct Head {
  A* data;
  int64_t stride;
  A* row(int64_t r) const { return data + r * stride; }
};

struct Sizes {
  int64_t batch, t, heads, kv_heads, dim;
  bool causal;
  template <class Op>
  explicit Sizes(const Op& o)
      : batch(o.qkv.dim(0)),
        t(o.qkv.dim(1)),
        heads(o.heads),
        kv_heads(o.kv_heads),
        dim(o.qkv.dim(2) / (o.heads + 2 * o.kv_heads)),
        causal(o.causal) {}
  int64_t group() const { return heads / kv_heads; }
  int64_t qkv_stride() const { return (heads + 2 * kv_heads) * dim; }
  template <class A>
  int64_t tiles() const {
    return (t + kTile<A> - 1) / kTile<A>;
  }
  // Columns of qkv at which each part's head begins.
  int64_t query(int64_t head) const { return head * dim; }
  int64_t key(int64_t kv) const { return (heads + kv) * dim; }
  int64_t value(int64_t kv) const { return (heads + kv_heads + kv) * dim; }
  double scale() const { return 1.0 / std::sqrt(static_cast<double>(dim)); }
};

// A tensor of rows of `stride` elements, seen head by head. `copy` is null when the tensor holds A.
template <class A>
class HeadAccess {
 public:
  HeadAccess(const Tensor& tensor, int64_t stride, const Sizes& s, Scratch& scratch)
      : tensor_(tensor),
        stride_(stride),
        t_(s.t),
        dim_(s.dim),
        copy_(tensor.dtype() == DTypeOf<A>::value ? nullptr : scratch.Take<A>(s.t * s.dim)) {}

  // The head of batch `b` that begins at `column`, to be written.
  Head<A> At(int64_t b, int64_t column) const {
    if (copy_ != nullptr) return {copy_, dim_};
    return {tensor_.data<A>() + b * t_ * stride_ + column, stride_};
  }
  // The same, with what it holds.
  Head<A> Read(int64_t b, int64_t column) const {
    const Head<A> head = At(b, column);
    for (int64_t r = 0; copy_ != nullptr && r < t_; ++r) {
      Convert(Element(b, r, column), tensor_.dtype(), head.row(r), DTypeOf<A>::value, dim_);
    }
    return head;
  }
  // After writing to At(b, column).
  void Put(int64_t b, int64_t column) const {
    for (int64_t r = 0; copy_ != nullptr && r < t_; ++r) {
      Convert(copy_ + r * dim_, DTypeOf<A>::value, Element(b, r, column), tensor_.dtype(), dim_);
    }
  }

 private:
  void* Element(int64_t b, int64_t row, int64_t column) const {
    return AddressOf(tensor_, (b * t_ + row) * stride_ + column);
  }
  const Tensor& tensor_;
  int64_t stride_, t_, dim_;
  A* copy_;
};

// Query rows [first, first + rows) against keys [0, keys): all that any of them may see.
struct Tile {
  int64_t first, rows, keys;
  bool causal;
  Tile(const Sizes& s, int64_t index, int64_t most)
      : first(index * most),
        rows(std::min(most, s.t - first)),
        keys(s.causal ? first + rows : s.t),
        causal(s.causal) {}
  int64_t visible(int64_t row) const { return causal ? first + row + 1 : keys; }  // keys [0, visible)
  int64_t blind(int64_t key) const { return causal && key > first ? key - first : 0; }  // rows [0, blind) do not see it
};

// A thread's memory for one tile. The lanes of rows that a short tile lacks hold numbers that nobody reads.
template <class A>
struct TileMemory {
  A *rows, *scores;  // [dim][kTile], [keys][kTile]
  TileMemory(const Sizes& s, Scratch& scratch)
      : rows(scratch.Take<A>(kTile<A> * s.dim)), scores(scratch.Take<A>(kTile<A> * s.t)) {}
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

// out[row] = factor[row] * sum over keys of weights[key][row] * y[key]
template <class A>
void Combine(const Tile& tile, const Sizes& s, const A* weights, const Head<A>& y, const A* factor,
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
                             .factor = factor == nullptr ? nullptr : factor + row});
  }
}

// out[key] (+)= sum over rows of weights[key][row] * x[row]
template <class A>
void Spread(const Tile& tile, const Sizes& s, const A* weights, const Head<A>& x, bool add,
            const Head<A>& out) {
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

// largest[row] = the largest score that the row may see.
template <class A>
void LargestScores(const Tile& tile, const A* scores, A* largest) {
  constexpr int64_t kRows = kTile<A>;
  std::fill_n(largest, kRows, -std::numeric_limits<A>::infinity());
  for (int64_t key = 0; key < tile.keys; ++key) {
    const A* x = scores + key * kRows;
    const int64_t blind = tile.blind(key);
#pragma omp simd
    for (int64_t l = 0; l < kRows; ++l) largest[l] = l >= blind && x[l] > largest[l] ? x[l] : largest[l];
  }
}

// scores -> e^(score - largest), 0 where a row may not see the key; sums of the rows. Blocks of keys are summed apart.
template <class A>
void ExpScores(const Tile& tile, const A* largest, A* scores, A* sums) {
  constexpr int64_t kRows = kTile<A>, kBlock = 64;
  std::fill_n(sums, kRows, A(0));
  for (int64_t begin = 0; begin < tile.keys; begin += kBlock) {
    A block[kRows] = {};
    for (int64_t key = begin; key < std::min(tile.keys, begin + kBlock); ++key) {
      A* x = scores + key * kRows;
      const int64_t blind = tile.blind(key);
#pragma omp simd
      for (int64_t l = 0; l < kRows; ++l) {
        const A e = l >= blind ? Exp(x[l] - largest[l]) : A(0);
        x[l] = e;
        block[l] += e;
      }
    }
#pragma omp simd
    for (int64_t l = 0; l < kRows; ++l) sums[l] += block[l];
  }
}

// out and lse of one tile. Rows are divided by their sums after the product, which is the shorter side.
template <class A>
void ForwardTile(const Tile& tile, const Sizes& s, const Head<A>& q, const Head<A>& k, const Head<A>& v,
                 TileMemory<A>& memory, A* lse, const Head<A>& out) {
  A largest[kTile<A>], sums[kTile<A>];
  Scores(tile, s, s.scale(), q, k, memory);
  LargestScores(tile, memory.scores, largest);
  ExpScores(tile, largest, memory.scores, sums);
  for (int64_t r = 0; r < tile.rows; ++r) {
    lse[tile.first + r] = largest[r] + std::log(sums[r]);
    sums[r] = A(1) / sums[r];
  }
  Combine(tile, s, memory.scores, v, sums, out);
}

// What the backward pass of one head reads and writes.
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
  for (int64_t key = 0; key < tile.keys; ++key) {
    A* p = scores + key * kRows;
    A* d = dp + key * kRows;
    const int64_t blind = tile.blind(key);
#pragma omp simd
    for (int64_t l = 0; l < kRows; ++l) {
      const A probability = l >= blind ? Exp(p[l] - lse[l]) : A(0);
      p[l] = probability;
      d[l] = probability * (d[l] - delta[l]) * scale;
    }
  }
}

// Tiles from the last, which sees every key: it writes dk and dv (`add` false), the others add to them.
template <class A>
void BackwardHead(const Sizes& s, const Gradients<A>& g, bool add, TileMemory<A>& scores, TileMemory<A>& dp) {
  const int64_t tiles = s.tiles<A>();
  for (int64_t index = tiles - 1; index >= 0; --index) {
    const Tile tile(s, index, kTile<A>);
    const bool add_tile = add || index + 1 < tiles;
    Scores(tile, s, s.scale(), g.q, g.k, scores);
    Scores(tile, s, 1, g.dout, g.v, dp);
    SoftmaxBackward(tile, s, g, scores.scores, dp.scores);
    Spread(tile, s, scores.scores, g.dout, add_tile, g.dv);
    Spread(tile, s, dp.scores, g.q, add_tile, g.dk);
    Combine(tile, s, dp.scores, g.k, static_cast<const A*>(nullptr), g.dq);
  }
}

// each(b, kv, memory) for every batch and key-value head, those of one thread one after another. make(s, scratch)
// gives a thread its memory.
template <class Make, class Each>
void ForHeads(const Sizes& s, Context& c, Make make, Each each) {
  const int64_t heads = s.batch * s.kv_heads, parts = std::min<int64_t>(c.pool.threads(), heads);
  std::vector<decltype(make(c.scratch))> memory;
  for (int64_t part = 0; part < parts; ++part) memory.push_back(make(c.scratch));
  c.pool.ParallelFor(parts, 1, [&](int64_t begin, int64_t end) {
    for (int64_t part = begin; part < end; ++part) {
      for (int64_t i = part * heads / parts; i < (part + 1) * heads / parts; ++i) {
        each(i / s.kv_heads, i % s.kv_heads, memory[static_cast<size_t>(part)]);
      }
    }
  });
}

template <class A>
void Forward(const ops::AttentionForward& o, Context& c) {
  struct Memory {
    TileMemory<A> tile;
    HeadAccess<A> q, k, v, out;
  };
  const Sizes s(o);
  const auto make = [&](Scratch& scratch) {
    const auto access = [&](const Tensor& t, int64_t stride) { return HeadAccess<A>(t, stride, s, scratch); };
    return Memory{TileMemory<A>(s, scratch), access(o.qkv, s.qkv_stride()), access(o.qkv, s.qkv_stride()),
                  access(o.qkv, s.qkv_stride()), access(o.out, s.heads * s.dim)};
  };
  ForHeads(s, c, make, [&](int64_t b, int64_t kv, Memory& m) {
    const Head<A> k = m.k.Read(b, s.key(kv)), v = m.v.Read(b, s.value(kv));
    for (int64_t head = kv * s.group(); head < (kv + 1) * s.group(); ++head) {
      const Head<A> q = m.q.Read(b, s.query(head)), out = m.out.At(b, s.query(head));
      A* lse = o.lse.data<A>() + (b * s.heads + head) * s.t;
      for (int64_t i = 0; i < s.tiles<A>(); ++i) {
        ForwardTile(Tile(s, i, kTile<A>), s, q, k, v, m.tile, lse, out);
      }
      m.out.Put(b, s.query(head));
    }
  });
}

template <class A>
void Backward(const ops::AttentionBackward& o, Context& c) {
  struct Memory {
    TileMemory<A> scores, dp;
    HeadAccess<A> q, k, v, dq, dk, dv, out, dout;
  };
  const Sizes s(o);
  const auto make = [&](Scratch& scratch) {
    const auto access = [&](const Tensor& t, int64_t stride) { return HeadAccess<A>(t, stride, s, scratch); };
    const int64_t wide = s.qkv_stride(), narrow = s.heads * s.dim;
    return Memory{TileMemory<A>(s, scratch), TileMemory<A>(s, scratch), access(o.qkv, wide),   access(o.qkv, wide),
                  access(o.qkv, wide),       access(o.dqkv, wide),      access(o.dqkv, wide),  access(o.dqkv, wide),
                  access(o.out, narrow),     access(o.dout, narrow)};
  };
  ForHeads(s, c, make, [&](int64_t b, int64_t kv, Memory& m) {
    Gradients<A> g{.k = m.k.Read(b, s.key(kv)),
                   .v = m.v.Read(b, s.value(kv)),
                   .dk = m.dk.At(b, s.key(kv)),
                   .dv = m.dv.At(b, s.value(kv))};
    for (int64_t i = 0; i < s.group(); ++i) {
      const int64_t head = kv * s.group() + i, column = s.query(head);
      g.q = m.q.Read(b, column), g.out = m.out.Read(b, column), g.dout = m.dout.Read(b, column),
      g.dq = m.dq.At(b, column);
      g.lse = o.lse.data<A>() + (b * s.heads + head) * s.t;
      BackwardHead(s, g, i > 0, m.scores, m.dp);
      m.dq.Put(b, column);
    }
    m.dk.Put(b, s.key(kv));
    m.dv.Put(b, s.value(kv));
  });
}

}  // namespace

void Compute(const ops::AttentionForward& o, Context& c) {
  VisitWide(o.qkv.dtype(), [&]<class A>() { Forward<A>(o, c); });
}
void Compute(const ops::AttentionBackward& o, Context& c) {
  VisitWide(o.qkv.dtype(), [&]<class A>() { Backward<A>(o, c); });
}

}  // namespace twofold::cpu
