// What operations take on a GPU, by how their kernels fill it.
//
// A product's result is cut into tiles, each the work of one multiprocessor; tiles go in waves of as many as there are
// multiprocessors M, and the last wave takes as long as a full one ("tile and wave quantization": NVIDIA, Matrix
// Multiplication Background User's Guide, section 3). Where tiles are few, k is split among several multiprocessors, whose
// parts are added up from memory (CUTLASS, Efficient GEMM, "Parallelized Reductions"). The library takes the best tile:
//
//   product of b matrices [m, k] * [k, n]:  the larger of  bytes / memory  and, least over tiles r x c and splits s,
//     ceil(b ceil(m / r) ceil(n / c) s / M) * 2 r c (ceil(k / s) + tile_depth) / (peak * matmul_efficiency * e(r x c) / M)
//                                                            + (s > 1: m n (4 s + size of an element) / memory)
//     and no less than  flops / (peak * sustained_efficiency):  a GPU that multiplies on all multiprocessors reaches its limit of
//     power and lowers its clock, and where a wave leaves some idle the others run faster (He 2024, "Strangely, Matrix
//     Multiplications on GPUs Run Faster When Given 'Predictable' Data!")
//   attention, convolution:                 max(flops / (peak * the lesser efficiency), bytes / memory)
//   everything else:                        bytes / memory
//   each * factor + kernel_us;              memory = memory_bytes_per_second * memory_efficiency
//
// where e is less if rows of an operand lie at no multiple of 16 bytes, as they are then loaded in smaller pieces (the same guide,
// section 2, "Requirements to use tensor cores"): times `alignments.efficiency`, for products of one matrix;
// with the peak of the operation's element type (f16: that of bf16; a type without a figure: f32's). Splits are of products of
// one matrix, s = 1, 2, ... most_splits.
//
// Frameworks differ, and the file says in what. kernels.kernels.factor: they move more bytes than the operation has (a
// cross-entropy in many passes) or fewer (an addition that is fused into the kernel before it). kernels.kernels.launch_us: the
// forward pass is the interpreter's and the backward pass an engine's, or one launch updates many tensors.
// A sum beside a norm, or a GELU beside a product, that our operations do in one pass (sim/cost/passes.h) is a kernel of its own where
// the file names it among its kernels: add, add_to, gelu_forward, gelu_backward.
// separate_accumulation: a weight's gradient is a product of its own, and another kernel, of 3 m n elements, adds it up.
//
// Assumes: tiles of one kernel take equally long; a kernel begins when the one before it has ended.
// Ignores: caches, alignment of batched products and of results, what the layout of operands does otherwise.
// Calibrated from: what the cluster's file says. Those of experiments/studies/published_runs have these fields, the catalogue's have not.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "core/device/cost_model.h"
#include "core/proto/cluster.pb.h"
#include "sim/cost/tiled_products.h"

namespace twofold {

class GpuCostModel : public CostModel {
 public:
  // `device` has kernels that CheckKernels accepts, and a bandwidth and a peak for f32 above 0.
  explicit GpuCostModel(const cluster::Device& device);

  Estimate Time(const ops::Op& op) override;
  std::string Describe() const;  // one line for a report's notes

 private:
  double Tiled(const ProductShape& p, double peak, int64_t element_size, double aligned) const;  // seconds, but for what operands take
  double Peak(DType dtype) const;                                           // flops per second
  double Aligned(const ops::MatMul& product) const;                         // the efficiency that its operands' rows leave
  const cluster::Kernels::Kernel& Of(std::string_view kernel) const;         // the default where the file has none
  bool Names(std::string_view kernel) const;

  cluster::Device device_;
  double memory_;  // bytes per second
  TiledProducts products_;
};

// Whether `kernels` says what the model needs; the message begins with the field, value and what would be right. A device
// without kernels is fine.
absl::Status CheckKernels(const cluster::Device& device);

}  // namespace twofold
