// The operations: values that know their shapes, their cost and their workspace. Devices run them.
//
// Adding one: a struct here, a row in `Op`, its rules in ops.cc, a kernel in each kernels/ folder (std::visit makes the
// compiler ask for it). Conventions:
//   * tensors are contiguous and row-major; "rows" are all dimensions but the last;
//   * `accumulate` adds to the output instead of writing it;
//   * float tensors of one operation share a dtype, but for those marked (acc), which may have any float dtype
//     (gradients may be wider than parameters), and those marked (f32), which are F64 when the others are F64, else F32;
//   * every operation is deterministic for a given number of threads.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>
#include <variant>

#include "core/base/philox.h"
#include "core/base/units.h"
#include "core/tensor/tensor.h"

namespace twofold::ops {

// ---- Products ----
// out[m, n] = op(a) * op(b) (+ bias[n]); op transposes the last two dimensions as stored. a and b are 2-D.
struct MatMul {
  Tensor a, b, out /*(acc)*/, bias /* may be empty */;
  bool transpose_a = false, transpose_b = false, accumulate = false;
};

// ---- Element by element ----
struct Fill { Tensor out; double value = 0; };
struct Cast { Tensor in, out; };                                   // any dtypes; a copy when they are equal
struct Add { Tensor a, b, out; };
struct AddTo { Tensor in, out /*(acc)*/; };                        // out += in
struct Scale { Tensor x; double factor = 1; Tensor by /* (f32)[1], may be empty: factor * by[0] */; };  // in place
struct ActivationForward { enum Kind { kRelu, kGelu } kind; Tensor x, y; };  // GELU: tanh form, as GPT-2
struct ActivationBackward { ActivationForward::Kind kind; Tensor x, dy, dx; };  // dx may be dy
// y = x * keep / (1 - p) with keep drawn from (key, element index); its own backward, applied to dy.
struct Dropout { Tensor x, y; double p = 0; PhiloxKey key; };

// ---- Rows ----
struct ColumnSum { Tensor in, out /*(acc)*/; bool accumulate = false; };  // out[c] = sum over rows
struct EmbeddingForward { Tensor ids /*I32 or U8*/, table /*[n, c]*/, out /*[.., c]*/; };
struct EmbeddingBackward { Tensor ids, dy, dtable /*(acc)*/; bool accumulate = false; };
struct PositionForward { Tensor x /*[b, t, c]*/, table /*[>= t, c]*/, out; };  // out = x + table[0:t]; may be in place
struct PositionBackward { Tensor dy, dtable /*(acc)*/; bool accumulate = false; };  // rows past t get 0 (or stay)
struct LayerNormForward { Tensor x, gamma, beta, y, mean /*(f32)[rows]*/, rstd /*(f32)[rows]*/; double eps = 1e-5; };
struct LayerNormBackward { Tensor dy, x, gamma, mean, rstd, dx; };
struct LayerNormWeights { Tensor dy, x, mean, rstd, dgamma /*(acc)*/, dbeta /*(acc)*/; bool accumulate = false; };

// ---- Attention, tiled: the score matrix is never stored ----
// qkv[b, t, (heads + 2 * kv_heads) * head_dim]: all queries, then all keys, then all values of a position.
// out[b, t, heads * head_dim]; lse (f32)[b, heads, t] = log of the softmax's denominator. Scale 1/sqrt(head_dim).
struct AttentionForward { Tensor qkv, out, lse; int64_t heads = 1, kv_heads = 1; bool causal = true; };
struct AttentionBackward { Tensor qkv, out, lse, dout, dqkv; int64_t heads = 1, kv_heads = 1; bool causal = true; };

// ---- Loss ----
// losses (f32)[rows] = -log softmax(logits)[target]; lse (f32)[rows].
struct CrossEntropyForward { Tensor logits /*[rows, classes]*/, targets /*I32 or U8 [rows]*/, losses, lse; };
// dlogits = scale * (softmax - onehot); may be logits itself.
struct CrossEntropyBackward { Tensor logits, targets, lse, dlogits; double scale = 1; };
struct Sum { Tensor in, out /*(f32)[1]*/; double factor = 1; bool accumulate = false; };  // out = factor * sum(in)

// ---- Random ----
// Element i of out is element first + i of the key's sequence: a shard draws its own part.
struct RandomFill {
  enum Distribution { kNormal, kUniform } distribution = kNormal;  // kNormal: mean a, deviation b; kUniform: [a, b)
  Tensor out;
  double a = 0, b = 1;
  PhiloxKey key;
  int64_t first = 0;
};

// ---- Optimizers. `master` (f32) is empty when the parameter is itself F32 or F64; otherwise it leads and the
// parameter is its rounded copy. grad (acc). ----
struct SgdStep {
  Tensor param, grad, momentum /*(f32), may be empty*/, master;
  double lr = 0, momentum_factor = 0, weight_decay = 0;
  bool nesterov = false;
};
struct AdamStep {  // Kingma and Ba 2015, algorithm 1, bias-corrected; decoupled decay as AdamW
  Tensor param, grad, m /*(f32)*/, v /*(f32)*/, master;
  double lr = 0, beta1 = 0.9, beta2 = 0.999, eps = 1e-8, weight_decay = 0;
  bool decoupled = true;
  int64_t step = 1;  // from 1
};
struct SquaredNorm { Tensor in, out /*(f32)[1]*/; bool accumulate = false; };  // sum of squares
struct ClipFactor { Tensor squared_norm, out; double max_norm = 1; };  // out = min(1, max_norm / (sqrt(sq) + 1e-6)), (f32)[1] both

using Op = std::variant<MatMul, Fill, Cast, Add, AddTo, Scale, ActivationForward, ActivationBackward, Dropout, ColumnSum,
                        EmbeddingForward, EmbeddingBackward, PositionForward, PositionBackward, LayerNormForward,
                        LayerNormBackward, LayerNormWeights, AttentionForward, AttentionBackward, CrossEntropyForward,
                        CrossEntropyBackward, Sum, RandomFill, SgdStep, AdamStep, SquaredNorm, ClipFactor>;

struct Cost {
  Flops flops;
  Bytes read, written;
  Bytes bytes() const { return read + written; }
};

// What a cost model looks a kernel up by. dims: products m, n, k; attention b*heads, t, head_dim; else rows, columns
// (element-wise: 1, numel).
struct KernelKey {
  std::string_view name;
  DType dtype;
  std::array<int64_t, 3> dims;
  friend bool operator==(const KernelKey&, const KernelKey&) = default;
};

enum class DeviceKind { kCpu, kCuda };

// ---- The rules ----
KernelKey Key(const Op& op);
Cost CostOf(const Op& op);
void CheckShapes(const Op& op);                        // aborts on a mismatch, printing the shapes
Bytes Workspace(const Op& op, DeviceKind kind, int threads);  // scratch memory the kernel is given, fixed by shape

constexpr DType AccumulationType(DType t) { return t == DType::kF64 ? DType::kF64 : DType::kF32; }  // "(f32)"

}  // namespace twofold::ops
