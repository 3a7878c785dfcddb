// Shapes of attention, and the checks of its kernels against the CPU.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>

#include "core/base/strings.h"
#include "tests/gpu/against_cpu.h"

namespace twofold::attention_cases {

struct AttentionCase {
  int64_t batch, t, heads, kv_heads, dim;
  bool causal;
  int64_t columns() const { return (heads + 2 * kv_heads) * dim; }
  Shape out() const { return {batch, t, heads * dim}; }
  std::string name() const {
    return StrCat("batch ", batch, " t ", t, " heads ", heads, " of ", kv_heads, " x ", dim, causal ? " causal" : "");
  }
};

// f32 and f64: another order of sums. f16 and bf16: probabilities have 11 and 8 bits, as the results do.
inline double Tolerance(DType type) {
  switch (type) {
    case DType::kF64: return 1e-12;
    case DType::kF32: return 1e-5;
    case DType::kF16: return 2e-3;
    default: return 1e-2;
  }
}
inline constexpr DType kTypes[] = {DType::kF64, DType::kF32, DType::kBF16, DType::kF16};

// Sums of t probabilities of about e^(0.5) / t: what a log-sum-exp is near to.
inline Tensor SomeLse(Operands& o, Shape shape, int64_t keys) {
  return o.WideNormal(shape, 0.3, 0.5 + std::log(static_cast<double>(keys)));
}

inline void CheckForward(DType type, const AttentionCase& a, const OnDevice& device = OnDevice()) {
  SCOPED_TRACE(StrCat(DTypeName(type), " forward ", a.name()));
  ExpectLikeCpu(
      type, Tolerance(type),
      [&](Operands& o) -> ops::Op {
        return ops::AttentionForward{.qkv = o.Normal({a.batch, a.t, a.columns()}),
                                     .out = o.Out(a.out()),
                                     .lse = o.WideOut({a.batch, a.heads, a.t}),
                                     .heads = a.heads,
                                     .kv_heads = a.kv_heads,
                                     .causal = a.causal};
      },
      device);
}
inline void CheckBackward(DType type, const AttentionCase& a, const OnDevice& device = OnDevice()) {
  SCOPED_TRACE(StrCat(DTypeName(type), " backward ", a.name()));
  ExpectLikeCpu(
      type, Tolerance(type),
      [&](Operands& o) -> ops::Op {
        return ops::AttentionBackward{.qkv = o.Normal({a.batch, a.t, a.columns()}),
                                      .out = o.Normal(a.out(), 0.5),
                                      .lse = SomeLse(o, {a.batch, a.heads, a.t}, a.t),
                                      .dout = o.Normal(a.out()),
                                      .dqkv = o.Out({a.batch, a.t, a.columns()}),
                                      .heads = a.heads,
                                      .kv_heads = a.kv_heads,
                                      .causal = a.causal};
      },
      device);
}

// A rectangle of longer tensors; q and kv may be of different widths.
struct BlockCase {
  ops::AttentionBlock block;
  int64_t batch, tq, tk;
  int64_t more_columns = 0;  // of q before its end, and of kv before its keys
  std::string name() const {
    return StrCat("rectangle ", block.queries, " x ", block.keys, " heads ", block.heads, " of ", block.kv_heads, " x ",
                  block.head_dim, block.causal ? " causal" : "");
  }
  int64_t q_columns() const { return block.heads * block.head_dim + more_columns; }
  int64_t kv_columns() const { return 2 * block.kv_heads * block.head_dim + more_columns; }
  Shape out() const { return {batch, tq, block.heads * block.head_dim}; }
  Shape lse() const { return {batch, block.heads, tq}; }
};
inline constexpr BlockCase kBlocks[] = {
    {.block = {.heads = 2,
               .kv_heads = 1,
               .head_dim = 64,
               .first_query = 3,
               .queries = 70,
               .first_key = 5,
               .keys = 131,
               .causal = false},
     .batch = 2,
     .tq = 80,
     .tk = 140,
     .more_columns = 16},
    {.block = {.heads = 2,
               .kv_heads = 2,
               .head_dim = 128,
               .first_query = 40,
               .queries = 67,
               .first_key = 20,
               .keys = 67,
               .causal = true},
     .batch = 1,
     .tq = 110,
     .tk = 90},
    {.block = {.heads = 1,
               .kv_heads = 1,
               .head_dim = 80,
               .first_query = 0,
               .queries = 33,
               .first_key = 0,
               .keys = 1,
               .causal = false},
     .batch = 1,
     .tq = 33,
     .tk = 2,
     .more_columns = 8},
    {.block = {.heads = 2,
               .kv_heads = 1,
               .head_dim = 136,
               .first_query = 1,
               .queries = 40,
               .first_key = 2,
               .keys = 40,
               .causal = true},
     .batch = 1,
     .tq = 45,
     .tk = 45},
};

// What lies outside the rectangle stays, so that results are operands too.
inline void CheckRectangle(DType type, const BlockCase& a, bool add, const OnDevice& device = OnDevice()) {
  SCOPED_TRACE(StrCat(DTypeName(type), " forward ", a.name(), add ? " merged" : ""));
  ExpectLikeCpu(
      type, Tolerance(type),
      [&](Operands& o) -> ops::Op {
        return ops::AttentionBlockForward{.q = o.Normal({a.batch, a.tq, a.q_columns()}),
                                          .kv = o.Normal({a.batch, a.tk, a.kv_columns()}),
                                          .out = o.InOut(o.WideNormal(a.out())),
                                          .lse = o.InOut(SomeLse(o, a.lse(), a.block.keys)),
                                          .block = a.block,
                                          .merge = add};
      },
      device);
}

}  // namespace twofold::attention_cases
