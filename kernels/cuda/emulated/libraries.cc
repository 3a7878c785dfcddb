// Matrix products without a library: plain loops on the stream's thread.
//
// Of products of FP8 operands it refuses those that cuBLASLt's manual does not have ("cuBLAS Library" 13.0,
// cublasLtMatmul and "Narrow Precision Data Types Usage"). With TWOFOLD_EMULATED_FP8=NO_ALGORITHM it finds no algorithm
// for any of them, and with FAILS it finds one that then does not start.
#include "kernels/cuda/libraries.h"

#include <cmath>
#include <cstdlib>
#include <vector>

#include "kernels/cuda/algorithm_choice.h"
#include "kernels/cuda/capability.h"
#include "kernels/cuda/functions.h"
#include "kernels/cuda/launch.h"

namespace twofold::cuda {
namespace {

// Rounds to ten bits of mantissa, to nearest even.
float RoundedToTf32(float x) {
  if (!std::isfinite(x)) return x;
  const uint32_t bits = std::bit_cast<uint32_t>(x);
  return std::bit_cast<float>((bits + 0xfffu + ((bits >> 13) & 1)) & ~0x1fffu);
}

// Element (row, column) of FP8 codes, with the scales in cuBLASLt's layouts.
float Decoded(const LibraryMatrix& m, const void* codes, const float* scales, int64_t row, int64_t column) {
  constexpr int64_t kBlock = ops::kFp8Block, kAlign = ops::rules::kFp8ScalesAlign;
  const int64_t blocks = CeilDiv(CeilDiv(m.rows, kBlock), kAlign) * kAlign;
  const int64_t at = m.scales == LibraryScales::kOne           ? 0
                     : m.scales == LibraryScales::kInnerBlocks ? row / kBlock * m.columns + column
                                                               : column / kBlock * blocks + row / kBlock;
  return ops::rules::FromFp8(static_cast<const uint8_t*>(codes)[row + column * m.leading], m.format) * scales[at];
}

// op(m) of FP8 codes as Packed, below, has it.
std::vector<float> PackedCodes(const LibraryMatrix& m, bool transpose, bool by_rows, const void* codes,
                               const float* scales) {
  const bool outer_rows = by_rows != transpose;  // of the matrix as stored
  TWOFOLD_CHECK(m.scales == LibraryScales::kOne || !outer_rows, "blocks of scales lie along the columns");
  const int64_t outer = outer_rows ? m.rows : m.columns, inner = outer_rows ? m.columns : m.rows;
  std::vector<float> packed(static_cast<size_t>(outer * inner));
  for (int64_t o = 0; o < outer; ++o) {
    for (int64_t i = 0; i < inner; ++i)
      packed[static_cast<size_t>(o * inner + i)] = Decoded(m, codes, scales, outer_rows ? o : i, outer_rows ? i : o);
  }
  return packed;
}

// Copies op(m) of matrix `index` so that the inner dimension is contiguous: [outer, inner]. `by_rows`: the outer
// dimension is that of rows.
template <class A>
std::vector<A> Packed(const LibraryMatrix& m, bool transpose, bool by_rows, int64_t index, const void* data,
                      bool tf32) {
  const int64_t rows = transpose ? m.columns : m.rows, columns = transpose ? m.rows : m.columns;
  const int64_t outer = by_rows ? rows : columns, inner = by_rows ? columns : rows;
  std::vector<A> packed(static_cast<size_t>(outer * inner));
  ForFloat(m.type, [&]<class T>() {
    const T* from = static_cast<const T*>(data) + index * m.batch_stride;
    for (int64_t o = 0; o < outer; ++o) {
      for (int64_t i = 0; i < inner; ++i) {
        int64_t row = by_rows ? o : i, column = by_rows ? i : o;
        if (transpose) std::swap(row, column);
        A x = As<A>(from[row + column * m.leading]);
        if constexpr (std::is_same_v<A, float>) x = tf32 && m.type == DType::kF32 ? RoundedToTf32(x) : x;
        packed[static_cast<size_t>(o * inner + i)] = x;
      }
    }
  });
  return packed;
}

template <class A>
A Dot(const A* a, const A* b, int64_t n) {
  constexpr int kLanes = 8;  // parallel sums, for the compiler's vector instructions
  A sums[kLanes] = {}, sum = 0;
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (int lane = 0; lane < kLanes; ++lane) sums[lane] += a[i + lane] * b[i + lane];
  }
  for (; i < n; ++i) sum += a[i] * b[i];
  for (A of_lane : sums) sum += of_lane;
  return sum;
}

template <class A>
void MultiplyNow(const LibraryProduct& p, const Libraries::Operands& on, bool tf32) {
  const auto alpha = static_cast<A>(p.alpha), beta = static_cast<A>(p.beta);
  for (int64_t i = 0; i < p.batch; ++i) {
    std::vector<A> a, b;
    if constexpr (std::is_same_v<A, float>) {
      if (p.fp8()) {
        a = PackedCodes(p.a, p.transpose_a, true, on.a, on.a_scales);
        b = PackedCodes(p.b, p.transpose_b, false, on.b, on.b_scales);
      }
    }
    if (!p.fp8()) {
      a = Packed<A>(p.a, p.transpose_a, true, i, on.a, tf32);
      b = Packed<A>(p.b, p.transpose_b, false, i, on.b, tf32);
    }
    ForFloat(p.d.type, [&]<class D>() {
      D* const d = static_cast<D*>(on.d) + i * p.d.batch_stride;
      const D* const bias = static_cast<const D*>(on.bias);
      D* const aux = static_cast<D*>(on.aux);
      for (int64_t column = 0; column < p.d.columns; ++column) {
        for (int64_t row = 0; row < p.d.rows; ++row) {
          D* const to = d + row + column * p.d.leading;
          A sum = alpha *
                  Dot(&a[static_cast<size_t>(row * p.inner())], &b[static_cast<size_t>(column * p.inner())], p.inner());
          if (beta != 0) sum += beta * As<A>(*to);
          if (p.bias) sum += As<A>(bias[row]);
          const int64_t at = row + column * p.d.leading;
          if (p.epilogue == ops::MatMul::kGelu) {
            Store(aux + at, sum);
            sum *= GeluGate<A>(sum);
          } else if (p.epilogue == ops::MatMul::kGeluSlope) {
            sum *= GeluSlope<A>(As<A>(aux[at]));
          }
          Store(to, sum);
        }
      }
    });
  }
}

bool Aligned(const void* address) { return AlignmentOf(address) == 16; }

// What the manual demands of FP8 operands on a GPU; "" if the product has it.
std::string WhyNotInManual(const LibraryProduct& p, const Libraries::Operands& on, Capability gpu) {
  using ops::Fp8Format;
  const bool any_layout = gpu.major == 10 || gpu.major == 11,
             e5m2_twice = p.a.format == Fp8Format::kE5M2 && p.b.format == Fp8Format::kE5M2;
  if (gpu.number() < 89) return "no FP8 before 8.9";
  if (!any_layout && (!p.transpose_a || p.transpose_b)) return "FP8 in another layout than TN";
  if (e5m2_twice) return "E5M2 in both operands";
  for (const LibraryMatrix* m : {&p.a, &p.b, &p.d}) {
    if (m->leading * ElementSize(m->type) % 16 != 0 || m->rows % 16 != 0 || m->columns % 16 != 0)
      return "FP8 sizes that are not multiples of 16";
  }
  if (!Aligned(on.a) || !Aligned(on.b) || !Aligned(on.d)) return "FP8 operands that are not aligned";
  if (p.a.scales == LibraryScales::kOne && p.b.scales == LibraryScales::kOne) return "";
  if (p.a.scales == LibraryScales::kOne || p.b.scales == LibraryScales::kOne) return "scales of blocks of one operand";
  if (gpu.number() != 90) return "scales of blocks on another GPU than 9.0";
  if (p.a.scales == LibraryScales::kSquares && p.b.scales == LibraryScales::kSquares) return "128 x 128 by 128 x 128";
  if (!Aligned(on.a_scales) || !Aligned(on.b_scales)) return "scales of blocks that are not aligned";
  return "";
}

}  // namespace

struct Libraries::Handles {
  Options options;
  Capability gpu = CapabilityOfCurrentGpu();
  std::string fp8 = [] {
    const char* const value = std::getenv("TWOFOLD_EMULATED_FP8");
    return std::string(value == nullptr ? "" : value);
  }();
};

Libraries::Libraries(const Options& options)
    : handles_(new Handles{.options = options}),
      convolutions_(options.tf32),
      attentions_(options.attention, options.time_algorithms),
      fp8_(options.own_fp8, CapabilityOfCurrentGpu(), kCublasWithFp8Blocks) {}
Libraries::~Libraries() = default;
std::vector<std::string> LibraryVersions() { return {"matrix products are loops of the emulation"}; }

void Libraries::Multiply(const LibraryProduct& p, const Operands& on, cudaStream_t stream) {
  emulated::EnqueueOnHost(stream, [p, on, tf32 = handles_->options.tf32] {
    p.arithmetic == DType::kF64 ? MultiplyNow<double>(p, on, tf32) : MultiplyNow<float>(p, on, tf32);
  });
}

bool Libraries::MultiplyFused(const LibraryProduct& p, const Operands& on, cudaStream_t stream) {
  if (p.arithmetic == DType::kF64) return false;
  Multiply(p, on, stream);
  return true;
}

std::string Libraries::WhyNoFp8(const LibraryProduct& p, const Operands& on, cudaStream_t) {
  const std::string why =
      handles_->fp8 == "NO_ALGORITHM" ? "it is told to refuse FP8" : WhyNotInManual(p, on, handles_->gpu);
  return why.empty() ? "" : "the emulation has no algorithm: " + why;
}

std::string Libraries::MultiplyFp8(const LibraryProduct& p, const Operands& on, cudaStream_t stream) {
  if (handles_->fp8 == "FAILS") return "the emulation is told to fail";
  Multiply(p, on, stream);
  return "";
}

}  // namespace twofold::cuda
