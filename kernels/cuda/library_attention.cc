#include "kernels/cuda/library_attention.h"

#include <cmath>
#include <limits>
#include <utility>

#include "core/base/strings.h"

namespace twofold::cuda {
namespace {

template <class A>
LibraryAttention Of(AttentionPass pass, const A& o) {
  return {.pass = pass,
          .type = o.qkv.dtype(),
          .batch = o.qkv.dim(0),
          .rows = o.qkv.dim(1),
          .heads = o.heads,
          .kv_heads = o.kv_heads,
          .dim = o.qkv.dim(2) / (o.heads + 2 * o.kv_heads),
          .causal = o.causal};
}

using Dims = std::array<int64_t, 4>;
using Tensor4 = size_t;  // index into LibraryGraph::tensors

Dims Packed(const Dims& d) { return {d[1] * d[2] * d[3], d[2] * d[3], d[3], 1}; }
Dims Transposed(Dims d) {
  std::swap(d[2], d[3]);
  return d;
}

class Builder {
 public:
  explicit Builder(const LibraryAttention& a) : a_(a), graph_{.name = NameOf(a), .type = a.type} {}

  // The rows of heads in qkv or its gradient, and in out or its gradient.
  Tensor4 InQkv(GraphOperand operand, int64_t heads) {
    return Add({.dims = {a_.batch, heads, a_.rows, a_.dim},
                .strides = {a_.rows * a_.columns(), a_.dim, a_.columns(), 1},
                .type = GraphType::kNarrow,
                .operand = operand});
  }
  Tensor4 InQkvTransposed(GraphOperand operand, int64_t heads) {
    const Tensor4 t = InQkv(operand, heads);
    graph_.tensors[t].dims = Transposed(graph_.tensors[t].dims),
    graph_.tensors[t].strides = Transposed(graph_.tensors[t].strides);
    return t;
  }
  Tensor4 LikeOut(GraphOperand operand) {
    const int64_t columns = a_.heads * a_.dim;
    return Add({.dims = Heads(),
                .strides = {a_.rows * columns, a_.dim, columns, 1},
                .type = GraphType::kNarrow,
                .operand = operand});
  }
  Tensor4 NumberOfRow(GraphOperand operand) {
    return Add({.dims = RowNumbers(), .strides = Packed(RowNumbers()), .operand = operand});
  }
  Tensor4 Constant(float value) { return Add({.dims = {1, 1, 1, 1}, .strides = {1, 1, 1, 1}, .value = value}); }
  Tensor4 Operand(GraphOperand operand, const Dims& dims) {
    return Add({.dims = dims, .strides = Packed(dims), .operand = operand});
  }

  Dims Heads() const { return {a_.batch, a_.heads, a_.rows, a_.dim}; }
  Dims Scores() const { return {a_.batch, a_.heads, a_.rows, a_.rows}; }
  Dims RowNumbers() const { return {a_.batch, a_.heads, a_.rows, 1}; }

  Tensor4 Step(GraphStep step, std::vector<Tensor4> in, const Dims& dims, GraphType type = GraphType::kF32) {
    return To(step, std::move(in), Add({.dims = dims, .strides = Packed(dims), .type = type}));
  }
  Tensor4 To(GraphStep step, std::vector<Tensor4> in, Tensor4 out) {
    graph_.nodes.push_back({step, std::move(in), out});
    return out;
  }
  // The transpose of a tensor with such dims, as a view.
  Tensor4 ViewTransposed(Tensor4 of, GraphType type) {
    const GraphTensor& t = graph_.tensors[of];
    return To(GraphStep::kView, {of},
              Add({.dims = Transposed(t.dims), .strides = Transposed(t.strides), .type = type}));
  }

  Tensor4 ScaledScores(Tensor4 q, Tensor4 kt, Tensor4 scale) {
    return Step(GraphStep::kMultiply, {Step(GraphStep::kMatMul, {q, kt}, Scores()), scale}, Scores());
  }
  Tensor4 Masked(Tensor4 scores) {
    if (!a_.causal) return scores;
    const Tensor4 row = Step(GraphStep::kRow, {scores}, Scores(), GraphType::kI32);
    const Tensor4 column = Step(GraphStep::kColumn, {scores}, Scores(), GraphType::kI32);
    const Tensor4 seen = Step(GraphStep::kNotBefore, {row, column}, Scores(), GraphType::kBool);
    return Step(GraphStep::kSelect, {scores, Constant(-std::numeric_limits<float>::infinity()), seen}, Scores());
  }
  // Multiplies left and right for each head; for heads that share keys and values, sums the products.
  void SumOfHeads(Tensor4 left, Tensor4 right, GraphOperand operand) {
    if (a_.heads == a_.kv_heads)
      return static_cast<void>(To(GraphStep::kMatMul, {left, right}, InQkv(operand, a_.kv_heads)));
    const Tensor4 each = Step(GraphStep::kMatMul, {left, right}, Heads(), GraphType::kNarrow);
    To(GraphStep::kSum, {each}, InQkv(operand, a_.kv_heads));
  }

  void Forward();
  void Backward();
  LibraryGraph Take() { return std::move(graph_); }

 private:
  Tensor4 Add(GraphTensor t) {
    graph_.tensors.push_back(std::move(t));
    return graph_.tensors.size() - 1;
  }
  Tensor4 Scale() { return Constant(static_cast<float>(1 / std::sqrt(static_cast<double>(a_.dim)))); }

  const LibraryAttention a_;
  LibraryGraph graph_;
};

void Builder::Forward() {
  const Tensor4 q = InQkv(GraphOperand::kQ, a_.heads), kt = InQkvTransposed(GraphOperand::kK, a_.kv_heads);
  const Tensor4 s = Masked(ScaledScores(q, kt, Scale()));
  const Tensor4 largest = Step(GraphStep::kMaximum, {s}, RowNumbers());
  const Tensor4 e = Step(GraphStep::kExp, {Step(GraphStep::kSubtract, {s, largest}, Scores())}, Scores());
  const Tensor4 sum = Step(GraphStep::kSum, {e}, RowNumbers());
  To(GraphStep::kAdd, {largest, Step(GraphStep::kLog, {sum}, RowNumbers())}, NumberOfRow(GraphOperand::kLse));
  const Tensor4 p = Step(GraphStep::kDivide, {e, sum}, Scores(), GraphType::kNarrow);
  To(GraphStep::kMatMul, {p, InQkv(GraphOperand::kV, a_.kv_heads)}, LikeOut(GraphOperand::kOut));
}

void Builder::Backward() {
  const Tensor4 q = InQkv(GraphOperand::kQ, a_.heads), kt = InQkvTransposed(GraphOperand::kK, a_.kv_heads);
  const Tensor4 vt = InQkvTransposed(GraphOperand::kV, a_.kv_heads);
  const Tensor4 out = LikeOut(GraphOperand::kOut), dout = LikeOut(GraphOperand::kDOut), scale = Scale();

  const Tensor4 sums = Step(GraphStep::kSum, {Step(GraphStep::kMultiply, {dout, out}, Heads())}, RowNumbers());
  const Tensor4 delta = To(GraphStep::kMultiply, {sums, Constant(1)}, NumberOfRow(GraphOperand::kDelta));

  const Tensor4 shifted =
      Step(GraphStep::kSubtract, {ScaledScores(q, kt, scale), NumberOfRow(GraphOperand::kLse)}, Scores());
  const Tensor4 p = Step(GraphStep::kExp, {Masked(shifted)}, Scores());
  SumOfHeads(ViewTransposed(p, GraphType::kNarrow), dout, GraphOperand::kDV);

  const Tensor4 dp = Step(GraphStep::kMatMul, {dout, vt}, Scores());
  const Tensor4 ds = Step(GraphStep::kMultiply, {Step(GraphStep::kSubtract, {dp, delta}, Scores()), p}, Scores());
  const Tensor4 scaled = Step(GraphStep::kMultiply, {ds, scale}, Scores());
  SumOfHeads(ViewTransposed(scaled, GraphType::kNarrow), q, GraphOperand::kDK);

  const Tensor4 k = ViewTransposed(kt, GraphType::kNarrow);
  if (a_.repeatable) return static_cast<void>(To(GraphStep::kMatMul, {scaled, k}, InQkv(GraphOperand::kDQ, a_.heads)));
  const Tensor4 dq = To(GraphStep::kMatMul, {scaled, k}, Operand(GraphOperand::kDQSums, Heads()));
  To(GraphStep::kIdentity, {dq}, InQkv(GraphOperand::kDQ, a_.heads));
}

size_t Aligned(int64_t bytes) { return (static_cast<size_t>(bytes) + 511) / 512 * 512; }

}  // namespace

LibraryAttention Described(const ops::AttentionForward& o) { return Of(AttentionPass::kForward, o); }
LibraryAttention Described(const ops::AttentionBackward& o) { return Of(AttentionPass::kBackward, o); }

std::string NameOf(const LibraryAttention& a) {
  return StrCat(a.pass == AttentionPass::kForward ? "attention_forward " : "attention_backward ",
                std::string(DTypeName(a.type)), ", batch ", a.batch, " t ", a.rows, " heads ", a.heads, " of ",
                a.kv_heads, " x ", a.dim, a.causal ? " causal" : "");
}

std::string WhyNotVersion(int64_t version) {
  if (version >= kOldestCudnnVersion && version < 100000) return "";
  return StrCat("cuDNN has version ", version / 10000, ".", version / 100 % 100, ".", version % 100,
                "; its attention needs version ", kOldestCudnnVersion / 10000, ".", kOldestCudnnVersion / 100 % 100,
                " or newer, below 10");
}

std::string WhyNotCudnn(const LibraryAttention& a, int major, int64_t version) {
  if (std::string why = WhyNotVersion(version); !why.empty()) return why;
  if (a.type != DType::kBF16 && a.type != DType::kF16) return "cuDNN's attention supports only bf16 and f16";
  const int64_t most = a.pass == AttentionPass::kForward || major == 9 ? 256 : 128;
  if (a.dim % 8 != 0 || a.dim > most)
    return StrCat("cuDNN's attention needs head sizes that are multiples of 8 up to ", most, " here");
  if (a.rows < 2 || a.batch == 0) return "cuDNN's attention needs at least two tokens";
  return "";
}

std::vector<LibraryAttention> AskedFor(const LibraryAttention& a, AttentionKernels kernels, bool any_bits) {
  if (kernels == AttentionKernels::kOwn || kernels == AttentionKernels::kHopper) return {};
  LibraryAttention asked = a;
  asked.repeatable = true;
  std::vector<LibraryAttention> all = {asked};
  if ((kernels == AttentionKernels::kCudnn || any_bits) && a.pass == AttentionPass::kBackward) {
    asked.repeatable = false;
    all.push_back(asked);
  }
  return all;
}

int64_t FirstElement(const LibraryAttention& a, GraphOperand operand) {
  switch (operand) {
    case GraphOperand::kK:
    case GraphOperand::kDK: return a.heads * a.dim;
    case GraphOperand::kV:
    case GraphOperand::kDV: return (a.heads + a.kv_heads) * a.dim;
    default: return 0;
  }
}

LibraryGraph GraphOf(const LibraryAttention& a) {
  Builder builder(a);
  a.pass == AttentionPass::kForward ? builder.Forward() : builder.Backward();
  return builder.Take();
}

AttentionWorkspace WorkspaceOf(const LibraryAttention& a) {
  if (a.pass == AttentionPass::kForward) return {};
  const int64_t numbers = a.batch * a.heads * a.rows;
  return {.delta = Aligned(4 * numbers), .dq_sums = a.repeatable ? 0 : Aligned(4 * numbers * a.dim)};
}

std::string MoreWorkspace(const LibraryAttention& a, size_t workspace_bytes) {
  if (a.pass == AttentionPass::kForward || !a.repeatable) return "";
  const int64_t scores = ops::rules::CudaScoreGradients(a.batch * a.heads, a.rows).value();
  // Gradients of keys and values by query head, where heads share them.
  const size_t by_head = a.heads == a.kv_heads ? 0 : 2 * Aligned(2 * a.batch * a.heads * a.rows * a.dim);
  if (WorkspaceOf(a).bytes() + static_cast<size_t>(scores) + by_head <= workspace_bytes) return "";
  return StrCat("; a fixed order of sums needs cuda.attention_workspace_mib: ", (scores + (1 << 20) - 1) >> 20);
}

}  // namespace twofold::cuda
