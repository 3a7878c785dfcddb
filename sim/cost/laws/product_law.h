// The time of matrix products: one law for all GPUs, with the constants of cluster.ProductLaw.
//
// Tiles. The result y[m, n] = x[m, k] W[n, k]^T is cut into tiles of r x c, each computed by one of M multiprocessors
// in steps along k (CUTLASS, "Efficient GEMM in CUDA"). k may be split s ways, whose parts are added up from memory:
//   step(r, c) = |2 r c M / tflops, (r + c) element / load|_3             of one k: multiplying hides loading
//   tiles      = ceil(m / r) ceil(n / c) s;  f = tiles / M;  waves = ceil(f) + evenness (max(1, f) - ceil(f))
//   T(r, c)    = min over s of  waves (ceil(k / s) step + tile_us + store r c)
//                               + (s > 1: m n (4 s + 2) / partial + tile_us)
// Whole waves: NVIDIA, "Matrix Multiplication Background User's Guide", section 3. `evenness`: persistent kernels and
// stream-K (Osama et al. 2023) spread the last wave.
//
// Choice. A library guesses the best tile from its own figures, so the time is a mean over tiles, whose weights fall as
// T^-selectivity, of those within twice the best.
//
// Bounds. The mean C is joined with memory's time B = bytes / memory and with power's P:
//   P = flops / burst,  divided by  lasting + (1 - lasting) / (1 + flops / burst / settling)
// A GPU that multiplies on all multiprocessors exceeds its power limit after some hundred microseconds and lowers its
// clock; by how much, depends on the operands' content (He 2024, "Strangely, Matrix Multiplications on GPUs Run Faster
// When Given 'Predictable' Data!"), hence on the table's column.
//   seconds = |C, B, P (P / max(C, P))|_sharpness + call_us
// In training, products follow one another, so the GPU is at its power limit all the time, and operands are as random
// as normally distributed ones, while a benchmark's may be more predictable. With laws.training_tflops,
//   P = flops / the smaller of training_tflops and burst lasting
// That rate is calibrated on published runs: of A100 under Megatron-LM, 288 (experiments/studies/published_runs), and
// of H100 under llm.c, 594 (experiments/studies/other_frameworks). The best rates of random operands in short
// benchmarks
// ("maximum achievable matmul FLOPS": Bekman, Machine Learning Engineering, compute/accelerator) are 271 and 794.5, so
// the newer GPU is the more limited by power; the same share of that rate is assumed of GPUs without such a run. With
// A100's share, 1.06, products would take 30 % less time: laws.training_error is that. Products in fp8 are limited
// likewise, at a multiple of that rate (law_times.cc). fp8: x
// is quantised first by a kernel of its own, + m quantise_ns + 3 m k / quantise bytes; and at least host_us, joined by
// a norm of 6. Both are left out if an operation of its own has quantised x (ProductCall.quantised).
//
// Assumes: operands in the device's memory; rows that are multiples of 128 bytes (otherwise alignments of
// cluster.KernelLaws divide tflops and load).
// Ignores: which operand stays in the L2 cache; the GPU's temperature.
// Calibrated from: tables of m, n, k and times by `twofold calibrate --from`; experiments/studies/kernel_laws has the
// errors on shapes that were left out.
#pragma once

#include <cstdint>
#include <utility>

#include "core/proto/cluster.pb.h"
#include "sim/cost/laws/gpu_tiles.h"
#include "sim/cost/laws/product_shape.h"

namespace twofold {

struct ProductCall {
  ProductShape shape;        // batch matrices, each with tiles of its own
  double result_bytes = 2;   // per element of the result, read and written
  double alignment = 1;      // share of the rates that remains
  double rate = 1;           // factor on tflops and burst_tflops, for another type on the same multiprocessors
  double element_bytes = 0;  // of an operand; 0: 2 for bf16, 1 for fp8
  // One of a training's products: laws.training_tflops times this is the power limit, if the device has one; 0: alone
  double training = 0;
  bool quantised = false;  // the operands of an fp8 product are codes already

  friend bool operator==(const ProductCall&, const ProductCall&) = default;
  template <class H>
  friend H AbslHashValue(H state, const ProductCall& c) {
    return H::combine(std::move(state), c.shape.batch, c.shape.m, c.shape.n, c.shape.k, c.result_bytes, c.alignment,
                      c.rate, c.element_bytes, c.training, c.quantised);
  }
};

// Seconds. `laws` passes CheckLaws and `law` is one of its kind.
double ProductSeconds(const cluster::KernelLaws& laws, const cluster::ProductLaw& law, const ProductCall& call);

// The law of a type in the variant of laws.column, else the type's first; null if the type has none.
const cluster::ProductLaw* ProductLawOf(const cluster::KernelLaws& laws, std::string_view dtype);

// Half-width of the interval, as a share of the time: the p90 of residuals in the product's region; 0.3 without any.
double ProductError(const cluster::ProductLaw& law, double flops);

// Half-width where the rate of products in training is not known.
inline constexpr double kUnknownTrainingError = 0.3;

// The same for the rate that products sustain in training: laws.training_error, or its default.
double TrainingError(const cluster::KernelLaws& laws);
// Its part in a product that takes `seconds`: the share of them that the power limit alone would take. 0 if
// call.training is 0.
double TrainingError(const cluster::KernelLaws& laws, const cluster::ProductLaw& law, const ProductCall& call,
                     double seconds);

}  // namespace twofold
