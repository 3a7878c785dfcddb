// Attention in tiles of query rows, so that the scores of one tile are all that is ever stored; the backward
// pass makes the probabilities again from the log-sum-exp of each row (Dao et al. 2022, FlashAttention; tiled
// over queries only).
//
// Heads run one after another and products use OpenBLAS's threads, as OpenBLAS cannot run single-threaded in
// some threads only. f32 and f64 heads are read and written where they lie, strided; narrow ones through
// copies.
#include <algorithm>
#include <cmath>

#include "kernels/cpu/blas.h"
#include "kernels/cpu/kernels.h"
#include "kernels/cpu/vector_math.h"

namespace twofold::cpu {
namespace {

constexpr int64_t kTile = 128;  // query rows; CpuWorkspace in core/device/ops/attention.cc counts on it

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
  int64_t tiles() const { return (t + kTile - 1) / kTile; }
  int64_t tile_elements() const { return std::min(kTile, t) * t; }
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
  Tile(const Sizes& s, int64_t index)
      : first(index * kTile),
        rows(std::min(kTile, s.t - first)),
        keys(s.causal ? first + rows : s.t),
        causal(s.causal) {}
  int64_t visible(int64_t row) const { return causal ? first + row + 1 : keys; }
};

// scores[rows, keys] = alpha * x * y^T
template <class A>
void Scores(const Tile& tile, const Sizes& s, double alpha, const Head<A>& x, const Head<A>& y, A* scores) {
  Multiply(Product<A>{.transpose_b = true,
                      .m = tile.rows,
                      .n = tile.keys,
                      .k = s.dim,
                      .alpha = static_cast<A>(alpha),
                      .a = x.row(tile.first),
                      .lda = x.stride,
                      .b = y.data,
                      .ldb = y.stride,
                      .c = scores,
                      .ldc = tile.keys});
}

// out[rows, dim] = weights[rows, keys] * y
template <class A>
void Combine(const Tile& tile, const Sizes& s, const A* weights, const Head<A>& y, const Head<A>& out) {
  Multiply(Product<A>{.m = tile.rows,
                      .n = s.dim,
                      .k = tile.keys,
                      .a = weights,
                      .lda = tile.keys,
                      .b = y.data,
                      .ldb = y.stride,
                      .c = out.row(tile.first),
                      .ldc = out.stride});
}

// out[keys, dim] (+)= weights[rows, keys]^T * x
template <class A>
void Spread(const Tile& tile, const Sizes& s, const A* weights, const Head<A>& x, bool add,
            const Head<A>& out) {
  Multiply(Product<A>{.transpose_a = true,
                      .m = tile.keys,
                      .n = s.dim,
                      .k = tile.rows,
                      .a = weights,
                      .lda = tile.keys,
                      .b = x.row(tile.first),
                      .ldb = x.stride,
                      .beta = A(add ? 1 : 0),
                      .c = out.data,
                      .ldc = out.stride});
}

// Turns one row of scores into e^(score - largest), what it may not see into 0. Returns the sum; `largest` is
// written.
template <class A>
A ExpRow(A* row, int64_t visible, int64_t keys, A* largest) {
  const A top = MaxOf<A>(visible, row);
  MapChunk(
      visible, row, [top](A x) { return Exp(x - top); }, row);
  std::fill(row + visible, row + keys, A(0));
  *largest = top;
  A sum = 0;
  InChunks(0, visible, [&](int64_t first, int64_t count) {
    sum += SumOf<A>(count, [x = row + first](int64_t i) { return x[i]; });
  });
  return sum;
}

// out and lse of one tile. Rows are divided by their sums after the product, which is the shorter side.
template <class A>
void ForwardTile(const Tile& tile, const Sizes& s, const Head<A>& q, const Head<A>& k, const Head<A>& v,
                 A* scores, A* lse, const Head<A>& out, ThreadPool& pool) {
  A sums[kTile];
  Scores(tile, s, s.scale(), q, k, scores);
  pool.ParallelFor(tile.rows, RowGrain(tile.keys), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      A largest;
      sums[r] = ExpRow(scores + r * tile.keys, tile.visible(r), tile.keys, &largest);
      lse[tile.first + r] = largest + std::log(sums[r]);
    }
  });
  Combine(tile, s, scores, v, out);
  for (int64_t r = 0; r < tile.rows; ++r) {
    A* row = out.row(tile.first + r);
    MapChunk(
        s.dim, row, [factor = A(1) / sums[r]](A x) { return x * factor; }, row);
  }
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
void SoftmaxBackward(const Tile& tile, const Sizes& s, const Gradients<A>& g, A* scores, A* dp,
                     ThreadPool& pool) {
  const A scale = static_cast<A>(s.scale());
  pool.ParallelFor(tile.rows, RowGrain(tile.keys), [&](int64_t begin, int64_t end) {
    for (int64_t r = begin; r < end; ++r) {
      const A* out = g.out.row(tile.first + r);
      const A* dout = g.dout.row(tile.first + r);
      const A delta = SumOf<A>(s.dim, [=](int64_t i) { return out[i] * dout[i]; }),
              lse = g.lse[tile.first + r];
      const int64_t visible = tile.visible(r);
      A* p = scores + r * tile.keys;
      A* d = dp + r * tile.keys;
#pragma omp simd
      for (int64_t i = 0; i < visible; ++i) {
        p[i] = Exp(p[i] - lse);
        d[i] = p[i] * (d[i] - delta) * scale;
      }
      std::fill(p + visible, p + tile.keys, A(0));
      std::fill(d + visible, d + tile.keys, A(0));
    }
  });
}

// Tiles from the last, which sees every key: it writes dk and dv (`add` false), the others add to them.
template <class A>
void BackwardHead(const Sizes& s, const Gradients<A>& g, bool add, A* scores, A* dp, ThreadPool& pool) {
  for (int64_t index = s.tiles() - 1; index >= 0; --index) {
    const Tile tile(s, index);
    const bool add_tile = add || index + 1 < s.tiles();
    Scores(tile, s, s.scale(), g.q, g.k, scores);
    Scores(tile, s, 1, g.dout, g.v, dp);
    SoftmaxBackward(tile, s, g, scores, dp, pool);
    Spread(tile, s, scores, g.dout, add_tile, g.dv);
    Spread(tile, s, dp, g.q, add_tile, g.dk);
    Combine(tile, s, dp, g.k, g.dq);
  }
}

template <class A>
void Forward(const ops::AttentionForward& o, Context& c) {
  const Sizes s(o);
  A* scores = c.scratch.Take<A>(s.tile_elements());
  const HeadAccess<A> q_of(o.qkv, s.qkv_stride(), s, c.scratch), k_of(o.qkv, s.qkv_stride(), s, c.scratch);
  const HeadAccess<A> v_of(o.qkv, s.qkv_stride(), s, c.scratch), out_of(o.out, s.heads * s.dim, s, c.scratch);
  for (int64_t b = 0; b < s.batch; ++b) {
    for (int64_t kv = 0; kv < s.kv_heads; ++kv) {
      const Head<A> k = k_of.Read(b, s.key(kv)), v = v_of.Read(b, s.value(kv));
      for (int64_t head = kv * s.group(); head < (kv + 1) * s.group(); ++head) {
        const Head<A> q = q_of.Read(b, s.query(head)), out = out_of.At(b, s.query(head));
        A* lse = o.lse.data<A>() + (b * s.heads + head) * s.t;
        for (int64_t i = 0; i < s.tiles(); ++i) ForwardTile(Tile(s, i), s, q, k, v, scores, lse, out, c.pool);
        out_of.Put(b, s.query(head));
      }
    }
  }
}

template <class A>
void Backward(const ops::AttentionBackward& o, Context& c) {
  const Sizes s(o);
  A* scores = c.scratch.Take<A>(s.tile_elements());
  A* dp = c.scratch.Take<A>(s.tile_elements());
  const auto access = [&](const Tensor& t, int64_t stride) { return HeadAccess<A>(t, stride, s, c.scratch); };
  const HeadAccess<A> q = access(o.qkv, s.qkv_stride()), k = access(o.qkv, s.qkv_stride());
  const HeadAccess<A> v = access(o.qkv, s.qkv_stride()), dq = access(o.dqkv, s.qkv_stride());
  const HeadAccess<A> dk = access(o.dqkv, s.qkv_stride()), dv = access(o.dqkv, s.qkv_stride());
  const HeadAccess<A> out = access(o.out, s.heads * s.dim), dout = access(o.dout, s.heads * s.dim);
  for (int64_t b = 0; b < s.batch; ++b) {
    for (int64_t kv = 0; kv < s.kv_heads; ++kv) {
      Gradients<A> g{.k = k.Read(b, s.key(kv)),
                     .v = v.Read(b, s.value(kv)),
                     .dk = dk.At(b, s.key(kv)),
                     .dv = dv.At(b, s.value(kv))};
      for (int64_t i = 0; i < s.group(); ++i) {
        const int64_t head = kv * s.group() + i, column = s.query(head);
        g.q = q.Read(b, column), g.out = out.Read(b, column), g.dout = dout.Read(b, column),
        g.dq = dq.At(b, column);
        g.lse = o.lse.data<A>() + (b * s.heads + head) * s.t;
        BackwardHead(s, g, i > 0, scores, dp, c.pool);
        dq.Put(b, column);
      }
      dk.Put(b, s.key(kv));
      dv.Put(b, s.value(kv));
    }
  }
}

}  // namespace

void Compute(const ops::AttentionForward& o, Context& c) {
  VisitWide(o.qkv.dtype(), [&]<class A>() { Forward<A>(o, c); });
}
void Compute(const ops::AttentionBackward& o, Context& c) {
  VisitWide(o.qkv.dtype(), [&]<class A>() { Backward<A>(o, c); });
}

}  // namespace twofold::cpu
