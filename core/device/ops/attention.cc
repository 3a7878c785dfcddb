#include "core/device/ops/attention.h"

#include "core/device/ops/attention_tile.h"
#include "core/device/ops/rules.h"

namespace twofold::ops::rules {
namespace {

struct Heads {
  int64_t batch, t, head_dim;
};
template <class A>
Heads Sizes(const A& o) {
  return {o.qkv.dim(0), o.qkv.dim(1), o.qkv.dim(2) / (o.heads + 2 * o.kv_heads)};
}

// `products`: number of t x t x head_dim products per head. The masked causal half is not counted.
template <class A>
Cost Products(const A& o, int products, Bytes read, Bytes written) {
  const Heads s = Sizes(o);
  const double scores = static_cast<double>(s.batch * o.heads) * static_cast<double>(s.t) * static_cast<double>(s.t);
  return {Flops(2.0 * products * scores * static_cast<double>(s.head_dim) * (o.causal ? 0.5 : 1.0)), read, written};
}

template <class A>
void CheckHeads(const A& o, std::string_view name) {
  Expect(o.qkv.shape().rank() == 3 && o.heads % o.kv_heads == 0 && o.qkv.dim(2) % (o.heads + 2 * o.kv_heads) == 0, name,
         {&o.qkv, &o.out, &o.lse});
  const Heads s = Sizes(o);
  Expect(o.out.numel() == s.batch * s.t * o.heads * s.head_dim && o.out.dtype() == o.qkv.dtype() &&
             Wide(o.lse, o.qkv, s.batch * o.heads * s.t),
         name, {&o.qkv, &o.out, &o.lse});
}

// `copies`: f32 copies of the head, for BF16 and F16.
template <class A>
Bytes Tiles(const A& o, int64_t threads, int tiles, int copies) {
  const Heads s = Sizes(o);
  const bool narrow = o.qkv.dtype() != AccumulationType(o.qkv.dtype());
  return AttentionTiles(o.qkv.dtype(), std::min(threads, s.batch * o.kv_heads), tiles, s.t, s.head_dim,
                        narrow ? copies * RoundUp(s.t * s.head_dim, 16) : 0);
}

// The shapes that cuDNN's attention supports: 16-bit types, head_dim a multiple of 8, up to 256.
template <class A>
bool ForCudnn(const A& o) {
  const int64_t dim = Sizes(o).head_dim;
  return ElementSize(o.qkv.dtype()) == 2 && dim % 8 == 0 && dim <= 256;
}
// The workspace of cuDNN's own engines: 256 bytes for H100, none for A100 (cuDNN 9.19).
constexpr Bytes kCudnnAttention = Bytes(kCudaAlignment);

}  // namespace

KernelKey Key(const AttentionForward& o) {
  const Heads s = Sizes(o);
  return {"attention_forward", o.qkv.dtype(), {s.batch * o.heads, s.t, s.head_dim}};
}
Cost CostOf(const AttentionForward& o) { return Products(o, 2, o.qkv.bytes(), o.out.bytes() + o.lse.bytes()); }
void CheckShapes(const AttentionForward& o) { CheckHeads(o, "attention_forward"); }
Bytes CpuWorkspace(const AttentionForward& o, int threads) { return Tiles(o, threads, 1, 4); }

KernelKey Key(const AttentionBackward& o) {
  const Heads s = Sizes(o);
  return {"attention_backward", o.qkv.dtype(), {s.batch * o.heads, s.t, s.head_dim}};
}
Cost CostOf(const AttentionBackward& o) {
  return Products(o, 5, o.qkv.bytes() + o.out.bytes() + o.dout.bytes() + o.lse.bytes(), o.dqkv.bytes());
}
void CheckShapes(const AttentionBackward& o) {
  CheckHeads(o, "attention_backward");
  Expect(Like(o.qkv, o.dqkv) && Like(o.out, o.dout), "attention_backward", {&o.qkv, &o.out, &o.lse, &o.dout, &o.dqkv});
}
Bytes CpuWorkspace(const AttentionBackward& o, int threads) { return Tiles(o, threads, 2, 8); }
Bytes CudaWorkspace(const AttentionForward& o) { return ForCudnn(o) ? kCudnnAttention : Bytes(0); }
Bytes CudaScoreGradients(int64_t heads, int64_t t) { return Bytes(2 * heads * RoundUp(t, 128) * RoundUp(t, 128)); }
Bytes CudaWorkspace(const AttentionBackward& o) {
  if (!ForCudnn(o)) return o.lse.bytes();
  const Heads s = Sizes(o);
  const int64_t scores = CudaScoreGradients(s.batch * o.heads, s.t).value();
  const int64_t elements = o.out.numel(), shared = o.heads == o.kv_heads ? 0 : RoundUp(2 * elements, kCudaAlignment);
  return Bytes(RoundUp(o.lse.bytes().value(), kCudaAlignment) +
               std::max(RoundUp(4 * elements, kCudaAlignment), scores <= o.score_limit ? scores : 0) + 2 * shared) +
         kCudnnAttention;
}

}  // namespace twofold::ops::rules
