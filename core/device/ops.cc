#include "core/device/ops.h"

#include <algorithm>

#include "core/base/strings.h"

namespace twofold::ops {
namespace {

int64_t Rows(const Tensor& t) { return t.numel() / std::max<int64_t>(t.dim(-1), 1); }

void Expect(bool ok, std::string_view op, std::initializer_list<const Tensor*> tensors) {
  if (ok) [[likely]] return;
  std::string text = StrCat(std::string(op), " does not accept shapes");
  for (const Tensor* t : tensors) StrAppend(&text, " ", t->ToString());
  TWOFOLD_CHECK(false, text);
}

// m, n, k of a product.
struct Product { int64_t m, n, k, k_of_b; };
Product Sizes(const MatMul& o) {
  const bool ta = o.transpose_a, tb = o.transpose_b;
  return {ta ? o.a.dim(1) : o.a.dim(0), tb ? o.b.dim(0) : o.b.dim(1), ta ? o.a.dim(0) : o.a.dim(1),
          tb ? o.b.dim(1) : o.b.dim(0)};
}

struct Heads { int64_t batch, t, head_dim; };
template <class Attention>
Heads Sizes(const Attention& o) {
  return {o.qkv.dim(0), o.qkv.dim(1), o.qkv.dim(2) / (o.heads + 2 * o.kv_heads)};
}

KernelKey Flat(std::string_view name, const Tensor& t) { return {name, t.dtype(), {1, t.numel(), 0}}; }
KernelKey ByRows(std::string_view name, const Tensor& t) { return {name, t.dtype(), {Rows(t), t.dim(-1), 0}}; }

struct KeyRule {
  KernelKey operator()(const MatMul& o) const {
    const Product p = Sizes(o);
    constexpr std::string_view kNames[] = {"matmul_nn", "matmul_nt", "matmul_tn", "matmul_tt"};
    return {kNames[o.transpose_a * 2 + o.transpose_b], o.a.dtype(), {p.m, p.n, p.k}};
  }
  KernelKey operator()(const Fill& o) const { return Flat("fill", o.out); }
  KernelKey operator()(const Cast& o) const { return Flat("cast", o.in); }
  KernelKey operator()(const Add& o) const { return Flat("add", o.out); }
  KernelKey operator()(const AddTo& o) const { return Flat("add_to", o.in); }
  KernelKey operator()(const Scale& o) const { return Flat("scale", o.x); }
  KernelKey operator()(const ActivationForward& o) const {
    return Flat(o.kind == ActivationForward::kRelu ? "relu_forward" : "gelu_forward", o.x);
  }
  KernelKey operator()(const ActivationBackward& o) const {
    return Flat(o.kind == ActivationForward::kRelu ? "relu_backward" : "gelu_backward", o.x);
  }
  KernelKey operator()(const Dropout& o) const { return Flat("dropout", o.x); }
  KernelKey operator()(const ColumnSum& o) const { return ByRows("column_sum", o.in); }
  KernelKey operator()(const EmbeddingForward& o) const { return ByRows("embedding_forward", o.out); }
  KernelKey operator()(const EmbeddingBackward& o) const { return ByRows("embedding_backward", o.dy); }
  KernelKey operator()(const PositionForward& o) const { return ByRows("position_forward", o.x); }
  KernelKey operator()(const PositionBackward& o) const { return ByRows("position_backward", o.dy); }
  KernelKey operator()(const LayerNormForward& o) const { return ByRows("layer_norm_forward", o.x); }
  KernelKey operator()(const LayerNormBackward& o) const { return ByRows("layer_norm_backward", o.x); }
  KernelKey operator()(const LayerNormWeights& o) const { return ByRows("layer_norm_weights", o.x); }
  KernelKey operator()(const AttentionForward& o) const {
    const Heads s = Sizes(o);
    return {"attention_forward", o.qkv.dtype(), {s.batch * o.heads, s.t, s.head_dim}};
  }
  KernelKey operator()(const AttentionBackward& o) const {
    const Heads s = Sizes(o);
    return {"attention_backward", o.qkv.dtype(), {s.batch * o.heads, s.t, s.head_dim}};
  }
  KernelKey operator()(const CrossEntropyForward& o) const { return ByRows("cross_entropy_forward", o.logits); }
  KernelKey operator()(const CrossEntropyBackward& o) const { return ByRows("cross_entropy_backward", o.logits); }
  KernelKey operator()(const Sum& o) const { return Flat("sum", o.in); }
  KernelKey operator()(const RandomFill& o) const { return Flat("random_fill", o.out); }
  KernelKey operator()(const SgdStep& o) const { return Flat("sgd_step", o.param); }
  KernelKey operator()(const AdamStep& o) const { return Flat("adam_step", o.param); }
  KernelKey operator()(const SquaredNorm& o) const { return Flat("squared_norm", o.in); }
  KernelKey operator()(const ClipFactor& o) const { return Flat("clip_factor", o.out); }
};

Cost Streaming(double flops_per_element, int64_t elements, Bytes read, Bytes written) {
  return {Flops(flops_per_element * static_cast<double>(elements)), read, written};
}

Bytes OrZero(const Tensor& t) { return t.empty() ? Bytes(0) : t.bytes(); }

struct CostRule {
  Cost operator()(const MatMul& o) const {
    const Product p = Sizes(o);
    const double mn = static_cast<double>(p.m) * static_cast<double>(p.n);
    return {Flops(2 * mn * static_cast<double>(p.k)),
            o.a.bytes() + o.b.bytes() + OrZero(o.bias) + (o.accumulate ? o.out.bytes() : Bytes(0)), o.out.bytes()};
  }
  Cost operator()(const Fill& o) const { return Streaming(0, o.out.numel(), Bytes(0), o.out.bytes()); }
  Cost operator()(const Cast& o) const { return Streaming(0, o.in.numel(), o.in.bytes(), o.out.bytes()); }
  Cost operator()(const Add& o) const { return Streaming(1, o.out.numel(), o.a.bytes() + o.b.bytes(), o.out.bytes()); }
  Cost operator()(const AddTo& o) const { return Streaming(1, o.in.numel(), o.in.bytes() + o.out.bytes(), o.out.bytes()); }
  Cost operator()(const Scale& o) const { return Streaming(1, o.x.numel(), o.x.bytes(), o.x.bytes()); }
  Cost operator()(const ActivationForward& o) const {
    return Streaming(o.kind == ActivationForward::kRelu ? 1 : 12, o.x.numel(), o.x.bytes(), o.y.bytes());
  }
  Cost operator()(const ActivationBackward& o) const {
    return Streaming(o.kind == ActivationForward::kRelu ? 1 : 20, o.x.numel(), o.x.bytes() + o.dy.bytes(), o.dx.bytes());
  }
  Cost operator()(const Dropout& o) const { return Streaming(40, o.x.numel(), o.x.bytes(), o.y.bytes()); }
  Cost operator()(const ColumnSum& o) const { return Streaming(1, o.in.numel(), o.in.bytes(), o.out.bytes()); }
  Cost operator()(const EmbeddingForward& o) const {
    return Streaming(0, o.out.numel(), o.ids.bytes() + o.out.bytes(), o.out.bytes());
  }
  Cost operator()(const EmbeddingBackward& o) const {  // a table that is not accumulated into is written whole
    return Streaming(1, o.dy.numel(), o.ids.bytes() + o.dy.bytes() * 2, o.dy.bytes() + (o.accumulate ? Bytes(0) : o.dtable.bytes()));
  }
  Cost operator()(const PositionForward& o) const { return Streaming(1, o.x.numel(), o.x.bytes() * 2, o.out.bytes()); }
  Cost operator()(const PositionBackward& o) const { return Streaming(1, o.dy.numel(), o.dy.bytes(), o.dtable.bytes()); }
  Cost operator()(const LayerNormForward& o) const { return Streaming(8, o.x.numel(), o.x.bytes(), o.y.bytes()); }
  Cost operator()(const LayerNormBackward& o) const {
    return Streaming(12, o.x.numel(), o.x.bytes() + o.dy.bytes(), o.dx.bytes());
  }
  Cost operator()(const LayerNormWeights& o) const {
    return Streaming(5, o.x.numel(), o.x.bytes() + o.dy.bytes(), o.dgamma.bytes() + o.dbeta.bytes());
  }
  Cost operator()(const AttentionForward& o) const { return Attention(o, 2, o.qkv.bytes(), o.out.bytes() + o.lse.bytes()); }
  Cost operator()(const AttentionBackward& o) const {
    return Attention(o, 5, o.qkv.bytes() + o.out.bytes() + o.dout.bytes() + o.lse.bytes(), o.dqkv.bytes());
  }
  Cost operator()(const CrossEntropyForward& o) const {
    return Streaming(12, o.logits.numel(), o.logits.bytes(), o.losses.bytes() + o.lse.bytes());
  }
  Cost operator()(const CrossEntropyBackward& o) const {
    return Streaming(12, o.logits.numel(), o.logits.bytes(), o.dlogits.bytes());
  }
  Cost operator()(const Sum& o) const { return Streaming(1, o.in.numel(), o.in.bytes(), o.out.bytes()); }
  Cost operator()(const RandomFill& o) const { return Streaming(60, o.out.numel(), Bytes(0), o.out.bytes()); }
  Cost operator()(const SgdStep& o) const {
    const Bytes state = OrZero(o.momentum) + OrZero(o.master);
    return Streaming(4, o.param.numel(), o.param.bytes() + o.grad.bytes() + state, o.param.bytes() + state);
  }
  Cost operator()(const AdamStep& o) const {
    const Bytes state = o.m.bytes() + o.v.bytes() + OrZero(o.master);
    return Streaming(14, o.param.numel(), o.param.bytes() + o.grad.bytes() + state, o.param.bytes() + state);
  }
  Cost operator()(const SquaredNorm& o) const { return Streaming(2, o.in.numel(), o.in.bytes(), o.out.bytes()); }
  Cost operator()(const ClipFactor& o) const { return Streaming(3, 1, o.squared_norm.bytes(), o.out.bytes()); }

  // `products` t x t x head_dim products a head; the causal half is skipped.
  template <class A>
  static Cost Attention(const A& o, int products, Bytes read, Bytes written) {
    const Heads s = Sizes(o);
    const double scores = static_cast<double>(s.batch * o.heads) * static_cast<double>(s.t) * static_cast<double>(s.t);
    return {Flops(2.0 * products * scores * static_cast<double>(s.head_dim) * (o.causal ? 0.5 : 1.0)), read, written};
  }
};

bool OneOf(const Tensor& t, DType a, DType b) { return t.dtype() == a || t.dtype() == b; }
bool Like(const Tensor& a, const Tensor& b) { return a.numel() == b.numel() && a.dtype() == b.dtype(); }
bool Wide(const Tensor& t, const Tensor& like, int64_t numel) {  // "(f32)" with `numel` elements
  return t.numel() == numel && t.dtype() == AccumulationType(like.dtype());
}

struct ShapeRule {
  void operator()(const MatMul& o) const {
    Expect(o.a.shape().rank() == 2 && o.b.shape().rank() == 2 && o.out.shape().rank() == 2, "matmul", {&o.a, &o.b, &o.out});
    const Product p = Sizes(o);
    Expect(p.k == p.k_of_b && o.out.dim(0) == p.m && o.out.dim(1) == p.n && o.a.dtype() == o.b.dtype() &&
               IsFloat(o.out.dtype()) && (o.bias.empty() || (o.bias.numel() == p.n && o.bias.dtype() == o.a.dtype())),
           Key(o).name, {&o.a, &o.b, &o.out, &o.bias});
  }
  void operator()(const Fill&) const {}
  void operator()(const Cast& o) const { Expect(o.in.numel() == o.out.numel(), "cast", {&o.in, &o.out}); }
  void operator()(const Add& o) const { Expect(Like(o.a, o.b) && Like(o.a, o.out), "add", {&o.a, &o.b, &o.out}); }
  void operator()(const AddTo& o) const { Expect(o.in.numel() == o.out.numel(), "add_to", {&o.in, &o.out}); }
  void operator()(const Scale& o) const {
    Expect(o.by.empty() || o.by.numel() == 1, "scale", {&o.x, &o.by});
  }
  void operator()(const ActivationForward& o) const { Expect(Like(o.x, o.y), "activation_forward", {&o.x, &o.y}); }
  void operator()(const ActivationBackward& o) const {
    Expect(Like(o.x, o.dy) && Like(o.x, o.dx), "activation_backward", {&o.x, &o.dy, &o.dx});
  }
  void operator()(const Dropout& o) const { Expect(Like(o.x, o.y), "dropout", {&o.x, &o.y}); }
  void operator()(const ColumnSum& o) const { Expect(o.in.dim(-1) == o.out.numel(), "column_sum", {&o.in, &o.out}); }
  void operator()(const EmbeddingForward& o) const {
    Expect(OneOf(o.ids, DType::kI32, DType::kU8) && o.table.dim(-1) == o.out.dim(-1) && Rows(o.out) == o.ids.numel() &&
               o.table.dtype() == o.out.dtype(), "embedding_forward", {&o.ids, &o.table, &o.out});
  }
  void operator()(const EmbeddingBackward& o) const {
    Expect(OneOf(o.ids, DType::kI32, DType::kU8) && o.dtable.dim(-1) == o.dy.dim(-1) && Rows(o.dy) == o.ids.numel(),
           "embedding_backward", {&o.ids, &o.dy, &o.dtable});
  }
  void operator()(const PositionForward& o) const {
    Expect(o.x.shape().rank() == 3 && o.table.dim(0) >= o.x.dim(1) && o.table.dim(1) == o.x.dim(2) && Like(o.x, o.out),
           "position_forward", {&o.x, &o.table, &o.out});
  }
  void operator()(const PositionBackward& o) const {
    Expect(o.dy.shape().rank() == 3 && o.dtable.dim(0) >= o.dy.dim(1) && o.dtable.dim(1) == o.dy.dim(2),
           "position_backward", {&o.dy, &o.dtable});
  }
  void operator()(const LayerNormForward& o) const {
    const int64_t c = o.x.dim(-1);
    Expect(Like(o.x, o.y) && o.gamma.numel() == c && o.beta.numel() == c && Wide(o.mean, o.x, Rows(o.x)) &&
               Wide(o.rstd, o.x, Rows(o.x)), "layer_norm_forward", {&o.x, &o.gamma, &o.beta, &o.y, &o.mean, &o.rstd});
  }
  void operator()(const LayerNormBackward& o) const {
    Expect(Like(o.x, o.dy) && Like(o.x, o.dx) && o.gamma.numel() == o.x.dim(-1) && Wide(o.mean, o.x, Rows(o.x)) &&
               Wide(o.rstd, o.x, Rows(o.x)), "layer_norm_backward", {&o.dy, &o.x, &o.gamma, &o.mean, &o.rstd, &o.dx});
  }
  void operator()(const LayerNormWeights& o) const {
    const int64_t c = o.x.dim(-1);
    Expect(Like(o.x, o.dy) && o.dgamma.numel() == c && o.dbeta.numel() == c && o.dgamma.dtype() == o.dbeta.dtype(),
           "layer_norm_weights", {&o.dy, &o.x, &o.mean, &o.rstd, &o.dgamma, &o.dbeta});
  }
  void operator()(const AttentionForward& o) const { Attention(o, "attention_forward"); }
  void operator()(const AttentionBackward& o) const {
    Attention(o, "attention_backward");
    Expect(Like(o.qkv, o.dqkv) && Like(o.out, o.dout), "attention_backward", {&o.qkv, &o.out, &o.lse, &o.dout, &o.dqkv});
  }
  void operator()(const CrossEntropyForward& o) const {
    Expect(o.logits.shape().rank() == 2 && o.targets.numel() == o.logits.dim(0) && OneOf(o.targets, DType::kI32, DType::kU8) &&
               Wide(o.losses, o.logits, o.logits.dim(0)) && Wide(o.lse, o.logits, o.logits.dim(0)),
           "cross_entropy_forward", {&o.logits, &o.targets, &o.losses, &o.lse});
  }
  void operator()(const CrossEntropyBackward& o) const {
    Expect(o.logits.shape().rank() == 2 && o.targets.numel() == o.logits.dim(0) && Like(o.logits, o.dlogits) &&
               Wide(o.lse, o.logits, o.logits.dim(0)), "cross_entropy_backward", {&o.logits, &o.targets, &o.lse, &o.dlogits});
  }
  void operator()(const Sum& o) const { Expect(o.out.numel() == 1, "sum", {&o.in, &o.out}); }
  void operator()(const RandomFill& o) const { Expect(IsFloat(o.out.dtype()), "random_fill", {&o.out}); }
  void operator()(const SgdStep& o) const {
    const int64_t n = o.param.numel();
    Expect(o.grad.numel() == n && (o.momentum.empty() || Wide(o.momentum, o.param, n)) && Master(o.master, o.param), "sgd_step",
           {&o.param, &o.grad, &o.momentum, &o.master});
  }
  void operator()(const AdamStep& o) const {
    const int64_t n = o.param.numel();
    Expect(o.grad.numel() == n && Wide(o.m, o.param, n) && Wide(o.v, o.param, n) && Master(o.master, o.param), "adam_step",
           {&o.param, &o.grad, &o.m, &o.v, &o.master});
  }
  void operator()(const SquaredNorm& o) const { Expect(o.out.numel() == 1, "squared_norm", {&o.in, &o.out}); }
  void operator()(const ClipFactor& o) const {
    Expect(o.squared_norm.numel() == 1 && o.out.numel() == 1, "clip_factor", {&o.squared_norm, &o.out});
  }

  static bool Master(const Tensor& master, const Tensor& param) {
    const bool narrow = param.dtype() == DType::kBF16 || param.dtype() == DType::kF16;
    return narrow ? master.numel() == param.numel() && master.dtype() == DType::kF32 : master.empty();
  }
  template <class A>
  static void Attention(const A& o, std::string_view name) {
    Expect(o.qkv.shape().rank() == 3 && o.heads % o.kv_heads == 0 && o.qkv.dim(2) % (o.heads + 2 * o.kv_heads) == 0, name,
           {&o.qkv, &o.out, &o.lse});
    const Heads s = Sizes(o);
    Expect(o.out.numel() == s.batch * s.t * o.heads * s.head_dim && o.out.dtype() == o.qkv.dtype() &&
               Wide(o.lse, o.qkv, s.batch * o.heads * s.t), name, {&o.qkv, &o.out, &o.lse});
  }
};

int64_t RoundUp(int64_t n, int64_t to) { return (n + to - 1) / to * to; }

// A CPU's scratch memory. Products of narrow types are computed on f32 copies. Attention takes one head after another:
// a tile of scores, and f32 copies of the head for narrow types. A narrow table's gradient needs its rows in order of
// their ids, to round each element once. None depends on the number of threads.
struct CpuWorkspace {
  Bytes operator()(const MatMul& o) const {
    const Product p = Sizes(o);
    const DType wide = AccumulationType(o.a.dtype());
    int64_t elements = 0;
    if (o.a.dtype() != wide) elements += RoundUp(p.m * p.k, 16) + RoundUp(p.k * p.n, 16);
    if (o.out.dtype() != wide) elements += RoundUp(p.m * p.n, 16);
    return Bytes(elements * ElementSize(wide));
  }
  Bytes operator()(const AttentionForward& o) const { return Attention(o, 1, 4); }
  Bytes operator()(const AttentionBackward& o) const { return Attention(o, 2, 8); }
  Bytes operator()(const EmbeddingBackward& o) const {
    const bool narrow = o.dtable.dtype() != AccumulationType(o.dtable.dtype());
    return Bytes(narrow ? RoundUp(o.ids.numel(), 16) * ElementSize(DType::kI32) : 0);
  }
  template <class Other>
  Bytes operator()(const Other&) const { return Bytes(0); }

  // `tiles` score tiles of kAttentionTile rows and `copies` whole heads (narrow types).
  template <class A>
  Bytes Attention(const A& o, int tiles, int copies) const {
    const Heads s = Sizes(o);
    const DType wide = AccumulationType(o.qkv.dtype());
    int64_t elements = tiles * RoundUp(std::min<int64_t>(kAttentionTile, s.t) * s.t, 16);
    if (o.qkv.dtype() != wide) elements += copies * RoundUp(s.t * s.head_dim, 16);
    return Bytes(elements * ElementSize(wide));
  }
  static constexpr int64_t kAttentionTile = 128;
};

}  // namespace

KernelKey Key(const Op& op) { return std::visit(KeyRule{}, op); }
Cost CostOf(const Op& op) { return std::visit(CostRule{}, op); }
void CheckShapes(const Op& op) { std::visit(ShapeRule{}, op); }
Bytes Workspace(const Op& op, DeviceKind kind, int /*threads*/) {
  return kind == DeviceKind::kCpu ? std::visit(CpuWorkspace{}, op) : Bytes(0);
}

}  // namespace twofold::ops
