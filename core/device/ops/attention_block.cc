#include "core/device/ops/attention_block.h"

#include "core/device/ops/attention_tile.h"
#include "core/device/ops/rules.h"

namespace twofold::ops::rules {
namespace {

// Number of elements of the rectangle's queries, and of its keys and values.
template <class A>
int64_t QueryElements(const A& o) {
  return o.q.dim(0) * o.block.queries * o.block.heads * o.block.head_dim;
}
template <class A>
int64_t KeyElements(const A& o) {
  return o.q.dim(0) * o.block.keys * 2 * o.block.kv_heads * o.block.head_dim;
}
template <class A>
int64_t Rows(const A& o) {
  return o.q.dim(0) * o.block.heads * o.block.queries;
}

// Cost of products of queries x keys x head_dim. A causal rectangle skips half.
template <class A>
Flops Products(const A& o, int products) {
  const double elements =
      static_cast<double>(Rows(o)) * static_cast<double>(o.block.keys) * static_cast<double>(o.block.head_dim);
  return Flops(2.0 * products * elements * (o.block.causal ? 0.5 : 1.0));
}

template <class A>
KernelKey KeyOf(const A& o, std::string_view whole, std::string_view causal) {
  return {o.block.causal ? causal : whole, o.q.dtype(), {Rows(o), o.block.keys, o.block.head_dim}};
}

bool HasRows(const Tensor& t, int64_t batch, int64_t first, int64_t rows, int64_t columns) {
  return t.shape().rank() == 3 && t.dim(0) == batch && first >= 0 && rows >= 0 && first + rows <= t.dim(1) &&
         columns <= t.dim(2);
}

template <class A>
bool Fits(const A& o) {
  const AttentionBlock& b = o.block;
  const int64_t columns = b.heads * b.head_dim;
  return b.heads % b.kv_heads == 0 && (!b.causal || b.queries == b.keys) &&
         HasRows(o.q, o.q.dim(0), b.first_query, b.queries, columns) && o.q.dtype() == o.kv.dtype() &&
         HasRows(o.kv, o.q.dim(0), b.first_key, b.keys, 2 * b.kv_heads * b.head_dim) &&
         o.out.numel() == o.q.dim(0) * o.q.dim(1) * columns && Wide(o.lse, o.q, o.q.dim(0) * b.heads * o.q.dim(1));
}

template <class A>
Bytes Tiles(const A& o, int64_t threads, int tiles, int query_copies) {
  const AttentionBlock& b = o.block;
  const bool narrow = o.q.dtype() != AccumulationType(o.q.dtype());
  return AttentionTiles(
      o.q.dtype(), std::min(threads, o.q.dim(0) * b.kv_heads), tiles, b.keys, b.head_dim,
      narrow ? query_copies * RoundUp(b.queries * b.head_dim, 16) + 2 * RoundUp(b.keys * b.head_dim, 16) : 0);
}

}  // namespace

KernelKey Key(const AttentionBlockForward& o) {
  return KeyOf(o, "attention_block_forward", "attention_diagonal_forward");
}
Cost CostOf(const AttentionBlockForward& o) {
  const int64_t in = ElementSize(o.q.dtype()), wide = ElementSize(AccumulationType(o.q.dtype()));
  const Bytes results((QueryElements(o) + Rows(o)) * wide);
  return {Products(o, 2), Bytes((QueryElements(o) + KeyElements(o)) * in) + (o.merge ? results : Bytes(0)), results};
}
void CheckShapes(const AttentionBlockForward& o) {
  Expect(Fits(o) && o.out.dtype() == AccumulationType(o.q.dtype()), "attention_block_forward",
         {&o.q, &o.kv, &o.out, &o.lse});
}
Bytes CpuWorkspace(const AttentionBlockForward& o, int threads) { return Tiles(o, threads, 1, 1); }

KernelKey Key(const AttentionBlockBackward& o) {
  return KeyOf(o, "attention_block_backward", "attention_diagonal_backward");
}
Cost CostOf(const AttentionBlockBackward& o) {
  const int64_t in = ElementSize(o.q.dtype()), wide = ElementSize(AccumulationType(o.q.dtype()));
  const Bytes gradients((QueryElements(o) + KeyElements(o)) * wide);
  return {Products(o, 5),
          Bytes((3 * QueryElements(o) + KeyElements(o)) * in + Rows(o) * wide) + (o.accumulate ? gradients : Bytes(0)),
          gradients};
}
void CheckShapes(const AttentionBlockBackward& o) {
  const AttentionBlock& b = o.block;
  const DType wide = AccumulationType(o.q.dtype());
  Expect(Fits(o) && o.out.dtype() == o.q.dtype() && Like(o.out, o.dout) && o.dq.dtype() == wide &&
             o.dkv.dtype() == wide && HasRows(o.dq, o.q.dim(0), b.first_query, b.queries, b.heads * b.head_dim) &&
             HasRows(o.dkv, o.q.dim(0), b.first_key, b.keys, 2 * b.kv_heads * b.head_dim),
         "attention_block_backward", {&o.q, &o.kv, &o.out, &o.lse, &o.dout, &o.dq, &o.dkv});
}
Bytes CpuWorkspace(const AttentionBlockBackward& o, int threads) { return Tiles(o, threads, 2, 3); }
Bytes CudaWorkspace(const AttentionBlockBackward& o) {
  return Bytes(o.q.dim(0) * o.block.heads * o.q.dim(1) * ElementSize(o.lse.dtype()));
}

}  // namespace twofold::ops::rules
